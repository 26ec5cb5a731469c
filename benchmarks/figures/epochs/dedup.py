"""Cost of deduplication by record ids: epochs with and without an hour of stored ids, and complete logs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.peers import batch_jobs
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import events
from benchmarks.workloads.streams import Run, Streams, make_streams_over
from cutover.clock import SystemClock
from cutover.definition.model.pipeline import MINUTE, Pipeline
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.microbatch import dedup_state

EVENTS = 5_000  # per epoch, and per second of event time
EPOCHS = 16
WARM_UP = 3
HOUR = 60  # minutes of ids that are stored before the first epoch
ROWS = 200_000  # of the smaller log; the larger one has ten times as many
CAP = 500_000
DUPLICATE_EVERY = 1_000  # one in 1,000 events is sent twice


def measure_dedup(bench: Bench) -> Figure:
    """Measure an epoch with and without ids, a log by stream and by Spark batch, and ten times the log."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    small, large = (_fill_log(bench, f"dedup_{times}", bench.sized(ROWS * times), CAP) for times in (1, 10))
    live = _fill_log(bench, "dedup_live", epochs * EVENTS, EVENTS)
    samples = measure_interleaved(
        {
            "with ids": lambda number: _median_seconds(live.ours(_seed_ids(live, number, minutes=bench.sized(HOUR)))),
            "without": lambda number: _median_seconds(_without_ids(live).ours(number)),
            "log": lambda number: small.ours(number).seconds,
            "log x 10": lambda number: large.ours(number).seconds,
            "batch x 10": partial(_time_batch, bench, large),
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
        equal=(_check(live, bench.rounds), _check(large, bench.rounds)),
        notes=("Epochs: median `triggerExecution`. Logs: from the first trigger to the last commit.",),
        full=epochs >= EPOCHS,
    )


def _time_batch(bench: Bench, large: Streams, number: int) -> float:
    """Return the seconds of the Spark batch job, which is the same in every round."""
    del number
    return time_call(lambda: batch_jobs.count_distinct(bench.spark, PipelineLake(large.settings, large.pipeline)))


def _median_seconds(run: Run) -> float:
    return median(trigger.seconds for trigger in run.triggers[WARM_UP:])


def _fill_log(bench: Bench, name: str, rows: int, cap: int) -> Streams:
    """Fill a topic in which some events occur twice, and make the stream that counts them once."""
    pipeline = events.define(bench.settings, name, cap=cap)
    with_ids = replace(pipeline, source=replace(pipeline.source, record_id="id", id_horizon="1 hour"))
    return make_streams_over(bench, with_ids, rows=events.fill(bench.settings, name, _duplicate_some(rows)))


def _duplicate_some(rows: int) -> Iterator[tuple[int, bytes]]:
    for number, event in enumerate(events.generate_events(rows)):
        yield event
        if number % DUPLICATE_EVERY == 0:
            yield event


def _without_ids(live: Streams) -> Streams:
    """Make the same stream without record ids."""
    source = replace(live.pipeline.source, record_id=None, id_horizon=None)
    return replace(live, pipeline=replace(live.pipeline, name=f"{live.pipeline.name}_plain", source=source))


def _seed_ids(live: Streams, number: int, *, minutes: int) -> int:
    """Store the ids of the minutes before the events in the epoch log of a round; return the round's number."""
    pipeline = live.for_round(number)
    version = versions.open_or_create(PipelineLake(live.settings, pipeline), SystemClock())
    table = delta.ensure(version.uri, epoch_log_schema(pipeline), partition_by=["_kind"], configuration=delta.SHORT_LOG)
    for minute in range(minutes):
        begins = events.START_MILLIS * 1_000 - (minute + 1) * MINUTE
        times = np.linspace(begins, begins + MINUTE - 1, EVENTS * 60, dtype=np.int64)
        numbers = -np.arange(minute * EVENTS * 60 + 1, (minute + 1) * EVENTS * 60 + 1, dtype=np.int64)
        commits.append(table, dedup_state.make_id_rows(pa.table({"id": numbers, "event_time": times}), pipeline, 0))
    return number


def _check(streams: Streams, number: int) -> str:
    """Check that the stream has counted each event of the log once."""
    pipeline: Pipeline = streams.for_round(number)
    counts = _counts(PipelineLake(streams.settings, pipeline))
    counted_events = counts["accepted"] + counts["late"]
    if counted_events + counts["duplicate"] != streams.rows or counted_events != streams.rows - -(
        -counted_events // DUPLICATE_EVERY
    ):
        msg = f"Stream `{pipeline.name}`: of {streams.rows} records {counts}."
        raise AssertionError(msg)
    return (
        f"{pipeline.name}: {counted_events:,} of {streams.rows:,} records counted, {counts['duplicate']:,} sent twice"
    )


def _counts(lake: PipelineLake) -> dict[str, int]:
    version = versions.find_current_version(lake)
    if version is None:
        msg = f"Stream `{lake.name}`: expected an epoch log, found none."
        raise AssertionError(msg)
    records = EpochLog(version.uri).records()
    return {name: sum(record.counts[name] for record in records) for name in ("accepted", "late", "duplicate")}
