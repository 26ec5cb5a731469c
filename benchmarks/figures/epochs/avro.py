"""Trigger time of an epoch of records in Avro, divided by that of the same records in JSON."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import fastavro

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import events
from benchmarks.workloads.streams import COLUMNS, Streams, make_streams, make_streams_over
from cutover.engine import queries
from cutover.engine.schema_store import SchemaStore
from cutover.records.parsing.writer_schemas import WriterSchema
from cutover.settings import Settings

EVENTS = 5_000  # per epoch
EPOCHS = 16  # per run
WARM_UP = 3  # epochs of a run that are not measured
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "k", "type": "string"},
        {"name": "v", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
HEAD = WriterSchema(id=1, text=None).head


def measure(bench: Bench) -> Figure:
    """Measure the median trigger time of both topics, by rounds."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    rows = epochs * EVENTS
    json_streams = make_streams(bench, "epoch_json", rows=rows, cap=EVENTS)
    streams = {"json": json_streams, "avro": _make_avro_streams(bench, rows)}

    def time_epoch(variant: Streams) -> Callable[[int], float]:
        return lambda number: median(trigger.seconds for trigger in variant.ours(number).triggers[WARM_UP:])

    samples = measure_interleaved({name: time_epoch(variant) for name, variant in streams.items()}, bench.rounds)
    return Figure(
        name="avro",
        title="Trigger time of an epoch of 5,000 events in Avro",
        values=(ratio("avro_epoch", samples["avro"], samples["json"]),),
        sizes={"events_an_epoch": EVENTS, "epochs_a_round": epochs - WARM_UP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(_compare_folds(streams, bench.rounds),),
        notes=("The schema is stored, so no epoch asks a registry.",),
        full=epochs >= EPOCHS,
    )


def _make_avro_streams(bench: Bench, rows: int) -> Streams:
    pipeline = events.define(bench.settings, "epoch_avro", cap=EVENTS)
    events.fill(bench.settings, "epoch_avro", _encode_events(rows))
    _store_schema(bench.settings)
    return make_streams_over(bench, replace(pipeline, source=replace(pipeline.source, parse="avro")), rows=rows)


def _store_schema(settings: Settings) -> None:
    schema = WriterSchema(id=1, text=json.dumps(SCHEMA))
    path = Path(SchemaStore(settings).uri, "1.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": 1, "digest": schema.digest, "schema": schema.text}), encoding="utf-8")


def _encode_events(rows: int) -> Iterator[tuple[int, bytes]]:
    schema = fastavro.parse_schema(SCHEMA)
    for log_time, value in events.generate_events(rows):
        stream = io.BytesIO(HEAD)
        stream.seek(len(HEAD))
        fastavro.schemaless_writer(stream, schema, json.loads(value))
        yield log_time, stream.getvalue()


def _compare_folds(streams: dict[str, Streams], number: int) -> str:
    """Compare the results of both topics in a round; raise `AssertionError` if they differ."""
    with queries.open_duckdb() as connection:
        for name, variant in streams.items():
            connection.register(f"of_{name}", variant.fold_round(number, COLUMNS))
        different = "SELECT count(*) FROM (FROM of_json EXCEPT ALL FROM of_avro)"
        query = f"SELECT ({different}), (SELECT count(*) FROM of_json), (SELECT count(*) FROM of_avro)"
        only, rows, others = connection.execute(query).fetchall()[0]
    if only or rows != others:
        msg = f"Round {number}: {only} of {rows} rows in JSON differ from the {others} rows in Avro."
        raise AssertionError(msg)
    return f"our folds of both topics: {rows:,} (window, key) rows, all measures"
