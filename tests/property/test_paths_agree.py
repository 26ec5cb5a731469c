"""Both paths over a real log and real tables: reference, stream and batch agree whatever the ends of epochs."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.batch import recompute
from cutover.definition import Pipeline
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.windows.kinds import Window
from cutover.engine import queries
from cutover.lake.tables import delta
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.records import reference
from cutover.settings import KafkaSettings, Settings, StreamSettings
from cutover.streaming import driver
from tests.integration.streaming.rig import over_topic
from tests.support.drivers.books import check_books, expected_rows, rows_of
from tests.support.drivers.fed import Fed, HandClock
from tests.support.log.logs import JOINS, WINDOWS, Joined, borders, ends_split, event_logs, pipelines, split, windows
from tests.support.log.real_log import Writer
from tests.support.pages.capabilities import kind_of, note_feature, note_measures
from tests.support.suite.depth import depth, is_nightly
from tests.support.suite.quick_spark import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ending = Literal["goes on", "restarted", "killed before", "killed after", "quiet"]
ENDINGS: tuple[Ending, ...] = ("goes on", "goes on", "restarted", "killed before", "killed after", "quiet")
QUIET_SECONDS = 61.0  # longer than `idle_after`


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A log, its pipeline, and the ends of its epochs and drivers."""

    log: tuple[RawRecord, ...]
    pipeline: Pipeline
    ends: tuple[Mapping[int, int], ...]
    endings: tuple[Ending, ...]
    overflow_rows: int


CASES = [
    *(
        pytest.param(st.just(window), None, id=f"{kind} {n}")
        for kind, some in WINDOWS.items()
        for n, window in enumerate(some)
    ),
    *(
        pytest.param(windows(kind), joined, id="-".join([kind, *joined]))
        for kind, joined in zip(cycle(WINDOWS), JOINS, strict=False)
    ),
]


@st.composite
def stories(draw: st.DrawFn, window: st.SearchStrategy[Window], joined: Joined | None) -> Story:
    log = draw(event_logs(max_size=60, gaps=True).filter(bool))
    ends = draw(borders(log, max_count=5))
    if joined is not None and is_nightly():
        joined = draw(st.sampled_from(JOINS))
    pipeline = draw(pipelines(topic="drawn", joined=joined, window=window))
    return Story(
        log=split(log, pipeline),
        pipeline=pipeline,
        ends=tuple(ends_split(end, pipeline) for end in ends),
        endings=tuple(draw(st.sampled_from(ENDINGS)) for _ in ends),
        overflow_rows=draw(st.sampled_from([200_000, 200_000, 4])),
    )


def installation(home: Path, bootstrap: str, overflow_rows: int = 200_000) -> Settings:
    return Settings(
        home=home,
        kafka=KafkaSettings(bootstrap_servers=bootstrap),
        spark=QUICK,
        stream=StreamSettings(trigger_seconds=0.01, heartbeat_seconds=0.2, reload_every=2, overflow_rows=overflow_rows),
    )


@pytest.fixture(scope="module")
def writer(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Writer:
    return Writer(installation(tmp_path_factory.mktemp("writer"), kafka_bootstrap))


def stream_epochs(fed: Fed, story: Story) -> None:
    """Read the log epoch by epoch. A driver that dies does so in a separate epoch, which is redone with another end.

    Each border ends at least one epoch, if there is anything to read before it.
    """
    for end, ending in zip(story.ends, story.endings, strict=True):
        if ending == "killed before":
            fed.feed_and_die(story.ends[-1], "epoch.aggregated")
        elif ending == "killed after":
            fed.feed_and_die(end, "epoch.committed")
        elif ending == "quiet":
            fed.clock.seconds += QUIET_SECONDS
            fed.poll()
        if ending in {"restarted", "killed before", "killed after"}:
            fed = fed.anew()
        fed.feed(end)


def assert_verdict(report: Report) -> None:
    """Every difference is late or duplicate."""
    unexplained = [d for d in report.finding.differences if "unexplained" in d.cause]
    if not report.finding.windows.compared:
        assert [breach.code for breach in report.finding.seal.breaches] == ["nothing"]
        return
    explained_rows = sum(report.finding.causes[name].rows for name in ("late", "duplicate"))
    assert (unexplained, report.finding.causes["unexplained"].rows) == ([], 0)
    assert report.finding.verdict is (Verdict.EXPLAINED if explained_rows else Verdict.CONSISTENT)


@pytest.mark.quick("sessions-one-full", "fixed-two-left")
@pytest.mark.parametrize(("window", "joined"), CASES)
@depth(few=2, many=20)
@given(data=st.data())
def test_reference_stream_and_batch_agree_wherever_epochs_end(
    spark: "SparkSession",
    writer: Writer,
    tmp_path_factory: pytest.TempPathFactory,
    window: st.SearchStrategy[Window],
    joined: Joined | None,
    data: st.DataObject,
) -> None:
    story = data.draw(stories(window, joined))
    settings = installation(
        tmp_path_factory.mktemp("agree"), str(writer.settings.kafka.bootstrap_servers), story.overflow_rows
    )
    pipeline = over_topic(story.pipeline, f"agree-{uuid.uuid4().hex[:8]}")
    writer.fill(pipeline, story.log)

    lake = PipelineLake(settings, pipeline)
    stream_epochs(Fed(spark, lake, HandClock()), story)
    driver.run_driver(lake, until="final")
    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)

    records = check_books(lake, story.log)
    truth = expected_rows(reference.compute_reference(pipeline, story.log))
    connection = queries.open_duckdb()
    delta.relation(connection, "batch", lake.batch_uri())
    epochs = [record for record in records if not record.final]
    alone = reference.compute_reference(pipeline, story.log, epochs=[record.end for record in epochs])
    assert dict(story.ends[-1]) == dict(records[-1].end)
    assert truth == rows_of(connection, pipeline, "SELECT * FROM batch")
    assert "quiet" in story.endings or alone.watermarks == tuple(record.watermark_after for record in epochs)
    assert_verdict(report)
    assert (report.finding.events.late > 0) == any(record.counts["late"] for record in records)
    note_feature(f"window: {kind_of(pipeline.window)}", "reference", "streaming", "batch")
    if pipeline.join is not None:
        in_range = ", between" if compile_pipeline(pipeline).interval else ""
        name = f"join: {type(pipeline.join).__name__}, {pipeline.join.how}{in_range}"
        note_feature(name, "reference", "streaming", "batch")
    if pipeline.source.record_id is not None:
        note_feature("record ids", "reference", "streaming", "batch")
    note_measures(pipeline.measures.values(), "reference", "streaming", "batch")
