"""Jobs that join two topics by a range of their times: which pairs they lost with which records, and their table."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from tests.integration.streaming.rig import Event, epoch_log, make_topic, query_rows, send
from tests.support.followed_jobs import JobTopic, compare, list_broken_invariants
from tests.support.jobs import PAIR, append_to, merge_into

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

Pair = tuple[int, int]  # ids


@pytest.fixture(autouse=True)
def _clicks(rig: JobTopic) -> None:
    make_topic(rig.settings, rig.right_topic, partitions=2)
    send(rig.settings, rig.right_topic, CLICKS)


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


@pytest.mark.quick("merge")
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
