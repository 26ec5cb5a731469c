"""Sessions: inclusive gap, bridges, retractions after merging, growing beyond the watermark. Times in seconds."""

from cutover.definition import Accumulation, AfterCount, AtWatermark, Every, Repeat, RepeatUntil, Sequence, Sessions
from cutover.definition.model.triggers import DEFAULT_TRIGGER, Trigger
from cutover.panes import reference
from cutover.panes.model import DropReason, Outcome, Watermark
from tests.support.drivers.settings_of_panes import SECOND, Handling, format_panes, setting, steps

GAP = Sessions("10 seconds")
EACH = Repeat(AfterCount(1))
EARLY_AND_LATE = Sequence(RepeatUntil(Every("1 minute"), AtWatermark()), Repeat(AtWatermark()))


def run(
    rows: str,
    accumulation: Accumulation = Accumulation.ACCUMULATING,
    trigger: Trigger = DEFAULT_TRIGGER,
    watermark: Watermark = (),
    allowed: float | None = None,
) -> Outcome:
    handling = Handling(window=GAP, trigger=trigger, accumulation=accumulation, watermark=watermark, allowed=allowed)
    return reference.run(setting(rows, handling))


def test_rows_exactly_a_gap_apart_are_of_one_session() -> None:
    assert format_panes(run("0 1 1\n10 2 2", watermark=steps((9, None)))) == ["9: 0..20 3 on_time"]


def test_rows_further_than_a_gap_apart_are_not() -> None:
    outcome = run("0 1 1\n10.000001 2 2", watermark=steps((9, None)))

    assert format_panes(outcome) == ["9: 0..10 1 on_time", "9: 10..20 2 on_time"]


def test_row_bridges_two_sessions() -> None:
    outcome = run("0 1 1\n20 2 2\n10 3 4", watermark=steps((9, None)))

    assert format_panes(outcome) == ["9: 0..30 7 on_time"]


def test_sessions_of_two_keys_do_not_merge() -> None:
    outcome = run("0 1 1 a\n5 2 2 b\n6 3 4 a", watermark=steps((9, None)))

    assert format_panes(outcome) == ["9: 5..15 b 2 on_time", "9: 0..16 a 5 on_time"]


def test_bridge_retracts_superseded_panes_before_the_new_value() -> None:
    outcome = run("0 1 1\n40 2 2\n20 3 4\n10 4 8\n30 5 16", Accumulation.RETRACTING, EACH)

    assert format_panes(outcome) == [
        "1: 0..10 1 early",
        "2: 40..50 2 early",
        "3: 20..30 4 early",
        "4: 0..10 -1 early",
        "4: 20..30 -4 early",
        "4: 0..30 13 early",
        "5: 0..30 -13 early",
        "5: 40..50 -2 early",
        "5: 0..50 31 early",
    ]


def test_bridge_shows_only_its_own_rows_when_discarding() -> None:
    outcome = run("0 1 1\n20 2 2\n10 3 4", Accumulation.DISCARDING, EACH)

    assert format_panes(outcome) == ["1: 0..10 1 early", "2: 20..30 2 early", "3: 0..30 4 early"]


def test_bridge_shows_new_rows_of_both_sides_when_discarding() -> None:
    outcome = run("0 1 1\n20 2 2\n10 3 4", Accumulation.DISCARDING, Repeat(AfterCount(3)))

    assert format_panes(outcome) == ["3: 0..30 7 early"]


def test_counts_of_merged_sessions_add_up() -> None:
    outcome = run("0 1 1\n20 2 2\n10 3 4", trigger=Repeat(AfterCount(4)))

    assert format_panes(outcome) == []
    assert [waiting_window.rows for waiting_window in outcome.waiting] == [3]


def test_merged_session_takes_the_earliest_sequence_position() -> None:
    trigger = Sequence(AfterCount(3), Repeat(AfterCount(1)))
    outcome = run("0 1 1\n1 2 2\n2 3 4\n20 4 8\n11 5 16\n12 6 32", trigger=trigger)

    assert format_panes(outcome) == ["3: 0..12 7 early", "6: 0..30 63 early"]


def test_earliest_period_of_merged_sessions_applies() -> None:
    outcome = run("0 50 1\n20 70 2\n10 80 4", Accumulation.RETRACTING, Repeat(Every("1 minute")))

    assert format_panes(outcome) == ["60: 0..10 1 early", "120: 0..10 -1 early", "120: 0..30 7 early"]


def test_late_bridge_fires_immediately() -> None:
    outcome = run("0 1 1\n20 2 2\n10 5 4", Accumulation.RETRACTING, EARLY_AND_LATE, steps((3, 30), (4, 60)))

    assert format_panes(outcome) == [
        "3: 0..10 1 on_time",
        "3: 20..30 2 on_time",
        "5: 0..10 -1 late",
        "5: 20..30 -2 late",
        "5: 0..30 7 late",
    ]


def test_session_that_grows_beyond_the_watermark_is_early_and_on_time_again() -> None:
    outcome = run("0 1 1\n9 3 2", Accumulation.RETRACTING, EARLY_AND_LATE, steps((2, 12), (70, 19)))

    assert format_panes(outcome) == [
        "2: 0..10 1 on_time",
        "60: 0..10 -1 early",
        "60: 0..19 3 early",
    ]


def test_session_that_grows_beyond_the_watermark_fires_on_time_at_its_new_end() -> None:
    outcome = run("0 1 1\n9 3 2", trigger=AtWatermark(), watermark=steps((2, 12), (70, 19)))

    assert format_panes(outcome) == ["2: 0..10 1 on_time", "70: 0..19 3 on_time"]


def test_session_with_an_ended_trigger_does_not_restart() -> None:
    outcome = run("0 1 1\n9 2 2", trigger=AfterCount(1))

    assert [dropped_row.reason for dropped_row in outcome.dropped] == [DropReason.TRIGGER_ENDED]


def test_row_exactly_at_the_end_of_the_allowed_lateness_still_joins() -> None:
    outcome = run("0 1 1\n5 3 2\n4.999999 4 4", watermark=steps((2, 15)), allowed=0)

    assert format_panes(outcome) == ["2: 0..10 1 on_time", "3: 0..15 3 late"]
    assert [(dropped_row.row.event_time, dropped_row.reason) for dropped_row in outcome.dropped] == [
        (5 * SECOND - 1, DropReason.TOO_LATE)
    ]


def test_index_continues_from_the_session_that_fired_most() -> None:
    outcome = run("0 1 1\n1 2 1\n20 3 1\n10 4 1", trigger=EACH)

    assert [pane.index for pane in outcome.panes] == [0, 1, 0, 2]


def test_sessions_before_1970() -> None:
    assert format_panes(run("-15 1 1\n-5 2 2", watermark=steps((9, None)))) == ["9: -15..5 3 on_time"]
