"""Costs of both paths from recorded usage: totals, days, delays and nines; an unrecorded cost is never zero."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.engine.usage import PathCost, add_costs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.cost import DAYS_AT_MOST, find_settled, fold, price
from cutover.reconcile.result.parts import AgreementPoint
from cutover.reconcile.result.report import Agreement, describe_waiting
from cutover.timestamps import to_micros

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_cost(seconds: float | None, read: int | None = 1000, written_bytes: int | None = 100) -> PathCost:
    return PathCost(core_seconds=seconds, read_bytes=read, written_bytes=written_bytes)


def epoch(
    number: int, cost: PathCost | None, *, run_id: str = "d", records: int = 10, waited: float = 2.0
) -> EpochRecord:
    """Build an epoch of ten records, one hour after the previous one, whose oldest record waited `waited` seconds."""
    at = NOON + timedelta(hours=number)
    return EpochRecord(
        epoch=number,
        run_id=run_id,
        topic="t",
        topic_id="t1",
        cluster_id="c",
        start={0: number * 10},
        end={0: number * 10 + records},
        max_event={},
        watermark_before=None,
        watermark_after=None,
        records=records,
        processing_time=at.isoformat(),
        oldest_log_time=to_micros(at) - int(waited * 1e6) if records else None,
        cost=cost,
    )


def batch(number: int, cost: PathCost | None, *, cut: int, scanned: int, topic_id: str = "t1") -> BatchRun:
    """Build a run that ended half an hour after the epoch of its number and read all records before `cut`."""
    return BatchRun(
        run_id=f"b{number}",
        epoch=number,
        stream_version=0,
        topic="t",
        topic_id=topic_id,
        cluster_id="c",
        cut={0: cut},
        scanned={0: (cut - scanned, cut)},
        watermark=None,
        result_fingerprint="f",
        batch_fingerprint="same",
        isolation="read_committed",
        computed=(),
        cost=cost,
        finished=(NOON + timedelta(hours=number, minutes=30)).isoformat(),
        sequence=number,
    )


def test_cost_of_a_driver_is_that_of_its_newest_epoch() -> None:
    costs = fold([epoch(0, make_cost(3.0)), epoch(1, make_cost(4.5, 3000, 250))], [])

    assert (costs.streaming.core_seconds, costs.streaming.read_bytes, costs.streaming.written_bytes) == (4.5, 3000, 250)
    assert costs.streaming.core_seconds_per_million == 4.5 / 20 * 1e6


def test_each_driver_counts_from_its_own_start() -> None:
    epochs = [
        epoch(0, make_cost(3.0)),
        epoch(1, make_cost(4.0)),
        epoch(2, make_cost(2.5), run_id="e"),
        epoch(3, make_cost(3.0), run_id="e"),
    ]

    costs = fold(epochs, [])

    assert (costs.streaming.core_seconds, costs.streaming.runs) == (4.0 + 3.0, 2)


def test_an_epoch_without_figures_is_unknown_and_not_zero() -> None:
    costs = fold([epoch(0, None), epoch(1, None)], [batch(1, None, cut=20, scanned=20)])

    assert (costs.streaming.core_seconds, costs.streaming.written_bytes) == (None, None)
    assert (costs.batch.core_seconds, costs.batch.core_seconds_per_million) == (None, None)
    assert (costs.streaming.unknown_runs, costs.batch.unknown_runs) == (1, 1)
    assert (costs.streaming.records, costs.streaming.measured_records) == (20, 0)
    assert "1 of 1 driver left no core-seconds" in costs.notes[0]


def test_price_per_record_excludes_unmeasured_records() -> None:
    costs = fold([epoch(0, None, run_id="old"), epoch(1, make_cost(2.0))], [])

    assert (costs.streaming.measured_records, costs.streaming.records) == (10, 20)
    assert costs.streaming.core_seconds_per_million == 2.0 / 10 * 1e6


def test_bytes_are_known_where_processor_time_is_not() -> None:
    costs = fold([epoch(0, make_cost(None, None, 700))], [])

    assert (costs.streaming.core_seconds, costs.streaming.written_bytes, costs.streaming.unknown_runs) == (None, 700, 1)


def test_days_are_the_newest_processing_days() -> None:
    epochs = [epoch(24 * day, make_cost(day + 1.0)) for day in range(40)]

    costs = fold(epochs, [batch(24 * 39, make_cost(9.0), cut=1000, scanned=5)])

    assert len(costs.days) == DAYS_AT_MOST
    assert (costs.days[-1].day, costs.days[-1].batch.core_seconds) == ("2026-04-09", 9.0)
    assert {day.streaming.core_seconds for day in costs.days} == {1.0}
    assert (costs.days[0].batch.runs, costs.days[0].batch.core_seconds) == (0, None)


def test_delay_is_from_the_oldest_log_time_to_the_commit() -> None:
    costs = fold(
        [epoch(0, make_cost(1.0), waited=2), epoch(1, make_cost(2.0), waited=8)],
        [batch(1, make_cost(5.0), cut=20, scanned=20)],
    )

    assert (costs.streaming_delay.p50, costs.streaming_delay.largest) == (2, 8)
    assert (costs.batch_delay.p50, costs.batch_delay.largest) == (1800 + 8, 3600 + 1800 + 2)


def test_a_run_dated_years_ahead_causes_no_delay_of_years() -> None:
    epochs = [epoch(number, None) for number in range(3)]
    runs = [batch(number, None, cut=10 * (number + 1), scanned=10) for number in range(3)]
    ahead = replace(runs[1], finished=(NOON + timedelta(days=1_000)).isoformat())

    costs = fold(epochs, [runs[2], runs[0], ahead])

    assert costs.batch_delay.largest == 1800 + 2
    assert len(costs.days) == 1


def test_a_day_has_the_delays_of_its_own_epochs_and_runs() -> None:
    epochs = [epoch(0, make_cost(1.0), waited=2), epoch(24, make_cost(2.0), waited=8)]
    costs = fold(epochs, [batch(1, make_cost(5.0), cut=10, scanned=10), batch(25, make_cost(6.0), cut=250, scanned=10)])

    first_day, second = costs.days
    assert first_day.streaming_delay is not None
    assert second.batch_delay is not None
    assert (first_day.streaming_delay.largest, second.batch_delay.records) == (2, 10)
    assert [day.streaming_delay and day.streaming_delay.largest for day in costs.days] == [2, 8]
    assert [day.batch_delay and day.batch_delay.largest for day in costs.days] == [5402, 5408]


def test_records_not_read_by_batch_are_waiting() -> None:
    runs = [
        batch(0, make_cost(1.0), cut=10, scanned=10),
        batch(2, make_cost(1.0), cut=30, scanned=20, topic_id="other"),
    ]

    costs = fold([epoch(n, make_cost(n + 1.0)) for n in range(3)], runs)

    assert (costs.batch_delay.records, costs.batch_delay.waiting) == (10, 20)


def test_replayed_records_are_counted_but_excluded_from_delays() -> None:
    costs = fold([epoch(0, make_cost(1.0), waited=86_401), epoch(1, make_cost(1.0), waited=3)], [])

    assert (costs.replayed, costs.streaming_delay.records, costs.streaming_delay.largest) == (10, 10, 3)


def test_a_nine_is_bought_where_more_rows_differ_than_it_allows() -> None:
    nines = price(Agreement(rows=10_000, different=20), 40.0)

    assert [(nine.nines, nine.may_differ, nine.bought) for nine in nines] == [
        (1, 1000, 0),
        (2, 100, 0),
        (3, 10, 10),
        (4, 1, 19),
        (5, 0, 20),
    ]
    assert [nine.core_seconds_per_row for nine in nines] == [None, None, 4.0, round(40 / 19, 6), 2.0]


def test_price_of_a_nine_is_unknown_where_a_batch_run_is() -> None:
    runs = [batch(0, make_cost(4.0), cut=10, scanned=10), batch(1, None, cut=20, scanned=10)]

    costs = fold([epoch(0, make_cost(1.0)), epoch(1, make_cost(2.0))], runs, Agreement(rows=100, different=50))

    assert [nine.core_seconds_per_row for nine in costs.nines] == [None] * 3
    assert costs.batch.core_seconds == 4.0


def at(minutes: float, different: int, *, rows: int = 10_000, windows: int = 100) -> AgreementPoint:
    return AgreementPoint(minutes=minutes, windows=windows, rows=rows, different=different)


def _find_minutes(agreement: Agreement, nines: int) -> float | None:
    point = find_settled(agreement, nines)
    return None if point is None else point.minutes


def test_a_nine_is_reached_at_the_age_after_which_few_enough_rows_differ() -> None:
    agreement = Agreement(rows=10_000, different=5, by_age=(at(1, 900), at(5, 60), at(15, 200), at(30, 10), at(60, 5)))

    assert [_find_minutes(agreement, nines) for nines in (1, 2, 3)] == [1, 30, 30]
    assert [nine.settled_minutes for nine in price(agreement, None)] == [1, 30, 30, None, None]
    assert [nine.is_never_settled for nine in price(agreement, None)] == [False, False, False, True, True]


def test_ages_of_few_windows_or_of_too_few_rows_decide_nothing() -> None:
    few = Agreement(rows=1_000, different=0, by_age=(at(1, 0, windows=9), at(5, 0, rows=99), at(60, 0, rows=1_000)))

    assert [_find_minutes(few, nines) for nines in (1, 2)] == [5, 60]


def test_a_young_pipeline_concludes_no_age_from_one_window() -> None:
    agreement = Agreement(rows=50, different=0, by_age=(at(60, 0, rows=50, windows=1),))

    assert [describe_waiting(nine) for nine in price(agreement, None)] == ["unknown", "unknown"]


def test_no_wait_is_concluded_if_it_is_unknown_whether_the_log_was_replayed() -> None:
    agreement = Agreement(rows=10_000, different=5, is_replay=None, by_age=(at(1, 0), at(60, 5)))

    assert [describe_waiting(nine) for nine in price(agreement, None)[:4]] == ["unknown"] * 3 + ["never"]


def test_without_ages_the_wait_is_unknown() -> None:
    assert find_settled(Agreement(rows=100, different=0), 1) is None
    assert [describe_waiting(nine) for nine in price(Agreement(rows=100, different=2), None)] == [
        "unknown",
        "never",
        "never",
    ]


steps = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 10**6)), st.integers(0, 1000)), max_size=30
)


@given(steps=steps, order=st.randoms(use_true_random=False))
def test_totals_are_sums_of_days_in_any_order(steps: list[tuple[int, int | None, int]], order: object) -> None:
    """Only the newest figure of each driver counts, and the order of the rows does not matter."""
    sums: dict[int, int] = {}
    epochs = []
    for number, (driver, millis, records) in enumerate(steps):
        if millis is not None:
            sums[driver] = sums.get(driver, 0) + millis
        cost = None if millis is None else make_cost(sums[driver] / 1000, sums[driver], sums[driver])
        epochs.append(epoch(number, cost, run_id=str(driver), records=records))
    shuffled = list(epochs)
    order.shuffle(shuffled)  # type: ignore[attr-defined] # Hypothesis has no name for its type

    costs = fold(epochs, [])

    assert fold(shuffled, []) == costs
    total = sum(sums.values())
    assert costs.streaming.core_seconds == (pytest.approx(total / 1000, abs=1e-6) if sums else None)
    assert costs.streaming.read_bytes == (total if sums else None)
    assert sum(day.streaming.read_bytes or 0 for day in costs.days) == total
    assert sum(day.streaming.records for day in costs.days) == sum(records for _, _, records in steps)
    assert costs.streaming.unknown_runs == len({driver for driver, _, _ in steps} - set(sums))


@given(rows=st.integers(1, 10**6), part=st.floats(0, 1), seconds=st.one_of(st.none(), st.floats(0, 1e6)))
def test_nines_get_more_expensive_until_no_row_may_differ(rows: int, part: float, seconds: float | None) -> None:
    different = int(rows * part)

    nines = price(Agreement(rows=rows, different=different), seconds)

    assert [nine.may_differ for nine in nines] == sorted((nine.may_differ for nine in nines), reverse=True)
    assert [nine.bought for nine in nines] == sorted(nine.bought for nine in nines)
    assert (nines[-1].may_differ, nines[-1].bought) == (0, different)
    assert all((nine.core_seconds_per_row is None) == (not nine.bought or seconds is None) for nine in nines)


def test_a_fork_that_copied_epochs_counts_them_as_recorded() -> None:
    copied = [replace(epoch(n, make_cost(n + 1.0)), run_id="before") for n in range(3)]

    costs = fold([*copied, epoch(3, make_cost(0.5), run_id="after")], [])

    assert (costs.streaming.core_seconds, costs.streaming.runs) == (3.5, 2)


def test_a_sum_with_an_unknown_cost_is_unknown() -> None:
    assert add_costs(make_cost(1.5, 10, 0), make_cost(0.25, 5, 7)) == make_cost(1.75, 15, 7)
    assert add_costs(make_cost(None, 10, None), make_cost(1.0, 5, 7)) == make_cost(None, 15, None)
