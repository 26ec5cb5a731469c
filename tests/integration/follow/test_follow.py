"""Jobs as teams write them: which records they dropped, and whether they do what a definition says."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.batch.recompute import recompute_windows
from cutover.clock import SystemClock
from cutover.definition import Count, Delta, Fixed, Max, Pipeline, Sliding, SparkStream, Sum, Topic
from cutover.definition.model.spark_stream import OutputMode
from cutover.errors import LakeError
from cutover.lake.control.versions import list_stream_versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.pipeline_lake import PipelineLake
from cutover.positions import followed_job
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.model import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from cutover.streaming.driver import run_driver
from cutover.streaming.replacement.replay import replay_log
from tests.integration.streaming.rig import Event, epoch_log, fast, make_topic, send
from tests.support.jobs import count_windows, merge_into, read_topic, run_job

EVENTS = [
    Event(id=number, minute=6.0 * number - (260 if number % 9 == 8 else 0), key="ab"[number % 2], partition=number % 2)
    for number in range(60)
]
LATE = {44, 53}
"""Ids of the events whose window had been closed by the watermark of the batch before theirs."""

KINDS = ("append", "complete", "merge", "merge with marks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A topic with 60 records, and the folder of a job that reads it."""

    spark: SparkSession
    settings: Settings
    topic: str
    place: Path

    def pipeline(self, mode: OutputMode) -> Pipeline:
        """Return the definition of what the job is meant to do."""
        return Pipeline(
            name="clicks",
            source=Topic(
                name=self.topic,
                schema="id bigint, k string, at timestamp",
                event_time="at",
                time_format="millis",
                parse="from_json",
            ),
            key=("k",),
            window=Fixed(hours=1),
            measures={"n": Count(), "ids": Sum("id"), "newest": Max("id")},
            stream=SparkStream(
                table=Delta(f"{self.place}/table"), checkpoint=f"{self.place}/checkpoint", output_mode=mode
            ),
        )

    def run(self, kind: str = "append", change: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> PipelineLake:
        """Run the job over what the topic holds, and return the pipeline that follows it."""
        records = change(read_topic(self.spark, self.settings, self.topic, rows=20))
        mode = find_mode(kind)
        write = merge_into(f"{self.place}/table", marks="marks" in kind) if mode == "update" else None
        run_job(count_windows(records), self.place, mode, write)
        return PipelineLake(self.settings, self.pipeline(mode))


def find_mode(kind: str) -> OutputMode:
    return "append" if kind == "append" else "complete" if kind == "complete" else "update"


def compare(lake: PipelineLake) -> Finding:
    """Follow the job to its newest batch, recompute, and compare."""
    assert run_driver(lake, until="drain") == 0
    recompute_windows(lake)
    return run_reconciliation(lake).finding


def list_broken_invariants(lake: PipelineLake) -> list[str]:
    """Verify the epochs of a follower exhaustively, and return what does not hold."""
    verification = verify_pipeline(lake, exhaustive=True)
    return [str(checked) for checked in verification.checks.values() if checked.state is not CheckState.HELD]


@pytest.fixture
def rig(spark: SparkSession, kafka_settings: Settings, topic_name: str, tmp_path: Path) -> Rig:
    settings = fast(kafka_settings)
    make_topic(settings, topic_name, partitions=2)
    send(settings, topic_name, EVENTS)
    return Rig(spark=spark, settings=settings, topic=topic_name, place=tmp_path / "job")


@pytest.mark.quick("merge")
@pytest.mark.parametrize("kind", KINDS)
def test_the_late_records_of_a_job_are_named_and_its_table_is_reproduced(rig: Rig, kind: str) -> None:
    lake = rig.run(kind)
    finding = compare(lake)

    (job,) = finding.jobs
    assert job.rows == 14
    assert (job.different, job.cells, job.foreign_versions) == (0, (), ())
    assert finding.verdict is (Verdict.CONSISTENT if kind == "complete" else Verdict.EXPLAINED)
    assert list_broken_invariants(lake) == []
    late = {(sample.partition, sample.offset) for sample in finding.samples if sample.class_ == "late"}
    assert late == (set() if kind == "complete" else {(number % 2, number // 2) for number in LATE})


def test_a_job_in_several_runs_is_followed_across_them(rig: Rig) -> None:
    lake = rig.run("merge")
    assert run_driver(lake, until="drain") == 0
    send(rig.settings, rig.topic, [replace(event, id=event.id + 60, minute=event.minute + 400) for event in EVENTS])
    finding = compare(rig.run("merge"))

    (job,) = finding.jobs
    assert (job.rows > 14, job.different) == (True, 0)
    batches = [record.job_batch for record in epoch_log(lake).records()]
    assert batches == list(range(len(batches)))


@pytest.mark.quick
def test_a_job_that_does_something_else_is_named_with_its_cells(rig: Rig) -> None:
    finding = compare(rig.run("append", lambda rows: rows.where("id <> 7").withColumn("id", F.col("id") + 1)))

    assert (finding.verdict, finding.exit_code) == (Verdict.DIVERGED, 1)
    stated = "The streaming job does not do what the definition says in 29 of 42 cells: 14 rows of its table differ."
    assert finding.sentence == stated  # two sums and newest ids a row, and one count
    (job,) = finding.jobs
    counts = [cell for cell in job.cells if cell.measure == "n"]
    assert [(cell.key, cell.kind, cell.job, cell.expected) for cell in counts] == [({"k": "b"}, "changed", 4, 5)]


def test_a_batch_that_was_not_committed_is_left_to_the_next_run(rig: Rig) -> None:
    lake = rig.run("append")
    newest = max(int(file.name) for file in (rig.place / "checkpoint" / "commits").glob("[0-9]*"))
    for file in (f"{newest}", f".{newest}.crc"):
        (rig.place / "checkpoint" / "commits" / file).unlink(missing_ok=True)

    assert run_driver(lake, until="drain") == 0
    assert epoch_log(lake).records()[-1].job_batch == newest - 1
    finding = compare(rig.run("append"))

    (job,) = finding.jobs
    assert (job.batch is not None and job.batch >= newest, job.different) == (True, 0)


def test_a_job_that_was_killed_between_its_table_and_its_commit(rig: Rig) -> None:
    bootstrap = str(rig.settings.kafka.bootstrap_servers)
    command = [sys.executable, "-m", "tests.support.killed_job", bootstrap, rig.topic, str(rig.place), "1"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2_000:]
    lake = PipelineLake(rig.settings, rig.pipeline("update"))

    assert run_driver(lake, until="drain") == 0
    assert [record.job_batch for record in epoch_log(lake).records()] == [0]
    finding = compare(rig.run("merge"))

    (job,) = finding.jobs
    assert (job.batch not in {None, 0, 1}, job.different) == (True, 0)
    assert finding.verdict is Verdict.EXPLAINED


def test_the_archived_batches_are_repeated_into_another_version(rig: Rig) -> None:
    lake = rig.run("append")
    assert run_driver(lake, until="drain") == 0
    remove_batches(rig.place, before=2)  # Spark no longer has them, the archive has
    version, has_met = replay_log(lake, 1, SystemClock())

    archived = followed_job.read_archive(lake)
    assert followed_job.archive_batches(lake, SystemClock(), archived[:0]) == archived  # another follower was quicker
    assert has_met
    first, second = (EpochLog(found.uri).records() for found in (*list_stream_versions(lake)[:1], version))
    assert [record.counts for record in first] == [record.counts for record in second]
    assert [record.watermark_before for record in first] == [record.watermark_before for record in second]


def test_records_from_before_1970_are_late_at_once(rig: Rig) -> None:
    send(rig.settings, rig.topic, [Event(id=1_000, minute=-20_900.0 * 24 * 60, key="a", logged=0.0)])
    finding = compare(rig.run("append"))

    (job,) = finding.jobs
    assert (job.different, finding.verdict) == (0, Verdict.EXPLAINED)
    assert (0, 30) in {(sample.partition, sample.offset) for sample in finding.samples if sample.class_ == "late"}


@pytest.mark.parametrize("is_stated", [True, False])
def test_a_job_with_one_watermark_is_reproduced_if_its_definition_says_so(rig: Rig, is_stated: bool) -> None:
    option = "spark.sql.streaming.statefulOperator.allowMultiple"
    rig.spark.conf.set(option, "false")
    try:
        lake = rig.run("append")
    finally:
        rig.spark.conf.unset(option)
    assert lake.pipeline.stream is not None
    stream = replace(lake.pipeline.stream, single_watermark=is_stated)
    lake = PipelineLake(rig.settings, replace(lake.pipeline, stream=stream))
    finding = compare(lake)

    (job,) = finding.jobs
    assert list_broken_invariants(lake) == []
    assert (job.different == 0) is is_stated
    assert finding.verdict is (Verdict.EXPLAINED if is_stated else Verdict.DIVERGED)


def test_doubles_that_cancel_are_equal_within_their_last_digits(rig: Rig) -> None:
    amount = (F.when(F.col("id") % 2 == 0, 1.0).otherwise(-1.0) * F.pow(F.lit(0.1), F.lit(2)) * F.col("id")).alias("x")
    records = read_topic(rig.spark, rig.settings, rig.topic, rows=20).select("id", "k", "at", amount)
    grouped = records.withWatermark("at", "10 minutes").groupBy(F.window("at", "1 hour")).agg(F.sum("x").alias("total"))
    run_job(grouped.withColumn("shop", F.lit("all")), rig.place, "append")
    base = rig.pipeline("append")
    derive = {"shop": "'all'", "x": "CASE WHEN id % 2 = 0 THEN CAST(id AS double) ELSE -CAST(id AS double) END / 100e0"}
    finding = compare(
        PipelineLake(rig.settings, replace(base, derive=derive, key=("shop",), measures={"total": Sum("x")}))
    )

    (job,) = finding.jobs
    assert (job.rows, job.cells) == (9, ())


def remove_batches(place: Path, *, before: int) -> None:
    for folder in ("offsets", "commits"):
        for number in range(before):
            for name in (f"{number}", f".{number}.crc"):
                (place / "checkpoint" / folder / name).unlink(missing_ok=True)


def test_what_spark_has_removed_from_the_checkpoint_is_not_guessed(rig: Rig) -> None:
    lake = rig.run("append")
    remove_batches(rig.place, before=1)
    finding = compare(lake)

    first = epoch_log(lake).records()[0]
    assert (first.job_batch, first.start) == (2, {0: 20, 1: 20})
    assert finding.windows.incomplete_because["unread"] > 0
    assert [job.different for job in finding.jobs] in ([], [0])
    assert finding.verdict in {Verdict.EXPLAINED, Verdict.CONSISTENT, Verdict.NOT_COMPARABLE}


def test_batches_lost_before_they_were_archived_and_another_query_end_the_follower(rig: Rig) -> None:
    lake = rig.run("append")
    assert run_driver(lake, until="drain") == 0
    before = len(followed_job.read_archive(lake))
    send(rig.settings, rig.topic, [replace(event, minute=event.minute + 400) for event in EVENTS])
    rig.run("append")
    kept = rig.place / "checkpoint"
    shutil.copytree(kept, rig.place / "copy")
    remove_batches(rig.place, before=before + 1)
    with pytest.raises(LakeError, match=rf"Spark removed {before} to {before} before they were archived"):
        run_driver(lake, until="drain")
    shutil.rmtree(kept)
    shutil.rmtree(rig.place / "table")
    rig.run("append")
    with pytest.raises(LakeError, match="the checkpoint was replaced"):
        run_driver(lake, until="drain")


def test_maintenance_of_the_table_is_silent_and_a_removed_version_is_not_comparable(rig: Rig) -> None:
    lake = rig.run("merge")
    assert run_driver(lake, until="drain") == 0
    table = DeltaTable(f"{rig.place}/table")
    table.optimize.compact()
    assert compare(lake).verdict is Verdict.EXPLAINED
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    finding = run_reconciliation(lake).finding

    assert (finding.verdict, finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    assert "Table of the job" in finding.sentence


def test_rows_that_someone_else_changed_are_named_with_the_version(rig: Rig) -> None:
    lake = rig.run("append")
    DeltaTable(f"{rig.place}/table").delete("k = 'a'")
    send(rig.settings, rig.topic, [replace(event, minute=event.minute + 400) for event in EVENTS])
    finding = compare(rig.run("append"))

    assert finding.verdict is Verdict.DIVERGED
    (job,) = finding.jobs
    assert {cell.kind for cell in job.cells} == {"missing"}
    assert [version.endswith("(DELETE)") for version in job.foreign_versions] == [True]
    assert lake.name == finding.pipeline


def test_sliding_windows_and_other_column_names(rig: Rig) -> None:
    records = read_topic(rig.spark, rig.settings, rig.topic, rows=20)
    grouped = count_windows(records, slide="20 minutes").selectExpr("window.start AS hour", "k", "n AS events", "ids")
    run_job(grouped, rig.place, "append")
    base = rig.pipeline("append")
    assert base.stream is not None
    stream = replace(base.stream, columns={"window_start": "hour", "n": "events"})
    sliding = replace(base, stream=stream, window=Sliding(size="1 hour", every="20 minutes"))
    finding = compare(PipelineLake(rig.settings, replace(sliding, measures={"n": Count(), "ids": Sum("id")})))

    assert finding.verdict is Verdict.EXPLAINED
    (job,) = finding.jobs
    assert (job.rows > 14, job.different) == (True, 0)
