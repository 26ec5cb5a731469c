from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from cutover.batch import context
from cutover.batch.cli import nothing_computed
from cutover.batch.recompute import recompute_windows
from cutover.clock import Point, SystemClock
from cutover.definition import Fixed
from cutover.definition.windows.kinds import SlidingWindows, Window
from cutover.errors import LogError
from cutover.lake.batch_runs import read_effective_runs
from cutover.lake.control import pins, versions
from cutover.pipeline_lake import PipelineLake
from cutover.records.reading.scan import Offsets, read_records
from tests.integration.batch.lab import BASE, HOUR, Lab, hours
from tests.support.history.journal_rows import record_stage

CLOCK = SystemClock()


def test_closed_windows_are_computed_and_open_ones_are_not(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (1, 20, "AA", 7), (0, 30, "UA", None), (1, 3_700, "AA", 1), (0, 7_300, "AA", 2))
    lab.commit_epoch(watermark=7_200)

    batch_run = recompute_windows(lab.lake)

    expected = [
        (0, "AA", 2, Decimal(5 + 7), 7, (5 + 7) / 2),
        (0, "UA", 1, None, None, None),
        (1, "AA", 1, Decimal(1), 1, 1.0),
    ]
    assert lab.table(batch_run, "carrier", "flights", "delay", "worst", "mean") == expected
    assert batch_run is not None
    assert hours(batch_run.computed) == [(0, 2)]


def test_rows_that_do_not_count_are_in_the_batch_ledger(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (0, 20, "XX", 7))
    lab.send((1, 40, "AA", 1), ahead=3_601)
    lab.send_raw(1, b"{broken")
    lab.commit_epoch(watermark=3_600)

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    assert batch_run.counts == {"accepted": 1, "filtered": 1, "future": 1, "malformed": 1}
    ledger = lab.rows("batch_ledger", batch_run.ledger_version)
    at = {row["_class"]: [(p["partition"], p["offset"]) for p in row["_positions"] or ()] for row in ledger}
    assert at == {"filtered": [], "future": [(1, 0)], "malformed": [(1, 1)]}


def test_a_second_run_computes_nothing_and_leaves_the_table_as_it_is(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (1, 3_700, "AA", 1))
    lab.commit_epoch(watermark=7_200)
    first_batch_run = recompute_windows(lab.lake)

    second = recompute_windows(lab.lake)

    assert second is not None
    assert first_batch_run is not None
    assert (second.computed, second.stale, second.batch_version) == ((), (), first_batch_run.batch_version)
    assert lab.table(second, "flights") == lab.table(first_batch_run, "flights")


def test_a_late_record_makes_its_window_dirty_and_only_its_ranges_are_read_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.send(*((second % 2, second * 36, "AA", 1) for second in range(400)))  # 4 hours, 50 records a partition and hour
    lab.commit_epoch(watermark=4 * 3_600)
    recompute_windows(lab.lake)
    lab.send((0, 3_600, "AA", 100))
    lab.commit_epoch(watermark=4 * 3_600)
    scans: list[tuple[Offsets, ...]] = []
    reader = read_records

    def note(spark: Any, lake: PipelineLake, reads: tuple[Offsets, ...]) -> Any:
        scans.append(reads)
        return reader(spark, lake, reads)

    monkeypatch.setattr(context, "read_records", note)

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    assert hours(batch_run.computed) == [(1, 2)]
    assert scans == [({0: (200, 201)},), ({0: (50, 100), 1: (50, 100)},)]
    assert lab.table(batch_run, "flights", "delay") == [(0, 100, 100), (1, 101, 200), (2, 100, 100), (3, 100, 100)]


def test_a_window_open_at_one_cut_is_computed_whole_at_the_next(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (1, 3_700, "AA", 1))
    lab.commit_epoch(watermark=3_600)
    recompute_windows(lab.lake)
    lab.send((0, 3_800, "AA", 2), (1, 7_300, "AA", 3))
    lab.commit_epoch(watermark=7_200)

    batch_run = recompute_windows(lab.lake)

    assert lab.table(batch_run, "flights", "delay") == [(0, 1, 5), (1, 2, 1 + 2)]


def test_dirty_windows_outside_the_wanted_range_are_stale(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (1, 3_700, "AA", 1), (0, 7_300, "AA", 2))
    lab.commit_epoch(watermark=3 * 3_600)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (1, 2))

    part = recompute_windows(lab.lake, start=start, end=end)
    remaining_batch_run = recompute_windows(lab.lake)

    assert part is not None
    assert remaining_batch_run is not None
    assert (hours(part.computed), hours(part.stale)) == ([(1, 2)], [(0, 1), (2, 3)])
    assert hours(remaining_batch_run.computed) == [(0, 1), (2, 3)]
    assert lab.table(remaining_batch_run, "delay") == [(0, 5), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("window", "hour", "computed"),
    [
        (Fixed(hours=1), 1.5, (1, 3)),  # an hour that lies across two windows
        (Fixed(hours=6), 1.0, (0, 6)),  # a range shorter than its window
        (SlidingWindows(size=2 * HOUR * 1_000_000, every=HOUR * 1_000_000), 2.0, (1, 4)),
    ],
)
def test_a_range_computes_every_closed_window_that_it_touches(
    lab: Lab, window: Window, hour: float, computed: tuple[int, int]
) -> None:
    base = BASE // (6 * HOUR) * 6 * HOUR
    lab = replace(lab, pipeline=replace(lab.pipeline, window=window))
    lab.send(*((0, base - BASE + hour * HOUR + 10, "AA", 1) for hour in range(7)))
    lab.commit_epoch(watermark=base - BASE + 24 * HOUR)
    start, end = (datetime.fromtimestamp(base + (hour + more) * HOUR, UTC) for more in (0, 1))

    batch_run = recompute_windows(lab.lake, start=start, end=end)

    assert batch_run is not None
    computed_hours = [((a / 1e6 - base) / HOUR, (b / 1e6 - base) / HOUR) for a, b in batch_run.computed]
    assert (computed_hours, batch_run.does_nothing) == ([computed], False)


def test_a_range_of_which_no_window_is_closed_says_that_it_computes_nothing(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=3_600)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (4, 5))

    batch_run = recompute_windows(lab.lake, start=start, end=end)

    assert batch_run is not None
    assert (batch_run.computed, batch_run.does_nothing) == ((), True)
    assert "Nothing was computed" in nothing_computed(batch_run)


def test_an_older_cut_leaves_the_table_and_names_the_windows_that_are_ahead(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (1, 3_700, "AA", 1))
    old = lab.commit_epoch(watermark=7_200)
    lab.send((0, 3_800, "AA", 2))
    lab.commit_epoch(watermark=7_200)
    newer = recompute_windows(lab.lake)

    batch_run = recompute_windows(lab.lake, epoch=old.epoch)

    assert batch_run is not None
    assert newer is not None
    assert (batch_run.cut, batch_run.computed, batch_run.batch_version) == (old.end, (), newer.batch_version)
    assert hours(batch_run.stale) == [(1, 2)]


def test_a_cut_ahead_of_the_newest_epoch_is_refused(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=3_600)

    with pytest.raises(LogError, match="expected an epoch from 0 to 0, got 7"):
        recompute_windows(lab.lake, epoch=7)

    assert read_effective_runs(lab.lake) == []


def test_without_an_epoch_the_message_says_how_to_get_one(lab: Lab) -> None:
    with pytest.raises(LogError, match="Hint: `cutover stream"):
        recompute_windows(lab.lake)


def test_the_cut_is_pinned_from_the_start_until_it_is_compared(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=3_600)
    version = versions.find_current_version(lab.lake)
    assert version is not None
    pinned_epochs: list[tuple[int, ...]] = []

    def note_pinned(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the protocol's names
        pinned_epochs.append(pins.list_pinned_epochs(lab.settings, version, now=CLOCK.now()))

    batch_run = recompute_windows(lab.lake, probe=note_pinned)

    assert batch_run is not None
    assert pinned_epochs == [(0,)] * 4
    assert pins.list_pinned_epochs(lab.settings, version, now=CLOCK.now()) == (0,)
    pins.release_pin(lab.settings, version, 0, holder=pins.name_batch_holder(batch_run.run_id), now=CLOCK.now())
    assert pins.list_pinned_epochs(lab.settings, version, now=CLOCK.now()) == ()


def test_in_kappa_batch_does_not_run(lab: Lab) -> None:
    record_stage(lab.lake, "KAPPA")

    assert recompute_windows(lab.lake) is None
