"""Jobs that join two topics by a range of their times: which pairs they lost with which records, and their table."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame
from rich.table import Table

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.errors import DefinitionError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.cli.reconcile import list_explanation_lines
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.lateness_text import describe_late_amounts
from cutover.streaming.driver import run_driver
from cutover.timestamps import from_micros
from tests.integration.streaming.rig import NOON, Event, epoch_log, make_topic, query_rows, send
from tests.support.followed_jobs import JobTopic, compare, list_broken_invariants, remove_batches
from tests.support.jobs import PAIR, append_to, count_windows, deduplicate, join_topics, merge_into, read_topic, run_job

SENT = [
    Event(id=number, minute=6.0 * number - (260 if number % 9 == 8 else 0), key="abc"[number % 3], partition=number % 2)
    for number in range(45)
]
CLICKS = [
    Event(
        id=100 + number,
        minute=6.0 * number + (0, 30, 31, 7)[number % 4] - (200 if number % 10 == 9 else 0),
        key=None if number % 13 == 5 else "abc"[number % 3],
        partition=number % 2,
    )
    for number in range(45)
]
"""Records of both topics: some at the bounds of the range, some far behind, some without a key."""

NEVER = ("1 milliseconds", "2 milliseconds")
"""Range of no pair: all times are whole minutes."""

Pair = tuple[int, int]  # ids


@pytest.fixture(autouse=True)
def _clicks(rig: JobTopic) -> None:
    make_topic(rig.settings, rig.right_topic, partitions=2)
    send(rig.settings, rig.right_topic, CLICKS)


def send_again(rig: JobTopic) -> tuple[list[Event], list[Event]]:
    """Send events like those of both topics, ten hours later."""
    shown, clicked = (
        [replace(event, id=event.id + 1_000, minute=event.minute + 600) for event in events]
        for events in (SENT, CLICKS)
    )
    send(rig.settings, rig.topic, shown)
    send(rig.settings, rig.right_topic, clicked)
    return shown, clicked


def list_pairs(lefts: Sequence[Event], rights: Sequence[Event], lower: float = 0, upper: float = 30) -> set[Pair]:
    return {
        (left.id, right.id)
        for left in lefts
        for right in rights
        if left.key == right.key is not None and lower <= right.minute - left.minute <= upper
    }


def read_pairs(rig: JobTopic) -> list[Pair]:
    rows = rig.spark.read.format("delta").load(f"{rig.place}/table").collect()
    return sorted((row.id, row.click_id) for row in rows)


def assert_late_counts(lake: PipelineLake, progress: Sequence[Mapping[str, Any]]) -> None:
    """Check that each epoch has as many late records as Spark has counted for its batch."""
    dropped = {batch["batchId"]: int(batch["stateOperators"][0]["numRowsDroppedByWatermark"]) for batch in progress}
    query = (
        "SELECT _epoch, count(DISTINCT (p.partition, p.offset))::BIGINT FROM"
        " (SELECT _epoch, unnest(_positions) AS p FROM rows WHERE _class = 'late') GROUP BY 1"
    )
    late = dict(query_rows(lake, query))
    counted = {record.job_batch: late.get(record.epoch, 0) for record in epoch_log(lake).records() if not record.tick}
    assert counted == {number: dropped[number] for number in counted}
    assert any(dropped.values())


@pytest.mark.quick("append")
@pytest.mark.parametrize("kind", ["append", "foreachBatch append", "merge"])
def test_each_pair_of_a_join_is_reproduced_in_every_column(rig: JobTopic, kind: str) -> None:
    table = f"{rig.place}/table"
    writes = {"foreachBatch append": append_to(table), "merge": merge_into(table, on=PAIR)}
    progress = rig.run_join(writes.get(kind))
    lake = PipelineLake(rig.settings, rig.pairs())
    finding = compare(lake)

    assert_late_counts(lake, progress)
    assert list_broken_invariants(lake) == []
    (job,) = finding.jobs
    assert (job.rows > 15, job.different, job.cells, job.level) == (True, 0, (), "reproduced")
    assert finding.verdict is Verdict.EXPLAINED
    assert set(read_pairs(rig)) < list_pairs(SENT, CLICKS)


@pytest.mark.parametrize("policy", ["min", "max"])
@pytest.mark.parametrize(
    ("between", "bounds"),
    [
        (("-30 minutes", "0 minutes"), (-30, 0)),
        (("-7 minutes", "31 minutes"), (-7, 31)),
        (("1 minutes", "2 hours"), (1, 120)),
    ],
)
def test_any_range_and_both_policies_for_two_watermarks(
    rig: JobTopic, between: tuple[str, str], bounds: tuple[int, int], policy: str
) -> None:
    option = "spark.sql.streaming.multipleWatermarkPolicy"
    rig.spark.conf.set(option, policy)
    try:
        progress = rig.run_join(between=between, delays=("1 hour", "0 seconds"))
    finally:
        rig.spark.conf.unset(option)
    lake = PipelineLake(rig.settings, rig.pairs(between))
    finding = compare(lake)

    if policy == "max":
        assert_late_counts(lake, progress)
    (job,) = finding.jobs
    assert (job.rows > 3 or policy == "min", job.different, job.cells) == (True, 0, ())
    assert finding.verdict in {Verdict.EXPLAINED, Verdict.CONSISTENT}
    assert set(read_pairs(rig)) <= list_pairs(SENT, CLICKS, *bounds)


def test_a_join_with_one_watermark_judges_by_that_of_the_batch(rig: JobTopic) -> None:
    option = "spark.sql.streaming.statefulOperator.allowMultiple"
    rig.spark.conf.set(option, "false")
    try:
        progress = rig.run_join()
    finally:
        rig.spark.conf.unset(option)
    pipeline = rig.pairs()
    assert pipeline.stream is not None
    lake = PipelineLake(rig.settings, replace(pipeline, stream=replace(pipeline.stream, single_watermark=True)))
    finding = compare(lake)

    assert_late_counts(lake, progress)
    (job,) = finding.jobs
    assert (job.rows > 10, job.different, job.cells) == (True, 0, ())


def test_a_record_at_the_watermark_is_dropped_and_one_a_millisecond_later_is_not(rig: JobTopic) -> None:
    rig.run_join()
    watermark = min(max(event.minute for event in SENT) - 10, max(event.minute for event in CLICKS) - 5)
    shown = [Event(id=500, minute=watermark, key="e"), Event(id=501, minute=watermark + 1 / 60_000, key="e")]
    send(rig.settings, rig.topic, [*shown, Event(id=510, minute=2_000, key="z")])
    send(rig.settings, rig.right_topic, [replace(event, id=event.id + 20) for event in shown])
    send(rig.settings, rig.right_topic, [Event(id=530, minute=2_000, key="z")])
    progress = rig.run_join()
    lake = PipelineLake(rig.settings, rig.pairs())
    finding = compare(lake)

    assert [pair for pair in read_pairs(rig) if pair[0] in {500, 501}] == [(501, 521)]
    assert int(progress[0]["stateOperators"][0]["numRowsDroppedByWatermark"]) == 2
    (job,) = finding.jobs
    assert (job.different, finding.verdict) == (0, Verdict.EXPLAINED)


def test_explain_names_the_dropped_records_and_the_pairs_that_they_cost(rig: JobTopic) -> None:
    rig.run_join()
    lake = PipelineLake(rig.settings, rig.pairs())
    compare(lake)
    lost_pairs = list_pairs(SENT, CLICKS) - set(read_pairs(rig))
    left = next(event for event in SENT if event.id == min(lost_pairs)[0])
    hour = int(left.minute // 60)
    in_cell = {pair for pair in lost_pairs if SENT[pair[0]].key == left.key and SENT[pair[0]].minute // 60 == hour}
    start = from_micros(NOON) + timedelta(hours=hour)
    explanation = explain_cell(lake, start, [str(left.key)])
    titles = [line.title for line in list_explanation_lines(explanation) if isinstance(line, Table)]

    assert {(pair.ids["id"], pair.ids["right_id"]) for pair in explanation.lost_pairs} == in_cell
    assert {pair.pairs for pair in explanation.lost_pairs} == {1}
    assert "pairs that the stream lacks" in titles
    named = {(row.partition, row.offset) for row in explanation.rows if row.class_ == "late"}
    for pair in in_cell:
        assert {*list_positions(SENT, pair[0], 0), *list_positions(CLICKS, pair[1], RIGHT_PARTITION_BASE)} & named


def list_positions(events: Sequence[Event], number: int, base: int) -> Iterator[tuple[int, int]]:
    """Yield partition and offset of the event with an id."""
    for partition in (0, 1):
        ids = [event.id for event in events if event.partition == partition]
        if number in ids:
            yield base + partition, ids.index(number)


def test_another_range_than_that_of_the_definition_is_named_with_its_pairs(rig: JobTopic) -> None:
    rig.run_join(between=("0 minutes", "29 minutes"))
    finding = compare(PipelineLake(rig.settings, rig.pairs()))

    assert finding.verdict is Verdict.DIVERGED
    (job,) = finding.jobs
    assert {cell.kind for cell in job.cells} == {"missing"}
    expected = list_pairs(SENT, CLICKS) - list_pairs(SENT, CLICKS, upper=29)
    assert {(cell.key["id"], cell.key["right_id"]) for cell in job.cells} <= expected


def test_a_batch_that_was_merged_before_the_job_was_killed_is_followed_once_it_is_repeated(rig: JobTopic) -> None:
    bootstrap = str(rig.settings.kafka.bootstrap_servers)
    command = [sys.executable, "-m", "tests.support.killed_job", bootstrap, rig.topic, str(rig.place), "1", "pairs"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2_000:]
    lake = PipelineLake(rig.settings, rig.pairs())
    run_driver(lake, until="drain")
    rig.run_join(merge_into(f"{rig.place}/table", on=PAIR))
    finding = compare(lake)

    (job,) = finding.jobs
    assert (job.rows > 15, job.different, job.cells) == (True, 0, ())
    assert finding.verdict is Verdict.EXPLAINED


def test_a_job_that_has_written_no_pair_yet_has_an_empty_table(rig: JobTopic) -> None:
    rig.run_join(append_to(f"{rig.place}/table"), between=NEVER)
    finding = compare(PipelineLake(rig.settings, rig.pairs(NEVER)))

    assert read_pairs(rig) == []
    (job,) = finding.jobs
    assert (job.rows, job.different, job.level) == (0, 0, "reproduced")


def test_late_records_of_two_runs_are_worth_pairs_and_amounts(rig: JobTopic) -> None:
    """The pairs of dropped records are the difference of all pairs and those that the job has written."""
    rig.run_join()
    shown, clicked = send_again(rig)
    rig.run_join()
    finding = compare(PipelineLake(rig.settings, rig.pairs()))

    watermark = min(max(event.minute for event in shown) - 10, max(event.minute for event in clicked) - 5)
    # A window ends half an hour after the last left row that it may pair.
    closed = [event for event in (*SENT, *shown) if event.minute // 60 * 60 + 90 <= watermark]
    closed_pairs = list_pairs(closed, [*CLICKS, *clicked]) - set(read_pairs(rig))
    late_amounts = {
        waterfall.measure: sum(Decimal(str(step.amount)) for step in waterfall.steps if step.cause == "late")
        for waterfall in finding.waterfall
    }
    amount = sum(Decimal(left) for left, _ in closed_pairs) * Decimal("1.25")
    assert late_amounts == {"pairs": -len(closed_pairs), "amount": -amount}
    sentence = str(describe_late_amounts(finding.waterfall))
    assert sentence.startswith(f"Late records are worth {len(closed_pairs)} of pairs (")
    (job,) = finding.jobs
    assert job.different == 0


def test_windows_with_records_of_batches_that_were_removed_are_not_compared(rig: JobTopic) -> None:
    rig.run_join()
    send_again(rig)
    rig.run_join()
    remove_batches(rig.place, before=1)
    lake = PipelineLake(rig.settings, rig.pairs())
    finding = compare(lake)

    assert epoch_log(lake).records()[0].job_batch == 2
    assert finding.windows.incomplete_because["unread"] > 0
    (job,) = finding.jobs
    assert (job.rows > 0, job.different, job.cells) == (True, 0, ())


def join_once(shown: DataFrame, clicked: DataFrame) -> DataFrame:
    return join_topics(deduplicate(shown, None), clicked)


def join_left(shown: DataFrame, clicked: DataFrame) -> DataFrame:
    clicks = clicked.selectExpr("id AS click_id", "k AS click_k", "at AS clicked_at").withWatermark(
        "clicked_at", "1 minute"
    )
    condition = "k = click_k"
    return shown.selectExpr("id", "k").join(clicks, on=clicks.click_k == shown.k).where(condition)


def count_pairs(shown: DataFrame, clicked: DataFrame) -> DataFrame:
    return count_windows(join_topics(shown, clicked).withColumnRenamed("shop", "k"), None)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (join_once, "which records an operator before or behind a join drops is not recorded"),
        (join_left, "both sides of the join have a watermark on their event time"),
        (count_pairs, "which records an operator before or behind a join drops is not recorded"),
    ],
)
def test_a_join_of_another_shape_is_rejected(
    rig: JobTopic, transform: Callable[[DataFrame, DataFrame], DataFrame], message: str
) -> None:
    topics = (read_topic(rig.spark, rig.settings, name, rows=50) for name in (rig.topic, rig.right_topic))
    run_job(transform(*topics), rig.place, "append")

    with pytest.raises(DefinitionError) as rejected:
        run_driver(PipelineLake(rig.settings, rig.pairs()), until="drain")
    assert message in str(rejected.value)
