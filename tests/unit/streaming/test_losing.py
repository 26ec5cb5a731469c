"""Extent of a loss and the windows that it touches, by offsets and times."""

from dataclasses import replace

import pytest

from cutover.definition import Lateness
from cutover.definition.windows.kinds import Sessions, SlidingWindows
from cutover.lake.epochs.delivery import OffsetGap
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.records.parsing import limits
from cutover.streaming.recovery import loss_extent
from cutover.streaming.recovery.loss_extent import IncompleteRange, LogState, RewrittenLog
from tests.integration.streaming import rig
from tests.integration.streaming.rig import MINUTE, NOON

ALWAYS = limits.MIN_MICROS
LATENESS = Lateness(out_of_orderness="5 minutes", allowed="20 minutes", max_ahead="30 minutes")
CLICKS = rig.pipeline("flights", lateness=LATENESS)  # windows of 10 minutes
LOG = LogState(
    topic_id="A",
    earliest={0: 60, 1: 0},
    latest={0: 90, 1: 9},
    first_times={0: NOON + 45 * MINUTE, 1: NOON},
    now=NOON + 300 * MINUTE,
)
RECORD = EpochRecord(
    epoch=41,
    run_id="pid-1-a",
    topic="flights",
    topic_id="A",
    cluster_id="C",
    start={0: 0, 1: 0},
    end={0: 40, 1: 7},
    max_event={0: NOON + 62 * MINUTE, 1: NOON + 90 * MINUTE},
    watermark_before=None,
    watermark_after=NOON + 57 * MINUTE,
)
HOLE = OffsetGap(partition=0, expected=40, first=60, end=90)


def minutes(windows: tuple[int, int] | None) -> tuple[float, float] | None:
    return None if windows is None else ((windows[0] - NOON) / MINUTE, (windows[1] - NOON) / MINUTE)


@pytest.mark.parametrize(
    ("watermark", "first_touched"),
    [(57, 30), (59.9, 30), (60, 40), (60.1, 40), (70, 50)],
    ids=["between", "just open", "just final", "just after", "next"],
)
def test_windows_that_were_final_are_not_touched(watermark: float, first_touched: float) -> None:
    touched_windows = loss_extent.find_affected_windows(CLICKS, NOON + int(watermark * MINUTE), NOON + 45 * MINUTE)

    assert minutes(touched_windows) == (first_touched, 80)
    # the last window before it was final by the definition's own words, the first touched one was not
    assert first_touched - 10 + 10 + 20 <= watermark < first_touched + 10 + 20


@pytest.mark.parametrize(("logged", "end"), [(45, 80), (50, 90), (49.99, 80)])
def test_windows_after_the_first_remaining_record_and_max_ahead_are_not_touched(logged: float, end: float) -> None:
    touched_windows = loss_extent.find_affected_windows(CLICKS, NOON, NOON + int(logged * MINUTE))

    assert touched_windows is not None
    assert minutes(touched_windows) == (-20, end)
    assert end - 10 <= logged + 30 < end


def test_sliding_windows_are_touched_by_their_starts() -> None:
    sliding = replace(CLICKS, window=SlidingWindows(size=30 * MINUTE, every=10 * MINUTE))

    assert minutes(loss_extent.find_affected_windows(sliding, NOON + 60 * MINUTE, NOON + 45 * MINUTE)) == (20, 80)


def test_sessions_are_touched_by_a_time_range() -> None:
    sessions = replace(CLICKS, window=Sessions("10 minutes"))

    touched_windows = loss_extent.find_affected_windows(sessions, NOON + 60 * MINUTE, NOON + 45 * MINUTE)

    # The last final one ends 10 minutes (a further gap) and 20 (allowed) before the watermark; a lost row of 13:15
    # reaches a gap further.
    assert touched_windows == (NOON + (60 - 10 - 20) * MINUTE, NOON + (45 + 30 + 10) * MINUTE + 1)


def test_nothing_is_touched_if_every_lost_record_would_have_been_late() -> None:
    assert loss_extent.find_affected_windows(CLICKS, NOON + 200 * MINUTE, NOON + 45 * MINUTE) is None


def test_gap_names_the_lost_offsets_and_the_windows_open_at_the_newest_epoch() -> None:
    (loss,) = loss_extent.compute_gap_losses(CLICKS, RECORD, [HOLE], LOG)

    assert (loss.topic_id, loss.partition, loss.first, loss.next) == ("A", 0, 40, 60)
    assert minutes(loss.windows) == (30, 80)


def test_gap_without_a_remaining_record_reaches_to_now() -> None:
    (loss,) = loss_extent.compute_gap_losses(CLICKS, RECORD, [HOLE], replace(LOG, first_times={}))

    assert minutes(loss.windows) == (30, 340)


def test_new_version_over_a_whole_log_loses_nothing() -> None:
    loss_extents = loss_extent.compute_losses_without_table(
        CLICKS, [], replace(LOG, earliest={0: 0, 1: 0}), RewrittenLog()
    )

    assert [(loss.partition, loss.first, loss.next, loss.windows) for loss in loss_extents] == [
        (0, 0, 0, None),
        (1, 0, 0, None),
    ]


def test_new_version_loses_the_deleted_offsets() -> None:
    first_loss, second = loss_extent.compute_losses_without_table(CLICKS, [], LOG, RewrittenLog())

    assert (first_loss.first, first_loss.next, first_loss.windows) == (0, 60, (ALWAYS, NOON + 80 * MINUTE))
    assert (second.first, second.next, second.windows) == (0, 0, None)


def test_rewritten_offsets_are_lost_without_a_known_end() -> None:
    short = OffsetGap(partition=1, expected=9, first=0, end=5)

    *_, loss = loss_extent.compute_losses_without_table(CLICKS, [short], LOG, RewrittenLog())

    assert (loss.partition, loss.first, loss.next) == (1, 5, None)
    assert loss.windows == (ALWAYS, NOON + 340 * MINUTE)


def test_missing_log_loses_all_windows_it_fed() -> None:
    log = replace(LOG, topic_id="B", earliest={0: 0, 1: 0})
    extents = loss_extent.compute_losses_of_new_log(CLICKS, "A", {0: 40, 1: 7}, NOON + 90 * MINUTE, log)

    assert [(loss.topic_id, loss.partition, loss.first, loss.next) for loss in extents] == [
        ("A", 0, 40, None),
        ("A", 1, 7, None),
    ]
    assert {loss.windows for loss in extents} == {(ALWAYS, NOON + 100 * MINUTE)}


def test_new_log_without_its_beginning_is_a_loss_too() -> None:
    extents = loss_extent.compute_losses_of_new_log(CLICKS, "A", {0: 40}, None, replace(LOG, topic_id="B"))

    assert [(loss.topic_id, loss.partition, loss.first, loss.next) for loss in extents] == [
        ("A", 0, 40, None),
        ("B", 0, 0, 60),
    ]


@pytest.mark.parametrize(
    ("fed_from", "expected"),
    [(None, (30, 80)), (-60, (-60, 80)), (50, (30, 80)), (90, (30, 80))],
    ids=["unread", "read long ago", "read lately", "fed only later windows"],
)
def test_records_lost_inside_touch_open_windows_and_those_fed_from_the_range(
    fed_from: int | None, expected: tuple[int, int]
) -> None:
    incomplete_range = IncompleteRange(
        partition=1,
        first=3,
        next=40,
        log_time=NOON + 45 * MINUTE,
        fed_from=None if fed_from is None else NOON + fed_from * MINUTE,
    )

    (extent,) = loss_extent.compute_inner_losses(CLICKS, RECORD, [incomplete_range], "A")

    assert (extent.topic_id, extent.partition, extent.first, extent.next, extent.is_reassigned) == (
        "A",
        1,
        3,
        40,
        False,
    )
    assert minutes(extent.windows) == expected


def test_losses_behind_every_final_window_touch_the_windows_they_fed() -> None:
    late = replace(RECORD, watermark_after=NOON + 500 * MINUTE)
    incomplete_range = IncompleteRange(partition=0, first=3, next=40, log_time=NOON + 45 * MINUTE, fed_from=NOON)
    unread = replace(incomplete_range, fed_from=None)

    extents = loss_extent.compute_inner_losses(CLICKS, late, [incomplete_range, unread], "A")

    assert [minutes(extent.windows) for extent in extents] == [(0, 80), None]
