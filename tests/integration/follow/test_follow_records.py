"""Jobs with a row per record, and jobs that deduplicate: what they dropped, and whether they do what they should."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.definition import Last
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.pipeline import OutputMode
from cutover.errors import DefinitionError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.result.finding import Verdict
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import Event, epoch_log, send
from tests.support.followed_jobs import (
    COLUMNS,
    EVENTS,
    JobTopic,
    by_ids,
    compare,
    list_broken_invariants,
    list_late,
    remove_batches,
)
from tests.support.jobs import (
    append_to,
    clean_records,
    count_windows,
    deduplicate,
    merge_into,
    merge_records,
)

REPEATED = [EVENTS[number] for number in (0, 10, 20, 30, 40, 55)]
"""Events that are sent again with the next ones: within a batch, and several batches later."""

OPEN = Event(id=60, minute=95)
"""Event before the watermark, although its window is open."""

SENT = [*EVENTS[:21], *REPEATED[:2], *EVENTS[21:45], *REPEATED[2:5], OPEN, *EVENTS[45:], REPEATED[5]]

LATE = {44, 53, 60}
"""Ids of the events whose own time was at or before the watermark of the batch before theirs."""


@pytest.mark.parametrize("kind", ["append", "foreachBatch append"])
def test_a_row_per_record_is_reproduced_in_every_column(rig: JobTopic, kind: str) -> None:
    rig.run_query(clean_records, write=None if kind == "append" else append_to(f"{rig.place}/table"))
    lake = PipelineLake(rig.settings, rig.records())
    finding = compare(lake)

    (job,) = finding.jobs
    assert (job.rows, job.different, job.cells) == (51, 0, ())
    assert finding.verdict is Verdict.CONSISTENT
    assert list_broken_invariants(lake) == []


def test_a_row_per_record_that_is_merged_by_its_id_counts_a_repeated_record_once(rig: JobTopic) -> None:
    rig.run_query(clean_records, "update", merge_records(f"{rig.place}/table"))
    finding = compare(PipelineLake(rig.settings, by_ids(rig.records())))

    (job,) = finding.jobs
    assert (job.rows, job.different, job.cells) == (51, 0, ())
    assert finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("is_behind", [False, True])
def test_the_last_record_of_an_id_is_the_row_that_a_merge_leaves(rig: JobTopic, is_behind: bool) -> None:
    rig.run_query(clean_records, "update", merge_records(f"{rig.place}/table"))
    corrected = replace(EVENTS[12], key="z", minute=EVENTS[12].minute + (-1 if is_behind else 1))
    send(rig.settings, rig.topic, [corrected])
    rig.run_query(clean_records, "update", merge_records(f"{rig.place}/table"))
    measures: dict[str, Measure] = {name: Last(name) for name in COLUMNS}
    (job,) = compare(PipelineLake(rig.settings, replace(rig.records(), measures=measures))).jobs

    cells = [(cell.key, cell.measure, cell.job, cell.expected) for cell in job.cells]
    assert cells == ([({"id": 12}, "shop", "z", "a")] if is_behind else [])


@pytest.mark.parametrize("latest_by", ["batch", None])
def test_appended_updates_of_windows_are_told_apart_by_a_column(rig: JobTopic, latest_by: str | None) -> None:
    rig.run_query(count_windows, "update", append_to(f"{rig.place}/table", numbered=True))
    stream = rig.stream(output_mode="update", latest_by=latest_by)
    windows = replace(rig.windows("update"), stream=stream)
    finding = compare(PipelineLake(rig.settings, windows))

    (job,) = finding.jobs
    assert {cell.kind for cell in job.cells} == (set() if latest_by else {"extra", "changed"})
    assert finding.verdict is (Verdict.EXPLAINED if latest_by else Verdict.DIVERGED)


def test_repeated_records_are_named_where_the_job_keeps_another_number_of_them(rig: JobTopic) -> None:
    rig.run_query(clean_records)
    finding = compare(PipelineLake(rig.settings, by_ids(rig.records())))

    assert finding.verdict is Verdict.DIVERGED
    (job,) = finding.jobs
    assert [(cell.key, cell.measure, cell.job, cell.expected) for cell in job.cells] == [
        ({"id": event.id}, "copies", 2, 1) for event in REPEATED[:5]
    ]


def test_a_row_that_a_job_cleans_otherwise_is_named_with_its_column(rig: JobTopic) -> None:
    changed = "CASE WHEN id = 12 THEN amount + 0.01BD ELSE amount END"
    rig.run_query(lambda rows: clean_records(rows).where("id <> 3").withColumn("amount", F.expr(changed)))
    finding = compare(PipelineLake(rig.settings, rig.records()))

    assert finding.verdict is Verdict.DIVERGED
    (job,) = finding.jobs
    assert job.different == 2
    cells = {(cell.key["id"], cell.measure, cell.kind, str(cell.job)) for cell in job.cells}
    assert (12, "amount", "changed", "15.01") in cells
    assert {kind for key, _, kind, _ in cells if key == 3} == {"missing"}


def test_a_batch_that_was_appended_twice_is_named(rig: JobTopic) -> None:
    bootstrap = str(rig.settings.kafka.bootstrap_servers)
    command = [sys.executable, "-m", "tests.support.killed_job", bootstrap, rig.topic, str(rig.place), "1", "records"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2_000:]
    rig.run_query(clean_records, "update", append_to(f"{rig.place}/table"))
    finding = compare(PipelineLake(rig.settings, rig.records()))

    assert finding.verdict is Verdict.DIVERGED
    (job,) = finding.jobs
    assert {cell.measure for cell in job.cells} == {"copies"}
    assert 0 < job.different <= 20


@pytest.mark.quick("dropDuplicates")
@pytest.mark.parametrize("kind", ["dropDuplicates", "dropDuplicatesWithinWatermark"])
def test_dropped_duplicates_and_late_records_of_a_row_per_record(rig: JobTopic, kind: str) -> None:
    progress = rig.run_query(lambda records: deduplicate(clean_records(records), within="Within" in kind))
    lake = PipelineLake(rig.settings, by_ids(rig.records()))
    finding = compare(lake)

    assert_counts(lake, progress)
    assert list_broken_invariants(lake) == []
    (job,) = finding.jobs
    assert (job.rows > 40, job.different, job.cells) == (True, 0, ())
    assert finding.verdict is Verdict.EXPLAINED
    assert {find_id(sample) for sample in list_late(finding)} == LATE


def test_a_deduplication_without_a_watermark_forgets_no_id(rig: JobTopic) -> None:
    progress = rig.run_query(lambda records: deduplicate(clean_records(records), None))
    lake = PipelineLake(rig.settings, by_ids(rig.records()))
    finding = compare(lake)

    assert_counts(lake, progress)
    assert list_broken_invariants(lake) == []
    (job,) = finding.jobs
    assert (job.rows, job.different, job.cells) == (51, 0, ())
    assert finding.verdict is Verdict.CONSISTENT


def test_a_deduplication_with_one_watermark_judges_by_that_of_the_batch(rig: JobTopic) -> None:
    option = "spark.sql.streaming.statefulOperator.allowMultiple"
    rig.spark.conf.set(option, "false")
    try:
        progress = rig.run_query(lambda records: deduplicate(clean_records(records)))
    finally:
        rig.spark.conf.unset(option)
    stream = rig.stream(row_per_record=True, single_watermark=True)
    lake = PipelineLake(rig.settings, replace(by_ids(rig.records()), stream=stream))
    finding = compare(lake)

    assert_counts(lake, progress)
    assert list_broken_invariants(lake) == []
    (job,) = finding.jobs
    assert (job.rows > 40, job.different, job.cells) == (True, 0, ())
    assert {find_id(sample) for sample in list_late(finding)} >= LATE | {26}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_windows_behind_a_deduplication(rig: JobTopic, mode: OutputMode, within: bool) -> None:
    def transform(records: DataFrame) -> DataFrame:
        return count_windows(deduplicate(records, within=within), delay=None)

    write = merge_into(f"{rig.place}/table") if mode == "update" else None
    progress = rig.run_query(transform, mode, write)
    lake = PipelineLake(rig.settings, by_ids(rig.windows(mode)))
    finding = compare(lake)

    assert_counts(lake, progress)
    assert list_broken_invariants(lake) == []
    (job,) = finding.jobs
    assert (job.rows > 8, job.different, job.cells) == (True, 0, ())
    assert finding.verdict is Verdict.EXPLAINED
    assert {find_id(sample) for sample in list_late(finding)} == LATE


def test_explain_names_the_watermark_of_a_late_record_and_what_was_only_repeated(rig: JobTopic) -> None:
    rig.run_query(lambda records: count_windows(deduplicate(records), delay=None))
    lake = PipelineLake(rig.settings, by_ids(rig.windows("append")))
    compare(lake)
    one_pm = datetime(2026, 3, 1, 13, tzinfo=UTC)
    rows = {find_id((row.partition, row.offset)): row for row in explain_cell(lake, one_pm, ["a"]).rows}

    assert {number: row.class_ for number, row in rows.items()} == {10: "duplicate", 60: "late"}
    assert rows[60].event_time == "2026-03-01T13:35:00Z"
    assert rows[60].watermark == "2026-03-01T13:38:00Z"


def test_ids_are_remembered_across_runs_of_job_and_follower(rig: JobTopic) -> None:
    def transform(records: DataFrame) -> DataFrame:
        return count_windows(deduplicate(records, "3 hours"), delay=None)

    lake = PipelineLake(rig.settings, by_ids(rig.windows("append")))
    progress = rig.run_query(transform)
    assert run_driver(lake, until="drain") == 0
    send(rig.settings, rig.topic, [*EVENTS[30:60:3], Event(id=100, minute=800), Event(id=101, minute=800, partition=1)])
    progress += rig.run_query(transform)
    finding = compare(lake)

    assert_counts(lake, progress)
    assert list_broken_invariants(lake) == []
    assert sum(record.counts["duplicate"] for record in epoch_log(lake).records()) > len(REPEATED)
    (job,) = finding.jobs
    assert (job.different, finding.verdict) == (0, Verdict.CONSISTENT)


def test_what_a_job_has_forgotten_before_the_first_batch_that_is_kept(rig: JobTopic) -> None:
    rig.run_query(lambda records: deduplicate(clean_records(records)))
    remove_batches(rig.place, before=1)
    lake = PipelineLake(rig.settings, by_ids(rig.records()))
    finding = compare(lake)

    assert epoch_log(lake).records()[0].job_batch == 2
    assert finding.windows.incomplete_because["unread"] > 0
    (job,) = finding.jobs
    assert (job.rows > 0, job.different, job.cells) == (True, 0, ())


@pytest.mark.parametrize(
    ("transform", "changes", "message"),
    [
        (deduplicate, {}, "expected a job without a grouping, its checkpoint has dedupe by id, at (row)"),
        (clean_records, {"row_per_record": False}, "expected a job with one grouping, its checkpoint has no state"),
    ],
)
def test_a_job_of_another_shape_is_rejected(
    rig: JobTopic, transform: Callable[[DataFrame], DataFrame], changes: dict[str, Any], message: str
) -> None:
    rig.run_query(transform)
    pipeline = replace(rig.records(), stream=rig.stream(**{"row_per_record": True, **changes}))

    with pytest.raises(DefinitionError) as rejected:
        run_driver(PipelineLake(rig.settings, pipeline), until="drain")
    assert message in str(rejected.value)


def assert_counts(lake: PipelineLake, progress: Sequence[Mapping[str, Any]]) -> None:
    """Check that each epoch counts what Spark has counted for its batch."""
    dropped = {}
    for batch in progress:
        operator = batch["stateOperators"][-1]  # the deduplication comes first, and has the highest number
        duplicates = int(operator["customMetrics"]["numDroppedDuplicateRows"])
        dropped[batch["batchId"]] = (duplicates, int(operator["numRowsDroppedByWatermark"]))
    records = [record for record in epoch_log(lake).records() if not record.tick]
    counted = {record.job_batch: (record.counts["duplicate"], record.counts["late"]) for record in records}
    assert counted == {number: counts for number, counts in dropped.items() if number in counted}
    assert set(dropped.values()) - {(0, 0)}


def find_id(position: tuple[int, int]) -> int:
    """Return the id of the event at a position."""
    partition, offset = position
    return [event.id for event in SENT if event.partition == partition][offset]
