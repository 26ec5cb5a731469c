"""Any order of what a driver, its operators and its producers may do: after each step the books are right."""

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from cutover.batch import recompute
from cutover.clock import Point
from cutover.definition import Pipeline
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient, RawRecord
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.records import reference
from cutover.settings import KafkaSettings, Settings, StreamSettings
from cutover.streaming import driver
from tests.integration.streaming.rig import over_topic
from tests.support.drivers.books import check_books, expected_rows, rows_of
from tests.support.drivers.fed import Fed, HandClock
from tests.support.log.logs import PARTITIONS, Send, ends_of, log_of, pipelines, sends
from tests.support.log.real_log import Writer
from tests.support.suite.depth import depth, is_nightly
from tests.support.suite.quick_spark import QUICK
from tests.support.suite.until import until

MOST_PARTITIONS = PARTITIONS + 2
VERY_LATE = 200_000  # seconds
DEATHS: tuple[Point, ...] = ("epoch.planned", "epoch.aggregated", "epoch.committed")
SOMETIMES = ("folded", "fenced", "killed", "late", "compared")
PROVEN_WITHOUT_BATCH = ("N1", "N2", "N3", "N6")


class Actions(RuleBasedStateMachine):
    """One installation; `self.driver` is the running one, None where there is none."""

    spark: ClassVar[SparkSession]
    writer: ClassVar[Writer]
    homes: ClassVar[pytest.TempPathFactory]
    occurrences: ClassVar[Counter[str]]  # what happened at least once over all runs

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.driver: Fed | None = None
        self.log: tuple[RawRecord, ...] = ()
        self.partitions = PARTITIONS
        self.records: Sequence[EpochRecord] = ()
        self.cut: EpochRecord | None = None  # of the newest batch run
        self.pipeline: Pipeline
        self.settings: Settings

    @initialize(
        pipeline=pipelines(),
        overflow=st.sampled_from([200_000, 200_000, 4]),
        reload=st.sampled_from([1, 3, 100]),
    )
    def install(self, pipeline: Pipeline, overflow: int, reload: int) -> None:
        """Make a topic and settings of this run's own."""
        self.pipeline = replace(over_topic(pipeline, f"actions-{uuid.uuid4().hex[:8]}"), max_rows_per_epoch=15)
        self.settings = Settings(
            home=self.homes.mktemp("actions"),
            kafka=KafkaSettings(bootstrap_servers=self.writer.settings.kafka.bootstrap_servers),
            spark=QUICK,
            stream=StreamSettings(
                trigger_seconds=0.01, heartbeat_seconds=0.2, fold_every=4, reload_every=reload, overflow_rows=overflow
            ),
        )
        self.writer.make(self.topic)

    @property
    def topic(self) -> str:
        return self.pipeline.source.name

    def write(self, sends: Sequence[Send]) -> None:
        in_partitions = [replace(one_send, partition=one_send.partition % self.partitions) for one_send in sends]
        more = log_of(in_partitions, preceding=self.log)
        self.writer.write(self.topic, more, preceding=self.log)
        self.log += more

    @rule(drawn_sends=st.lists(sends(partitions=MOST_PARTITIONS, gaps=True), min_size=1, max_size=25))
    def produce(self, drawn_sends: Sequence[Send]) -> None:
        self.write(drawn_sends)

    @rule(drawn_sends=st.lists(sends(partitions=MOST_PARTITIONS, latest=VERY_LATE), min_size=5, max_size=15))
    def late_burst(self, drawn_sends: Sequence[Send]) -> None:
        self.write([replace(one_send, wait=0, ahead=min(one_send.ahead, -one_send.wait)) for one_send in drawn_sends])

    @precondition(lambda self: self.partitions < MOST_PARTITIONS)
    @rule()
    def add_partition(self) -> None:
        self.partitions += 1
        admin = AdminClient({"bootstrap.servers": bootstrap_servers(self.settings)})
        admin.create_partitions([NewPartitions(self.topic, self.partitions)])[self.topic].result()
        client = LogClient(self.settings)
        until(lambda: len(client.high_watermarks(self.topic)) == self.partitions, within=10)

    @rule()
    def start(self) -> None:
        """Start a driver; the previous one ends between two epochs."""
        self.driver = self.started()

    def started(self) -> Fed:
        return Fed(self.spark, PipelineLake(self.settings, self.pipeline), self.clock)

    def border(self, share: Sequence[int]) -> dict[int, int]:
        """Return where an epoch ends that takes a share (percent) of what is unread in each partition."""
        assert self.driver is not None
        read, ends = self.driver.stream.position, ends_of(self.log, self.partitions)
        return {p: read.get(p, 0) + -(-(end - read.get(p, 0)) * share[p] // 100) for p, end in sorted(ends.items())}

    @precondition(lambda self: self.driver is not None)
    @rule(share=st.lists(st.sampled_from([0, 30, 60, 100]), min_size=MOST_PARTITIONS, max_size=MOST_PARTITIONS))
    def epoch(self, share: Sequence[int]) -> None:
        assert self.driver is not None
        self.driver.feed(self.border(share))

    @precondition(lambda self: self.driver is not None)
    @rule(
        share=st.lists(st.sampled_from([50, 100]), min_size=MOST_PARTITIONS, max_size=MOST_PARTITIONS),
        point=st.sampled_from(DEATHS),
    )
    def killed(self, share: Sequence[int], point: Point) -> None:
        assert self.driver is not None
        self.driver.feed_and_die(self.border(share), point)
        self.driver = None
        self.occurrences["killed"] += 1

    @precondition(lambda self: self.driver is not None)
    @rule(seconds=st.sampled_from([1.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        assert self.driver is not None
        self.clock.seconds += seconds
        self.driver.poll()

    @precondition(lambda self: self.driver is not None and self.driver.newest is not None)
    @rule()
    def compact(self) -> None:
        assert self.driver is not None
        self.driver.compact()
        self.occurrences["folded"] += self.driver.stream.compactor.folded_to is not None

    @precondition(lambda self: self.driver is not None)
    @rule()
    def reload(self) -> None:
        assert self.driver is not None
        self.driver.stream.committer.reload()

    @precondition(lambda self: self.driver is not None)
    @rule(drawn_sends=st.lists(sends(), min_size=1, max_size=5))
    def second_driver(self, drawn_sends: Sequence[Send]) -> None:
        """Let another driver commit first: the old one is rejected, and the new one continues."""
        old, everything = self.driver, [100] * MOST_PARTITIONS
        assert old is not None
        self.write(drawn_sends)
        end = self.border(everything)
        self.driver = self.started()
        self.driver.feed(end)
        with pytest.raises(LakeError, match="was committed by another driver") as refused:
            old.feed(end)
        assert refused.value.runbook == "StreamFenced"
        self.occurrences["fenced"] += 1

    @rule()
    def drain(self) -> None:
        """Let the real driver, with Spark's own query, read to the log's end."""
        self.driver = None
        driver.run_driver(PipelineLake(self.settings, self.pipeline), until="drain", clock=self.clock)

    @precondition(lambda self: self.records)
    @rule()
    def batch(self) -> None:
        lake = PipelineLake(self.settings, self.pipeline)
        recompute.recompute_windows(lake)
        self.cut = self.records[-1]
        read = [r for r in self.log if r.offset < self.cut.end.get(r.partition, 0)]
        connection = queries.open_duckdb()
        delta.relation(connection, "batch", lake.batch_uri())
        batch_rows = rows_of(connection, self.pipeline, "SELECT * FROM batch")
        assert {
            cell: row
            for cell, row in expected_rows(reference.compute_reference(self.pipeline, read)).items()
            if cell in batch_rows
        } == batch_rows

    @precondition(lambda self: self.cut is not None)
    @rule()
    def compare(self) -> None:
        report = run_reconciliation(PipelineLake(self.settings, self.pipeline))
        assert report.finding.causes["unexplained"].rows == 0
        self.occurrences["compared"] += report.finding.windows.compared
        agreed = {Verdict.CONSISTENT, Verdict.EXPLAINED}
        assert report.finding.verdict in (agreed if report.finding.windows.compared else {Verdict.NOT_COMPARABLE})

    @invariant()
    def books_are_right(self) -> None:
        if hasattr(self, "pipeline"):
            self.records = check_books(PipelineLake(self.settings, self.pipeline), self.log)
            self.occurrences["late"] += any(record.counts["late"] for record in self.records)

    def teardown(self) -> None:
        """Judge what this run has left by the checks of production."""
        if not self.records:
            return
        only = PROVEN_WITHOUT_BATCH if self.cut is None else ()
        verification = verify_pipeline(PipelineLake(self.settings, self.pipeline), only=only, exhaustive=True, seed=0)
        assert verification.violations == ()
        assert all(verification.checks[name].state is CheckState.HELD for name in PROVEN_WITHOUT_BATCH)


def test_the_books_are_right_after_any_actions(
    spark: SparkSession, kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = Settings(home=tmp_path_factory.mktemp("writer"), kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap))
    occurrences: Counter[str] = Counter()
    shared: dict[str, Any] = {
        "spark": spark,
        "writer": Writer(settings),
        "homes": tmp_path_factory,
        "occurrences": occurrences,
    }

    run_state_machine_as_test(type("OfThisSession", (Actions,), shared), settings=depth(few=2, many=60, steps=15))

    if is_nightly():  # a few runs do not take every step
        assert {name for name in SOMETIMES if not occurrences[name]} == set()
