"""A drawn log and a drawn job: the job's table is what the definition says, and every dropped record is named."""

import uuid
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cutover.batch.recompute import recompute_windows
from cutover.definition import Count, Delta, Fixed, Max, Pipeline, Sliding, SparkStream, Sum, Topic
from cutover.definition.model.spark_stream import OutputMode
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import Settings
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import Event, fast, make_topic, send
from tests.support.jobs import count_windows, merge_into, read_topic, run_job
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is drawn of a job."""

    mode: OutputMode
    marks: bool
    rows: int  # in a micro-batch
    delay: str
    slide: str | None


JOBS = st.builds(
    Job,
    mode=st.sampled_from(["append", "complete", "update"]),
    marks=st.booleans(),
    rows=st.integers(2, 30),
    delay=st.sampled_from(["0 seconds", "90 seconds", "10 minutes", "3 hours"]),
    slide=st.sampled_from([None, "20 minutes", "1 hour"]),
)


def make_pipeline(job: Job, topic: str, place: Path) -> Pipeline:
    return Pipeline(
        name="drawn",
        source=Topic(
            name=topic,
            schema="id bigint, k string, at timestamp",
            event_time="at",
            time_format="millis",
            parse="from_json",
        ),
        key=("k",),
        window=Fixed(hours=1) if job.slide is None else Sliding(size="1 hour", every=job.slide),
        measures={"n": Count(), "ids": Sum("id"), "newest": Max("id")},
        stream=SparkStream(table=Delta(f"{place}/table"), checkpoint=f"{place}/checkpoint", output_mode=job.mode),
    )


@depth(3, 60)
@given(runs=st.lists(st.lists(EVENTS, min_size=1, max_size=60), min_size=1, max_size=3), job=JOBS)
def test_a_drawn_job_is_reproduced(
    spark: SparkSession, kafka_settings: Settings, runs: list[list[Event]], job: Job
) -> None:
    with TemporaryDirectory() as folder:
        place, topic = Path(folder), f"drawn-{uuid.uuid4().hex}"
        home = fast(kafka_settings).model_copy(update={"home": place / "home", "lake": None})
        make_topic(home, topic, partitions=2)
        lake = PipelineLake(home, make_pipeline(job, topic, place))
        for number, events in enumerate(runs):
            send(home, topic, events)
            records = read_topic(spark, home, topic, rows=job.rows)
            write = merge_into(f"{place}/table", marks=job.marks) if job.mode == "update" else None
            run_job(count_windows(records, job.delay, slide=job.slide), place, job.mode, write)
            if number % 2 == 0:
                run_driver(lake, until="drain")
        run_driver(lake, until="drain")
        recompute_windows(lake)
        finding = run_reconciliation(lake).finding

        if finding.verdict is Verdict.NOT_COMPARABLE:
            assert finding.seal.breaches[0].code in {"nothing", "no_stream", "no_batch"}, finding.sentence
            return
        (table,) = finding.jobs
        assert (table.different, table.cells) == (0, ())
        assert finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
