"""What both paths cost, from records: totals, days, delays, nines; what was not recorded is never zero."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.path_cost import PathCost, add_costs
from cutover.reconcile.cost.fold import DAYS_AT_MOST, fold
from cutover.reconcile.cost.nines import find_settled, price
from cutover.reconcile.result.cost import Agreement
from cutover.reconcile.result.cost_text import describe_waiting
from cutover.reconcile.result.settlement import AgreementPoint
from cutover.timestamps import to_micros

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def used(seconds: float | None, read: int | None = 1000, written: int | None = 100) -> PathCost:
    return PathCost(core_seconds=seconds, read_bytes=read, written_bytes=written)


def epoch(
    number: int, cost: PathCost | None, *, run_id: str = "d", records: int = 10, waited: float = 2.0
) -> EpochRecord:
    """Return an epoch of ten records an hour after the one before; the oldest record waited some seconds."""
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
    """Return a run that ended half an hour after the epoch of its number, with all records before `cut`."""
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


def test_a_driver_has_used_what_its_newest_epoch_says() -> None:
    found = fold([epoch(0, used(3.0)), epoch(1, used(4.5, 3000, 250))], [])

    assert (found.streaming.core_seconds, found.streaming.read_bytes, found.streaming.written_bytes) == (4.5, 3000, 250)
    assert found.streaming.core_seconds_per_million == 4.5 / 20 * 1e6


def test_each_driver_counts_from_its_own_start() -> None:
    epochs = [
        epoch(0, used(3.0)),
        epoch(1, used(4.0)),
        epoch(2, used(2.5), run_id="e"),
        epoch(3, used(3.0), run_id="e"),
    ]

    found = fold(epochs, [])

    assert (found.streaming.core_seconds, found.streaming.runs) == (4.0 + 3.0, 2)


def test_an_epoch_without_figures_is_unknown_and_not_zero() -> None:
    found = fold([epoch(0, None), epoch(1, None)], [batch(1, None, cut=20, scanned=20)])

    assert (found.streaming.core_seconds, found.streaming.written_bytes) == (None, None)
    assert (found.batch.core_seconds, found.batch.core_seconds_per_million) == (None, None)
    assert (found.streaming.unknown_runs, found.batch.unknown_runs) == (1, 1)
    assert (found.streaming.records, found.streaming.measured_records) == (20, 0)
    assert "1 of 1 drivers left no core-seconds" in found.notes[0]


def test_a_price_for_each_record_leaves_out_what_is_not_known() -> None:
    found = fold([epoch(0, None, run_id="old"), epoch(1, used(2.0))], [])

    assert (found.streaming.measured_records, found.streaming.records) == (10, 20)
    assert found.streaming.core_seconds_per_million == 2.0 / 10 * 1e6


def test_bytes_are_known_where_processor_time_is_not() -> None:
    found = fold([epoch(0, used(None, None, 700))], [])

    assert (found.streaming.core_seconds, found.streaming.written_bytes, found.streaming.unknown_runs) == (None, 700, 1)


def test_days_are_those_of_processing_and_the_newest_ones() -> None:
    epochs = [epoch(24 * day, used(day + 1.0)) for day in range(40)]

    found = fold(epochs, [batch(24 * 39, used(9.0), cut=1000, scanned=5)])

    assert len(found.days) == DAYS_AT_MOST
    assert (found.days[-1].day, found.days[-1].batch.core_seconds) == ("2026-04-09", 9.0)
    assert {day.streaming.core_seconds for day in found.days} == {1.0}
    assert (found.days[0].batch.runs, found.days[0].batch.core_seconds) == (0, None)


def test_delay_is_from_the_oldest_log_time_to_the_commit() -> None:
    found = fold(
        [epoch(0, used(1.0), waited=2), epoch(1, used(2.0), waited=8)], [batch(1, used(5.0), cut=20, scanned=20)]
    )

    assert (found.streaming_delay.p50, found.streaming_delay.largest) == (2, 8)
    assert (found.batch_delay.p50, found.batch_delay.largest) == (1800 + 8, 3600 + 1800 + 2)


def test_a_run_that_is_dated_years_ahead_makes_no_delay_of_years() -> None:
    epochs = [epoch(number, None) for number in range(3)]
    runs = [batch(number, None, cut=10 * (number + 1), scanned=10) for number in range(3)]
    ahead = replace(runs[1], finished=(NOON + timedelta(days=1_000)).isoformat())

    found = fold(epochs, [runs[2], runs[0], ahead])

    assert found.batch_delay.largest == 1800 + 2
    assert len(found.days) == 1


def test_a_day_has_the_delays_of_its_own_epochs_and_runs() -> None:
    epochs = [epoch(0, used(1.0), waited=2), epoch(24, used(2.0), waited=8)]
    found = fold(epochs, [batch(1, used(5.0), cut=10, scanned=10), batch(25, used(6.0), cut=250, scanned=10)])

    first, second = found.days
    assert first.streaming_delay is not None
    assert second.batch_delay is not None
    assert (first.streaming_delay.largest, second.batch_delay.records) == (2, 10)
    assert [day.streaming_delay and day.streaming_delay.largest for day in found.days] == [2, 8]
    assert [day.batch_delay and day.batch_delay.largest for day in found.days] == [5402, 5408]


def test_records_that_batch_has_not_read_wait() -> None:
    runs = [batch(0, used(1.0), cut=10, scanned=10), batch(2, used(1.0), cut=30, scanned=20, topic_id="other")]

    found = fold([epoch(n, used(n + 1.0)) for n in range(3)], runs)

    assert (found.batch_delay.records, found.batch_delay.waiting) == (10, 20)


def test_records_of_the_past_are_counted_and_in_no_delay() -> None:
    found = fold([epoch(0, used(1.0), waited=86_401), epoch(1, used(1.0), waited=3)], [])

    assert (found.replayed, found.streaming_delay.records, found.streaming_delay.largest) == (10, 10, 3)


def test_a_nine_is_bought_where_more_rows_differ_than_it_allows() -> None:
    nines = price(Agreement(rows=10_000, different=20), 40.0)

    assert [(one.nines, one.may_differ, one.bought) for one in nines] == [
        (1, 1000, 0),
        (2, 100, 0),
        (3, 10, 10),
        (4, 1, 19),
        (5, 0, 20),
    ]
    assert [one.core_seconds_per_row for one in nines] == [None, None, 4.0, round(40 / 19, 6), 2.0]


def test_price_of_a_nine_is_unknown_where_a_batch_run_is() -> None:
    runs = [batch(0, used(4.0), cut=10, scanned=10), batch(1, None, cut=20, scanned=10)]

    found = fold([epoch(0, used(1.0)), epoch(1, used(2.0))], runs, Agreement(rows=100, different=50))

    assert [nine.core_seconds_per_row for nine in found.nines] == [None] * 3
    assert found.batch.core_seconds == 4.0


def at(minutes: float, different: int, *, rows: int = 10_000, windows: int = 100) -> AgreementPoint:
    return AgreementPoint(minutes=minutes, windows=windows, rows=rows, different=different)


def _find_minutes(agreement: Agreement, nines: int) -> float | None:
    point = find_settled(agreement, nines)
    return None if point is None else point.minutes


def test_a_nine_is_reached_at_the_age_from_which_on_no_more_rows_differ() -> None:
    agreement = Agreement(rows=10_000, different=5, by_age=(at(1, 900), at(5, 60), at(15, 200), at(30, 10), at(60, 5)))

    assert [_find_minutes(agreement, nines) for nines in (1, 2, 3)] == [1, 30, 30]
    assert [one.settled_minutes for one in price(agreement, None)] == [1, 30, 30, None, None]
    assert [one.is_never_settled for one in price(agreement, None)] == [False, False, False, True, True]


def test_ages_of_few_windows_or_of_too_few_rows_decide_nothing() -> None:
    few = Agreement(rows=1_000, different=0, by_age=(at(1, 0, windows=9), at(5, 0, rows=99), at(60, 0, rows=1_000)))

    assert [_find_minutes(few, nines) for nines in (1, 2)] == [5, 60]


def test_a_young_pipeline_concludes_no_age_from_one_window() -> None:
    agreement = Agreement(rows=50, different=0, by_age=(at(60, 0, rows=50, windows=1),))

    assert [describe_waiting(nine) for nine in price(agreement, None)] == ["unknown", "unknown"]


def test_without_ages_the_wait_is_unknown() -> None:
    assert find_settled(Agreement(rows=100, different=0), 1) is None
    assert [describe_waiting(one) for one in price(Agreement(rows=100, different=2), None)] == [
        "unknown",
        "never",
        "never",
    ]


steps = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 10**6)), st.integers(0, 1000)), max_size=30
)


@given(steps=steps, order=st.randoms(use_true_random=False))
def test_totals_are_sums_of_days_and_do_not_hang_on_order(
    steps: list[tuple[int, int | None, int]], order: object
) -> None:
    """Every driver's newest figure counts once, whatever lies between; an order of the rows says nothing."""
    sums: dict[int, int] = {}
    epochs = []
    for number, (driver, millis, records) in enumerate(steps):
        if millis is not None:
            sums[driver] = sums.get(driver, 0) + millis
        cost = None if millis is None else used(sums[driver] / 1000, sums[driver], sums[driver])
        epochs.append(epoch(number, cost, run_id=str(driver), records=records))
    shuffled = list(epochs)
    order.shuffle(shuffled)  # type: ignore[attr-defined] # Hypothesis has no name for its type

    found = fold(epochs, [])

    assert fold(shuffled, []) == found
    total = sum(sums.values())
    assert found.streaming.core_seconds == (pytest.approx(total / 1000, abs=1e-6) if sums else None)
    assert found.streaming.read_bytes == (total if sums else None)
    assert sum(day.streaming.read_bytes or 0 for day in found.days) == total
    assert sum(day.streaming.records for day in found.days) == sum(records for _, _, records in steps)
    assert found.streaming.unknown_runs == len({driver for driver, _, _ in steps} - set(sums))


@given(rows=st.integers(1, 10**6), part=st.floats(0, 1), seconds=st.one_of(st.none(), st.floats(0, 1e6)))
def test_nines_get_dearer_and_end_where_no_row_may_differ(rows: int, part: float, seconds: float | None) -> None:
    different = int(rows * part)

    nines = price(Agreement(rows=rows, different=different), seconds)

    assert [one.may_differ for one in nines] == sorted((one.may_differ for one in nines), reverse=True)
    assert [one.bought for one in nines] == sorted(one.bought for one in nines)
    assert (nines[-1].may_differ, nines[-1].bought) == (0, different)
    assert all((one.core_seconds_per_row is None) == (not one.bought or seconds is None) for one in nines)


def test_a_fork_that_copied_epochs_counts_them_as_recorded() -> None:
    copied = [replace(epoch(n, used(n + 1.0)), run_id="before") for n in range(3)]

    found = fold([*copied, epoch(3, used(0.5), run_id="after")], [])

    assert (found.streaming.core_seconds, found.streaming.runs) == (3.5, 2)


def test_a_sum_of_what_is_not_known_is_not_known() -> None:
    assert add_costs(used(1.5, 10, 0), used(0.25, 5, 7)) == used(1.75, 15, 7)
    assert add_costs(used(None, 10, None), used(1.0, 5, 7)) == used(None, 15, None)
