"""A drawn log and a drawn job: the job's table is what the definition says, and every dropped record is named.

A job has windows, sessions or a row per record, and counts records that were sent again once or each time; or it joins
two topics by a range of their times.
"""

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from cutover.batch.recompute import recompute_windows
from cutover.definition import Count, Delta, Fixed, Join, Max, Min, Pipeline, Sessions, Sliding, SparkStream, Sum, Topic
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.pipeline import OutputMode
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import Settings
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import Event, fast, make_topic, send
from tests.support.jobs import (
    Write,
    append_to,
    count_sessions,
    count_windows,
    deduplicate,
    join_topics,
    merge_into,
    read_topic,
    run_job,
)
from tests.support.suite.depth import depth

RAW = (b"", b"{", b"null", b"[]", b'{"id": "7", "k": 3, "at": "x"}', b'{"id": 1.5, "k": "a"}')

BEFORE_1970 = -20_900 * 24 * 60  # minutes from the events' noon; the first watermark of Spark is the beginning of 1970

EVENTS = st.builds(
    Event,
    id=st.integers(-5, 1_000),
    minute=st.one_of(st.floats(-600, 3_000, width=32), st.just(float(BEFORE_1970))),
    key=st.sampled_from(["a", "b", "ä", "", None]),
    partition=st.integers(0, 1),
    logged=st.just(0.0),
    raw=st.one_of(st.none(), st.none(), st.none(), st.sampled_from(RAW)),
)


RANGES = [
    ("0 minutes", "30 minutes"),
    ("-2 hours", "0 minutes"),
    ("-10 minutes", "10 minutes"),
    ("1 minutes", "10 hours"),
    ("-3 hours", "-1 hours"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is sent before one run of the job: events, and which earlier ones are sent again."""

    events: list[Event]
    again: list[int]


RUNS = st.lists(
    st.builds(Run, events=st.lists(EVENTS, min_size=1, max_size=50), again=st.lists(st.integers(0, 200), max_size=12)),
    min_size=1,
    max_size=3,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is drawn of a job."""

    mode: OutputMode
    marks: bool
    rows: int  # in a micro-batch
    delay: str
    slide: str | None
    is_ungrouped: bool
    gap: str | None  # of sessions
    once: Literal["id", "id and time", "id forever"] | None  # what it deduplicates by; the last without a watermark
    between: tuple[str, str] | None  # of times of two topics that it joins
    right_delay: str

    def transform(self, records: DataFrame, right_records: DataFrame) -> DataFrame:
        """Return the job's query."""
        if self.between is not None:
            return join_topics(records, right_records, (self.delay, self.right_delay), self.between)
        unique, delay = records, None if self.once == "id forever" else self.delay
        if self.once is not None:
            readable = records.where("id IS NOT NULL AND at IS NOT NULL")
            unique = deduplicate(readable, delay, within=self.once == "id")
        if self.is_ungrouped:
            return unique.where("id % 5 <> 0")
        if self.gap is not None:
            return count_sessions(unique, self.delay, gap=self.gap)
        return count_windows(unique, delay if self.once is None else None, slide=self.slide)

    @property
    def is_possible(self) -> bool:
        """Return whether Spark has this mode for the query."""
        if self.between is not None:
            return self.mode != "complete" and (self.once, self.gap, self.is_ungrouped) == (None, None, True)
        if self.is_ungrouped:
            return self.mode != "complete" and self.gap is None
        if self.gap is not None:
            return self.mode != "update" and self.once is None
        return self.mode != "append" or self.once != "id forever"

    @property
    def is_merged(self) -> bool:
        """Return whether a function of foreachBatch writes its table."""
        return self.mode == "update"


JOBS = st.builds(
    Job,
    mode=st.sampled_from(["append", "complete", "update"]),
    marks=st.booleans(),
    rows=st.integers(2, 30),
    delay=st.sampled_from(["0 seconds", "90 seconds", "10 minutes", "3 hours"]),
    slide=st.sampled_from([None, "20 minutes", "1 hour"]),
    is_ungrouped=st.booleans(),
    gap=st.sampled_from([None, None, None, "1 millisecond", "10 minutes", "5 hours"]),
    once=st.sampled_from([None, "id", "id and time", "id forever"]),
    between=st.sampled_from([None, None, *RANGES]),
    right_delay=st.sampled_from(["0 seconds", "10 minutes", "1 day"]),
).filter(lambda job: job.is_possible)


def make_joined(grouped: Pipeline, between: tuple[str, str]) -> Pipeline:
    """Return the definition of a job that joins two topics."""
    assert grouped.stream is not None
    columns = {"k": "shop", "right_id": "click_id", "right_at": "clicked_at"}
    columns = {name: column for name, column in columns.items() if name != "right_at" or between[0].startswith("-")}
    measures: dict[str, Measure] = {
        "copies": Count(),
        "distance": Sum("right_id - id"),
        "is_gift": Min("right_id % 3 = 0"),
    }
    stream = replace(grouped.stream, output_mode="append", row_per_record=True, columns=columns)
    right = replace(grouped.source, name=f"{grouped.source.name}-right")
    join = Join(right=right, on={"k": "k"}, between=between, ids=("id", "id"))
    return replace(grouped, window=Fixed(hours=1), join=join, measures=measures, stream=stream)


def make_pipeline(job: Job, topic: str, place: Path) -> Pipeline:
    source = Topic(
        name=topic,
        schema="id bigint, k string, at timestamp",
        event_time="at",
        time_format="millis",
        parse="from_json",
    )
    if job.once is not None:
        source = replace(source, schema="id bigint NOT NULL, k string, at timestamp", record_id="id")
    stream = SparkStream(table=Delta(f"{place}/table"), checkpoint=f"{place}/checkpoint", output_mode=job.mode)
    grouped = Pipeline(
        name="drawn",
        source=source,
        key=("k",),
        window=Fixed(hours=1) if job.slide is None else Sliding(size="1 hour", every=job.slide),
        measures={"n": Count(), "ids": Sum("id"), "newest": Max("id")},
        stream=stream,
    )
    if job.between is not None:
        return make_joined(grouped, job.between)
    if job.gap is not None:
        return replace(grouped, window=Sessions(gap=job.gap))
    if not job.is_ungrouped:
        return grouped
    measures: dict[str, Measure] = {"copies": Count(), "shop": Max("k"), "oldest": Min("id"), "newest": Max("id")}
    columns = {"shop": "k", "oldest": "id", "newest": "id"}
    return replace(
        grouped,
        where="id % 5 <> 0",
        key=("id",),
        window=Fixed(hours=1),
        measures=measures,
        stream=replace(stream, row_per_record=True, columns=columns),
    )


def make_write(job: Job, place: Path) -> Write | None:
    if not job.is_merged:
        return None
    if job.between is not None:
        return append_to(f"{place}/table")
    return append_to(f"{place}/table") if job.is_ungrouped else merge_into(f"{place}/table", marks=job.marks)


def list_sent(runs: list[Run], job: Job) -> list[list[Event]]:
    """Return the events of each run. An id that recurs is sent again as it was if the job deduplicates."""
    sent: list[list[Event]] = []
    for run in runs:
        earlier = [event for events in sent for event in events if event.raw is None]
        events = run.events
        if job.once is not None:
            events = [replace(event, id=len(earlier) + number) for number, event in enumerate(events)]
        again = [earlier[index % len(earlier)] for index in run.again if earlier]
        here = [events[index % len(events)] for index in run.again[::2]]
        sent.append([*events[: len(events) // 2], *again, *events[len(events) // 2 :], *here])
    return sent


@depth(3, 60)
@given(runs=RUNS, job=JOBS)
def test_a_drawn_job_is_reproduced(spark: SparkSession, kafka_settings: Settings, runs: list[Run], job: Job) -> None:
    with TemporaryDirectory() as folder:
        place, topic = Path(folder), f"drawn-{uuid.uuid4().hex}"
        home = fast(kafka_settings).model_copy(update={"home": place / "home", "lake": None})
        for name in (topic, f"{topic}-right"):
            make_topic(home, name, partitions=2)
        lake = PipelineLake(home, make_pipeline(job, topic, place))
        for number, events in enumerate(list_sent(runs, job)):
            is_joined = job.between is not None
            send(home, topic, events[::2] if is_joined else events)
            send(home, f"{topic}-right", events[1::2])
            records, right_records = (
                read_topic(spark, home, name, rows=job.rows) for name in (topic, f"{topic}-right")
            )
            mode = "append" if is_joined else job.mode
            run_job(job.transform(records, right_records), place, mode, make_write(job, place))
            if number % 2 == 0:
                run_driver(lake, until="drain")
        run_driver(lake, until="drain")
        recompute_windows(lake)
        finding = run_reconciliation(lake).finding

        if finding.verdict is Verdict.NOT_COMPARABLE:
            # A function that has got no rows yet has created no table.
            codes = {"nothing", "no_stream", "no_batch", *(() if delta.exists(f"{place}/table") else ["streaming_job"])}
            assert finding.seal.breaches[0].code in codes, finding.sentence
            return
        (table,) = finding.jobs
        assert (table.different, table.cells) == (0, ())
        assert finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
