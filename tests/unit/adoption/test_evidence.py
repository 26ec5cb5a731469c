"""Batches that are read to test a definition: only windows without earlier records are whole."""

from collections.abc import Mapping

import pytest

from cutover.adoption.draft import JobDraft, KeyPart, list_filters
from cutover.adoption.evidence import ReadPlan, find_period, plan_read
from cutover.definition import Fixed
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint

MINUTE = 60_000_000


def checkpoint(first: int, last: int) -> SparkCheckpoint:
    """Return batches of ten records each, whose watermarks advance by an hour."""
    batches = tuple(
        Batch(
            number=number,
            ends={"t": {0: 10 * (number + 1)}},
            planned_at=number,
            watermark=60 * MINUTE * number,
            judged_by=None if number == first > 0 else 60 * MINUTE * max(0, number - 1),
            is_committed=True,
        )
        for number in range(first, last + 1)
    )
    return SparkCheckpoint(query_id="q", starts={"t": {0: 0}}, batches=batches, operators=())


def plan(first: int, *, earliest: int = 0, limit: int = 1_000, delay: int | None = 10 * MINUTE) -> ReadPlan | str:
    origin: Mapping[int, int] = {0: earliest}
    return plan_read(checkpoint(first, 9), 9, origin, limit=limit, delay=delay, has_row_per_record=False)


def test_all_windows_are_whole_if_every_batch_can_be_read() -> None:
    read = plan(0)
    assert isinstance(read, ReadPlan)
    assert (read.records, read.whole_from, read.closed_until) == (100, None, 9 * 60 * MINUTE)


@pytest.mark.parametrize(("first", "earliest", "limit", "number"), [(0, 0, 35, 7), (0, 45, 100, 5), (3, 0, 100, 4)])
def test_windows_with_records_of_earlier_batches_are_not_whole(
    first: int, earliest: int, limit: int, number: int
) -> None:
    read = plan(first, earliest=earliest, limit=limit)
    assert isinstance(read, ReadPlan)
    assert read.batches[0].number == number
    assert read.whole_from == (60 * number + 10) * MINUTE + 1_000  # the newest event time before, which is in a window


def test_nothing_is_read_if_no_window_can_be_whole() -> None:
    assert "more records than are read" in str(plan(0, limit=5))
    assert "without a watermark" in str(plan(0, earliest=45, delay=None))
    assert "no longer has the records" in str(plan(0, earliest=99))


def test_the_period_of_windows_is_the_largest_one_that_fits() -> None:
    assert find_period([0, 3 * MINUTE, 9 * MINUTE]) == 3 * MINUTE
    assert find_period([MINUTE]) is None


def test_filters_are_those_that_the_values_suggest() -> None:
    draft = JobDraft(
        name="n",
        topic="t",
        checkpoint="/c",
        table="/t",
        types={"k": "string", "status": "string", "amount": "double", "at": "timestamp"},
        paths={},
        event_time="at",
        time_format="iso",
        window=Fixed(hours=1),
        start_column="start",
        key=(KeyPart(field="k", column="k"),),
        value_columns={},
    )
    records = [
        {"k": "ab"[number % 2], "status": ("ok", "bad", None)[number % 3], "amount": number - 3.0, "at": number}
        for number in range(20)
    ]
    filters = {each.sql: each for each in list_filters(draft, records)}

    values = {f"status {sign} '{value}'" for sign in ("=", "<>") for value in ("ok", "bad")}
    assert set(filters) == values | {"status IS NOT NULL", "amount > 0", "amount <> 0", "amount >= 0", "amount < 0"}
    assert [filters["status <> 'bad'"].passes(record) for record in records[:3]] == [True, False, False]
    assert [filters["amount >= 0"].passes(record) for record in records[2:4]] == [False, True]
