"""Jobs with session windows: what they dropped, which sessions have several rows, and what their table must hold."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame

from cutover.definition import Pipeline, Sessions
from cutover.definition.model.pipeline import OutputMode
from cutover.errors import DefinitionError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import Event, epoch_log, send
from tests.support.followed_jobs import JobTopic, compare, list_broken_invariants
from tests.support.jobs import (
    SESSION_AND_KEY,
    append_to,
    count_sessions,
    count_windows,
    merge_into,
)

EDGES = [
    Event(id=100, minute=300, key="e"),
    Event(id=101, minute=310, key="e"),  # exactly a gap later: the same session
    Event(id=102, minute=320 + 1 / 60_000, key="e"),  # a millisecond more: another one
]
CLOSING = [Event(id=103 + partition, minute=400, key="z", partition=partition) for partition in (0, 1)]
SENT = [
    *(
        Event(
            id=number,
            minute=4.0 * number - (200 if number % 9 == 8 else 0),
            key="abc"[number // 2 % 3],
            partition=number % 2,
        )
        for number in range(60)
    ),
    *EDGES,
    *CLOSING,
]
"""Records of three keys, with more than a gap between every two pairs, some far behind; and sessions at the edges."""

KINDS = ("append", "foreachBatch append", "merge", "complete")


def of_sessions(pipeline: Pipeline, gap: str = "10 minutes") -> Pipeline:
    return replace(pipeline, window=Sessions(gap=gap))


def run_sessions(rig: JobTopic, kind: str, *, gap: str = "10 minutes", delay: str = "10 minutes") -> list[Any]:
    """Run a job over what the topic holds, and return the progress of its batches."""
    table = f"{rig.place}/table"
    writes = {"foreachBatch append": append_to(table), "merge": merge_into(table, on=SESSION_AND_KEY)}
    mode: OutputMode = "complete" if kind == "complete" else "append"
    return rig.run_query(lambda records: count_sessions(records, delay, gap=gap), mode, writes.get(kind))


def follow_sessions(rig: JobTopic, kind: str) -> PipelineLake:
    return PipelineLake(rig.settings, of_sessions(rig.windows("complete" if kind == "complete" else "append")))


def assert_late_counts(lake: PipelineLake, progress: Sequence[Mapping[str, Any]]) -> None:
    """Check that each epoch counts what Spark has counted for its batch: the times and keys of late records."""
    dropped = {batch["batchId"]: int(batch["stateOperators"][0]["numRowsDroppedByWatermark"]) for batch in progress}
    counted = {record.job_batch: record.counts["late"] for record in epoch_log(lake).records() if not record.tick}
    assert counted == {number: dropped[number] for number in counted}
    assert any(dropped.values())


@pytest.mark.quick("append")
@pytest.mark.parametrize("kind", KINDS)
def test_the_late_records_of_sessions_are_named_and_their_table_is_reproduced(rig: JobTopic, kind: str) -> None:
    progress = run_sessions(rig, kind)
    lake = follow_sessions(rig, kind)
    finding = compare(lake)

    assert_late_counts(lake, progress)
    assert list_broken_invariants(lake) == []
    (job,) = finding.jobs
    assert (job.rows > 20, job.different, job.cells) == (True, 0, ())
    assert finding.verdict is Verdict.EXPLAINED
    assert (job.level == "reproduced") is (job.divided == 0)


@pytest.mark.parametrize("kind", ["append", "complete"])
def test_a_session_that_was_written_before_a_record_extended_it_has_two_rows(rig: JobTopic, kind: str) -> None:
    beginning = [Event(id=200, minute=1_000, key="s"), Event(id=201, minute=1_005, key="s")]
    closing = [Event(id=202, minute=1_025, key=f"w{partition}", partition=partition) for partition in (0, 1)]
    last = [replace(event, id=event.id + 100, minute=2_000) for event in closing]
    for events in (beginning, closing, [Event(id=203, minute=1_012, key="s")], last):
        send(rig.settings, rig.topic, events)
        run_sessions(rig, kind)
    lake = follow_sessions(rig, kind)
    finding = compare(lake)

    (job,) = finding.jobs
    assert (job.different, job.cells) == (0, ())
    rows = [row for row in rig.spark.read.format("delta").load(f"{rig.place}/table").collect() if row.k == "s"]
    assert sorted(row.n for row in rows) == ([1, 2] if kind == "append" else [3])
    assert job.divided >= (1 if kind == "append" else 0)
    assert (" in several rows." in finding.sentence) is (kind == "append")
    assert (job.level == "sealed by offsets") is (kind == "append")


def test_another_gap_than_that_of_the_definition_is_named_with_its_cells(rig: JobTopic) -> None:
    run_sessions(rig, "append", gap="25 minutes")
    finding = compare(follow_sessions(rig, "append"))

    assert finding.verdict is Verdict.DIVERGED
    (job,) = finding.jobs
    assert {"missing", "extra"} <= {cell.kind for cell in job.cells} | {"extra"}
    assert job.different > 0


def test_rows_that_were_appended_twice_are_not_parts_of_a_session(rig: JobTopic) -> None:
    run_sessions(rig, "append")
    lake = follow_sessions(rig, "append")
    assert run_driver(lake, until="drain") == 0
    rows = rig.spark.read.format("delta").load(f"{rig.place}/table").where("k = 'a'").orderBy("n").limit(1)
    write_deltalake(f"{rig.place}/table", rows.toArrow(), mode="append")
    send(rig.settings, rig.topic, [replace(event, minute=900) for event in CLOSING])
    run_sessions(rig, "append")
    finding = compare(lake)

    assert finding.verdict is Verdict.DIVERGED, finding.sentence
    (job,) = finding.jobs
    assert {cell.kind for cell in job.cells} == {"extra"}
    assert job.different == 1


def test_a_job_of_sessions_that_was_killed_between_its_table_and_its_commit(rig: JobTopic) -> None:
    bootstrap = str(rig.settings.kafka.bootstrap_servers)
    command = [sys.executable, "-m", "tests.support.killed_job", bootstrap, rig.topic, str(rig.place), "1", "sessions"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2_000:]
    run_sessions(rig, "merge")
    finding = compare(follow_sessions(rig, "merge"))

    (job,) = finding.jobs
    assert (job.rows > 10, job.different, job.cells) == (True, 0, ())


def test_one_watermark_drops_and_writes_by_that_of_the_batch(rig: JobTopic) -> None:
    option = "spark.sql.streaming.statefulOperator.allowMultiple"
    rig.spark.conf.set(option, "false")
    try:
        progress = run_sessions(rig, "append")
    finally:
        rig.spark.conf.unset(option)
    pipeline = replace(of_sessions(rig.windows()), stream=rig.stream(single_watermark=True))
    lake = PipelineLake(rig.settings, pipeline)
    finding = compare(lake)

    assert_late_counts(lake, progress)
    (job,) = finding.jobs
    assert (job.different, job.cells) == (0, ())


def test_sessions_under_other_names_of_columns(rig: JobTopic) -> None:
    def transform(records: DataFrame) -> DataFrame:
        grouped = count_sessions(records)
        return grouped.selectExpr(
            "session_window.start AS began", "session_window.end AS ended", "k", "n", "ids", "newest"
        )

    rig.run_query(transform)
    columns = {"window_start": "began", "window_end": "ended"}
    pipeline = replace(of_sessions(rig.windows()), stream=rig.stream(columns=columns))
    (job,) = compare(PipelineLake(rig.settings, pipeline)).jobs

    assert (job.rows > 10, job.different, job.cells) == (True, 0, ())


def test_a_grouping_by_other_windows_is_rejected(rig: JobTopic) -> None:
    rig.run_query(count_windows)
    with pytest.raises(DefinitionError, match="expected a job with one grouping by sessions"):
        run_driver(follow_sessions(rig, "append"), until="drain")
