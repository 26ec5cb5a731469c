"""What ids of records cost: the same epochs with and without them, an hour of ids in memory, and whole logs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.made.streams import Run, Streams, streams_of
from benchmarks.peers import batch_distinct
from benchmarks.rounds import interleaved, seconds
from benchmarks.shown.figure import Figure, ratio
from cutover.clock import SystemClock
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.record_ids import MINUTE
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.settings import Settings
from cutover.streaming.microbatch import dedup_state

EVENTS = 5_000  # an epoch, and a second of event time
EPOCHS = 16
WARM_UP = 3
HOUR = 60  # minutes of ids that are remembered before the first epoch
ROWS = 200_000  # of the smaller log; the larger one has ten times as many
CAP = 500_000
AGAIN = 1_000  # one of so many events is sent twice


def measure(bench: Bench) -> Figure:
    """Return the cost of an epoch, of a whole log beside Spark's batch, and of ten times the log."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    small, large = (_log(bench, f"dedup_{times}", bench.sized(ROWS * times), CAP) for times in (1, 10))
    live = _log(bench, "dedup_live", epochs * EVENTS, EVENTS)
    samples = interleaved(
        {
            "with ids": lambda number: _typical(live.ours(_seeded(live, number, minutes=bench.sized(HOUR)))),
            "without": lambda number: _typical(_plain(live).ours(number)),
            "log": lambda number: small.ours(number).seconds,
            "log x 10": lambda number: large.ours(number).seconds,
            "batch x 10": partial(_batch, bench, large),
        },
        bench.rounds,
    )
    return Figure(
        name="dedup",
        title="Records that are sent twice",
        values=(
            ratio("dedup_epoch", samples["with ids"], samples["without"]),
            ratio("dedup_batch", samples["log x 10"], samples["batch x 10"]),
            ratio("dedup_growth", samples["log x 10"], samples["log"]),
        ),
        sizes={
            "events_an_epoch": EVENTS,
            "ids_remembered": bench.sized(HOUR) * MINUTE // 1_000_000 * EVENTS,
            "rows_of_the_log": bench.sized(ROWS * 10),
            "cap_of_the_log": CAP,
            "rounds": bench.rounds,
        },
        unit="s",
        samples=samples,
        equal=(_checked(live, bench.rounds), _checked(large, bench.rounds)),
        notes=("Epochs: median `triggerExecution`. Logs: from the first trigger to the last commit.",),
        full=epochs >= EPOCHS,
    )


def _batch(bench: Bench, large: Streams, number: int) -> float:
    """Return how long Spark's own batch takes, the same job in every round."""
    del number
    return seconds(lambda: batch_distinct.run(bench.spark, large.settings, large.pipeline))


def _typical(run: Run) -> float:
    return median(trigger.seconds for trigger in run.triggers[WARM_UP:])


def _log(bench: Bench, name: str, rows: int, cap: int) -> Streams:
    """Fill a topic in which some events stand twice, and return the stream that counts them once."""
    pipeline = events.define(bench.settings, name, cap=cap)
    with_ids = replace(pipeline, source=replace(pipeline.source, record_id="id", id_horizon="1 hour"))
    return streams_of(bench, with_ids, sent=events.fill(bench.settings, name, _twice(rows)))


def _twice(rows: int) -> Iterator[tuple[int, bytes]]:
    for number, event in enumerate(events.stream_of(rows)):
        yield event
        if number % AGAIN == 0:
            yield event


def _plain(live: Streams) -> Streams:
    """Return the same stream without ids."""
    source = replace(live.pipeline.source, record_id=None, id_horizon=None)
    return replace(live, pipeline=replace(live.pipeline, name=f"{live.pipeline.name}_plain", source=source))


def _seeded(live: Streams, number: int, *, minutes: int) -> int:
    """Let the epoch log of a round hold the ids of the minutes before its events; return the round's number."""
    pipeline = live.renamed(number)
    version = versions.open_or_create(live.settings, pipeline, SystemClock())
    table = delta.ensure(version.uri, epoch_log_schema(pipeline), partition_by=["_kind"], configuration=delta.SHORT_LOG)
    for minute in range(minutes):
        begins = events.START_MILLIS * 1_000 - (minute + 1) * MINUTE
        times = np.linspace(begins, begins + MINUTE - 1, EVENTS * 60, dtype=np.int64)
        numbers = -np.arange(minute * EVENTS * 60 + 1, (minute + 1) * EVENTS * 60 + 1, dtype=np.int64)
        commits.append(table, dedup_state.rows(pa.table({"id": numbers, "event_time": times}), pipeline, 0))
    return number


def _checked(of: Streams, number: int) -> str:
    """Compare what was counted with what is in the log: each event once."""
    pipeline: Pipeline = of.renamed(number)
    counts = _counts(of.settings, pipeline)
    counted = counts["accepted"] + counts["late"]
    if counted + counts["duplicate"] != of.rows or counted != of.rows - -(-counted // AGAIN):
        msg = f"Stream `{pipeline.name}`: of {of.rows} records {counts}."
        raise AssertionError(msg)
    return f"{pipeline.name}: {counted:,} of {of.rows:,} records counted, {counts['duplicate']:,} sent twice"


def _counts(settings: Settings, pipeline: Pipeline) -> dict[str, int]:
    version = versions.current(settings, pipeline)
    if version is None:
        msg = f"Stream `{pipeline.name}`: expected an epoch log, found none."
        raise AssertionError(msg)
    records = EpochLog(version.uri).records()
    return {name: sum(record.counts[name] for record in records) for name in ("accepted", "late", "duplicate")}
