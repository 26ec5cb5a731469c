"""Jobs as teams write them: which records they dropped, and whether they do what a definition says."""

import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.clock import SystemClock
from cutover.definition import Count, Sliding, Sum
from cutover.errors import LakeError
from cutover.lake.control.versions import list_stream_versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.pipeline_lake import PipelineLake
from cutover.positions import followed_job
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.watch.findings import list_comparison_problems
from cutover.streaming.driver import run_driver
from cutover.streaming.process.heartbeat import find_heartbeat
from cutover.streaming.replacement.replay import replay_log
from tests.integration.streaming.rig import Event, epoch_log, send
from tests.support.followed_jobs import (
    EVENTS,
    LATE,
    JobTopic,
    compare,
    list_broken_invariants,
    list_late,
    remove_batches,
)
from tests.support.jobs import count_windows, read_topic, run_job

KINDS = ("append", "complete", "merge", "merge with marks")


@pytest.mark.parametrize("kind", KINDS)
def test_the_late_records_of_a_job_are_named_and_its_table_is_reproduced(rig: JobTopic, kind: str) -> None:
    lake = rig.run(kind)
    finding = compare(lake)

    (job,) = finding.jobs
    assert job.rows == 14
    assert (job.different, job.cells, job.foreign_versions) == (0, (), ())
    assert finding.verdict is (Verdict.CONSISTENT if kind == "complete" else Verdict.EXPLAINED)
    assert list_broken_invariants(lake) == []
    assert list_late(finding) == (set() if kind == "complete" else LATE)


def test_a_job_in_several_runs_is_followed_across_them(rig: JobTopic) -> None:
    lake = rig.run("merge")
    assert run_driver(lake, until="drain") == 0
    send(rig.settings, rig.topic, [replace(event, id=event.id + 60, minute=event.minute + 400) for event in EVENTS])
    finding = compare(rig.run("merge"))

    (job,) = finding.jobs
    assert (job.rows > 14, job.different) == (True, 0)
    batches = [record.job_batch for record in epoch_log(lake).records()]
    assert batches == list(range(len(batches)))


@pytest.mark.quick
def test_a_job_that_does_something_else_is_named_with_its_cells(rig: JobTopic) -> None:
    finding = compare(rig.run("append", lambda rows: rows.where("id <> 7").withColumn("id", F.col("id") + 1)))

    assert (finding.verdict, finding.exit_code) == (Verdict.DIVERGED, 1)
    stated = "The streaming job does not do what the definition says in 29 of 42 cells: 14 rows of its table differ."
    assert finding.sentence == stated  # two sums and newest ids a row, and one count
    (job,) = finding.jobs
    counts = [cell for cell in job.cells if cell.measure == "n"]
    assert [(cell.key, cell.kind, cell.job, cell.expected) for cell in counts] == [({"k": "b"}, "changed", 4, 5)]


def test_a_batch_that_was_not_committed_is_left_to_the_next_run(rig: JobTopic) -> None:
    lake = rig.run("append")
    newest = max(int(file.name) for file in (rig.place / "checkpoint" / "commits").glob("[0-9]*"))
    for file in (f"{newest}", f".{newest}.crc"):
        (rig.place / "checkpoint" / "commits" / file).unlink(missing_ok=True)

    assert run_driver(lake, until="drain") == 0
    assert epoch_log(lake).records()[-1].job_batch == newest - 1
    finding = compare(rig.run("append"))

    (job,) = finding.jobs
    assert (job.batch is not None and job.batch >= newest, job.different) == (True, 0)


def test_a_job_that_was_killed_between_its_table_and_its_commit(rig: JobTopic) -> None:
    bootstrap = str(rig.settings.kafka.bootstrap_servers)
    command = [sys.executable, "-m", "tests.support.killed_job", bootstrap, rig.topic, str(rig.place), "1"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2_000:]
    lake = PipelineLake(rig.settings, rig.windows("update"))

    assert run_driver(lake, until="drain") == 0
    assert [record.job_batch for record in epoch_log(lake).records()] == [0]
    finding = compare(rig.run("merge"))

    (job,) = finding.jobs
    assert (job.batch not in {None, 0, 1}, job.different) == (True, 0)
    assert finding.verdict is Verdict.EXPLAINED


def test_a_signal_to_the_whole_process_group_stops_the_follower(rig: JobTopic) -> None:
    lake = rig.run("merge")
    home, bootstrap = str(rig.settings.home), str(rig.settings.kafka.bootstrap_servers)
    command = [sys.executable, "-m", "tests.support.stopped_follower", home, bootstrap, rig.topic, str(rig.place)]

    stopped = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)

    assert stopped.returncode == 0, stopped.stderr[-2_000:]
    beat = find_heartbeat(rig.settings, lake.name)
    assert beat is not None
    assert (beat.state, beat.exit_code, beat.error) == ("STOPPED", 0, None)
    assert list(epoch_log(lake).records()) == []
    assert run_driver(lake, until="drain") == 0
    assert next(record.job_batch for record in epoch_log(lake).records()) == 0


def test_the_archived_batches_are_repeated_into_another_version(rig: JobTopic) -> None:
    lake = rig.run("append")
    assert run_driver(lake, until="drain") == 0
    remove_batches(rig.place, before=2)  # Spark no longer has them, the archive has
    version, has_met = replay_log(lake, 1, SystemClock())

    archived = followed_job.read_archive(lake)
    late = followed_job.JobArchive(lake, SystemClock())
    late.batches = archived[:0]  # another follower was quicker
    assert late.update() == archived
    assert has_met
    first, second = (EpochLog(found.uri).records() for found in (*list_stream_versions(lake)[:1], version))
    assert [record.counts for record in first] == [record.counts for record in second]
    assert [record.watermark_before for record in first] == [record.watermark_before for record in second]


def test_records_from_before_1970_are_late_at_once(rig: JobTopic) -> None:
    send(rig.settings, rig.topic, [Event(id=1_000, minute=-20_900.0 * 24 * 60, key="a", logged=0.0)])
    finding = compare(rig.run("append"))

    (job,) = finding.jobs
    assert (job.different, finding.verdict) == (0, Verdict.EXPLAINED)
    assert (0, 30) in list_late(finding)


@pytest.mark.parametrize("is_stated", [True, False])
def test_a_job_with_one_watermark_is_reproduced_if_its_definition_says_so(rig: JobTopic, is_stated: bool) -> None:
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


def test_doubles_that_cancel_are_equal_within_their_last_digits(rig: JobTopic) -> None:
    amount = (F.when(F.col("id") % 2 == 0, 1.0).otherwise(-1.0) * F.pow(F.lit(0.1), F.lit(2)) * F.col("id")).alias("x")
    records = read_topic(rig.spark, rig.settings, rig.topic, rows=20).select("id", "k", "at", amount)
    grouped = records.withWatermark("at", "10 minutes").groupBy(F.window("at", "1 hour")).agg(F.sum("x").alias("total"))
    run_job(grouped.withColumn("shop", F.lit("all")), rig.place, "append")
    base = rig.windows("append")
    derive = {"shop": "'all'", "x": "CASE WHEN id % 2 = 0 THEN CAST(id AS double) ELSE -CAST(id AS double) END / 100e0"}
    finding = compare(
        PipelineLake(rig.settings, replace(base, derive=derive, key=("shop",), measures={"total": Sum("x")}))
    )

    (job,) = finding.jobs
    assert (job.rows, job.cells) == (9, ())


def test_what_spark_has_removed_from_the_checkpoint_is_not_guessed(rig: JobTopic) -> None:
    lake = rig.run("append")
    remove_batches(rig.place, before=1)
    finding = compare(lake)

    first = epoch_log(lake).records()[0]
    assert (first.job_batch, first.start) == (2, {0: 20, 1: 20})
    assert finding.windows.incomplete_because["unread"] > 0
    assert [job.different for job in finding.jobs] in ([], [0])
    assert finding.verdict in {Verdict.EXPLAINED, Verdict.CONSISTENT, Verdict.NOT_COMPARABLE}


def test_batches_lost_before_they_were_archived_and_another_query_end_the_follower(rig: JobTopic) -> None:
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


def test_maintenance_of_the_table_is_silent_and_a_removed_version_is_not_comparable(rig: JobTopic) -> None:
    lake = rig.run("merge")
    assert run_driver(lake, until="drain") == 0
    table = DeltaTable(f"{rig.place}/table")
    table.optimize.compact()
    assert compare(lake).verdict is Verdict.EXPLAINED
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    finding = run_reconciliation(lake).finding

    assert (finding.verdict, finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    assert "Table of the streaming job" in finding.sentence


def test_rows_that_someone_else_changed_are_named_with_the_version(rig: JobTopic) -> None:
    lake = rig.run("append")
    DeltaTable(f"{rig.place}/table").delete("k = 'a'")
    send(rig.settings, rig.topic, [replace(event, minute=event.minute + 400) for event in EVENTS])
    finding = compare(rig.run("append"))

    assert finding.verdict is Verdict.DIVERGED
    (job,) = finding.jobs
    assert {cell.kind for cell in job.cells} == {"missing"}
    assert [version.endswith("(DELETE)") for version in job.foreign_versions] == [True]
    (problem,) = list_comparison_problems(lake)
    assert f"another writer changed it in version {job.foreign_versions[0]}" in problem.text
    assert lake.name == finding.pipeline


def test_sliding_windows_and_other_column_names(rig: JobTopic) -> None:
    records = read_topic(rig.spark, rig.settings, rig.topic, rows=20)
    grouped = count_windows(records, slide="20 minutes").selectExpr("window.start AS hour", "k", "n AS events", "ids")
    run_job(grouped, rig.place, "append")
    base = rig.windows("append")
    assert base.stream is not None
    stream = replace(base.stream, columns={"window_start": "hour", "n": "events"})
    sliding = replace(base, stream=stream, window=Sliding(size="1 hour", every="20 minutes"))
    finding = compare(PipelineLake(rig.settings, replace(sliding, measures={"n": Count(), "ids": Sum("id")})))

    assert finding.verdict is Verdict.EXPLAINED
    (job,) = finding.jobs
    assert (job.rows > 14, job.different) == (True, 0)
