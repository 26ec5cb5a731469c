"""Trigger time of an epoch of 5,000 events, as reported by Spark: by sink, with lookups, with marks, and in Avro."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from unittest.mock import patch

import fastavro
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, ratio, value
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import events, yahoo
from benchmarks.workloads.streams import COLUMNS, Run, Streams, make_streams, make_streams_over
from cutover.definition import Lookup
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.engine.schema_store import SchemaStore
from cutover.lake.control import versions
from cutover.lake.dimensions import dimension
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import same_log
from cutover.lake.integrity.same_log import MarkReader
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.parsing.writer_schemas import WriterSchema
from cutover.samples import ad_views
from cutover.settings import Settings

EVENTS = 5_000  # per epoch
EPOCHS = 16  # per run
WARM_UP = 3  # epochs of a run that are not measured, while plans are compiled and tables created


def measure_epoch(bench: Bench) -> Figure:
    """Measure the median trigger time of each variant, by rounds."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    streams = make_streams(bench, "epoch", rows=epochs * EVENTS, cap=EVENTS)

    def time_epoch(run: Callable[[int], Run]) -> Callable[[int], float]:
        return lambda number: median(t.seconds for t in run(number).triggers[WARM_UP:])

    samples = measure_interleaved({name: time_epoch(run) for name, run in streams.variants.items()}, bench.rounds)
    return Figure(
        name="epoch",
        title="Trigger time of an epoch of 5,000 events",
        values=(
            ratio("epoch_noop", samples["ours"], samples["noop"]),
            ratio("epoch_hand_written", samples["ours"], samples["hand-written"]),
        ),
        sizes={"events_an_epoch": EVENTS, "epochs_a_round": epochs - WARM_UP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=streams.check(bench.rounds),
        notes=("A sample is the median `triggerExecution` of a round's epochs, as Spark reports it.",),
        full=epochs >= EPOCHS,
    )


DIMENSION_SIZES = (1_000, 100_000, 1_000_000)  # rows; the last one is beyond `dimensions.broadcast_rows`


def measure_lookup(bench: Bench) -> Figure:
    """Measure the median trigger time of an epoch, without a lookup and by the size of the dimension."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    streams = yahoo.fill_streams(bench, "lookup", rows=epochs * EVENTS, cap=EVENTS)
    plain = replace(streams.pipeline, lookups={}, where="event_type = 'view'", key=("ad_type",))
    variants = {"ours, no lookup": _make_lookup_timer(streams, replace(plain, name="lookup_none"))}
    for size in DIMENSION_SIZES:
        _write_dimension(bench.settings, f"ads_{size}", size)
        lookup = Lookup(table=f"ads_{size}", on={"ad_id": "ad_id"}, columns={"campaign_id": "string"})
        pipeline = replace(plain, name=f"lookup_{size}", lookups={"ads": lookup})
        variants[f"ours, {size:,} rows"] = _make_lookup_timer(streams, pipeline)
    samples = measure_interleaved(variants, bench.rounds)
    none = samples["ours, no lookup"]
    return Figure(
        name="lookup",
        title="An epoch of 5,000 events with a lookup",
        values=(
            ratio("lookup_small", samples["ours, 1,000 rows"], none),
            ratio("lookup_large", samples["ours, 1,000,000 rows"], none),
        ),
        sizes={"events_an_epoch": EVENTS, "epochs_a_round": epochs - WARM_UP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        notes=(
            "A sample is the median `triggerExecution` of a round's epochs. A million rows are partitioned by key.",
        ),
        full=epochs >= EPOCHS,
    )


def _make_lookup_timer(streams: Streams, pipeline: Pipeline) -> Callable[[int], float]:
    variant = replace(streams, pipeline=pipeline)
    return lambda number: median(t.seconds for t in variant.ours(number).triggers[WARM_UP:])


def _write_dimension(settings: Settings, name: str, size: int) -> None:
    """Write a dimension with the ads of the events, filled up to its size with other ads."""
    world = ad_views.world(yahoo.SEED)
    ids = [*world.ads, *(f"other-{number}" for number in range(size - len(world.ads)))]
    campaigns = [world.campaign_of(number % len(world.ads)) for number in range(size)]
    write_deltalake(dimension.own_uri(settings, name), pa.table({"ad_id": ids, "campaign_id": campaigns}))


COMPARISONS = 10


def measure_marks(bench: Bench) -> Figure:
    """Measure the median trigger time of an epoch with and without marks, and the time of one comparison."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    base = make_streams(bench, "marks", rows=epochs * EVENTS, cap=EVENTS)
    with_marks, without_marks = (
        replace(base, pipeline=replace(base.pipeline, name=f"marks_{name}")) for name in ("kept", "none")
    )

    def without(number: int) -> float:
        with patch.object(MarkReader, "last", lambda *_: {}):
            return _make_mark_timer(without_marks)(number)

    samples = measure_interleaved(
        {
            "ours": _make_mark_timer(with_marks),
            "ours, no marks": without,
            "a comparison": lambda _: _time_comparison(with_marks),
        },
        bench.rounds,
    )
    return Figure(
        name="marks",
        title="An epoch of 5,000 events with marks of its last records",
        values=(
            ratio("marks_epoch", samples["ours"], samples["ours, no marks"]),
            value("marks_comparison", samples["a comparison"]),
        ),
        sizes={"events_an_epoch": EVENTS, "epochs_a_round": epochs - WARM_UP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        notes=("A sample is the median `triggerExecution` of a round's epochs; of comparisons the median of ten.",),
        full=epochs >= EPOCHS,
    )


def _make_mark_timer(streams: Streams) -> Callable[[int], float]:
    return lambda number: median(t.seconds for t in streams.ours(number).triggers[WARM_UP:])


def _time_comparison(streams: Streams) -> float:
    """Return the median seconds of a comparison of the log with the latest marks of the first round."""
    version, client = (
        versions.list_stream_versions(PipelineLake(streams.settings, streams.for_round(0)))[-1],
        LogClient(streams.settings),
    )
    newest = EpochLog(version.uri).records()[-1]
    return median(
        time_call(lambda: same_log.find_rewritten_partitions(client, newest, tuple)) for _ in range(COMPARISONS)
    )


AVRO_SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "k", "type": "string"},
        {"name": "v", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
AVRO_HEAD = WriterSchema(id=1, text=None).head


def measure_avro(bench: Bench) -> Figure:
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
    schema = WriterSchema(id=1, text=json.dumps(AVRO_SCHEMA))
    path = Path(SchemaStore(settings).uri, "1.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": 1, "digest": schema.digest, "schema": schema.text}), encoding="utf-8")


def _encode_events(rows: int) -> Iterator[tuple[int, bytes]]:
    schema = fastavro.parse_schema(AVRO_SCHEMA)
    for log_time, text in events.generate_events(rows):
        stream = io.BytesIO(AVRO_HEAD)
        stream.seek(len(AVRO_HEAD))
        fastavro.schemaless_writer(stream, schema, json.loads(text))
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
