"""Emitted panes and their times: ties, empty panes, lateness, keys. Times in seconds."""

import pytest

from cutover.definition import Accumulation, AfterCount, AtWatermark, Avg, Count, EachEpoch, Every, Max, Min, Repeat
from cutover.definition.measures.kinds import Measure
from cutover.definition.windows.kinds import Daily, Global, SlidingWindows
from cutover.panes import reference
from cutover.panes.model import DropReason, Estimator, Ideal, Outcome
from tests.support.drivers.settings_of_panes import SECOND, Handling, format_panes, setting, steps

EVERY_MINUTE = Handling(window=Global(), trigger=Repeat(Every("1 minute")))


def run(rows: str, handling: Handling) -> Outcome:
    return reference.run(setting(rows, handling))


def test_rows_that_arrive_exactly_at_the_end_of_a_period_are_part_of_its_pane() -> None:
    outcome = run("1 59 1\n2 60 2\n3 60 4\n4 61 8", EVERY_MINUTE)

    assert format_panes(outcome) == ["60: -inf..+inf 7 early", "120: -inf..+inf 15 early"]


def test_period_without_rows_has_no_pane() -> None:
    assert format_panes(run("1 10 1\n2 290 2", EVERY_MINUTE)) == ["60: -inf..+inf 1 early", "300: -inf..+inf 3 early"]


def test_periods_end_at_multiples_of_processing_time_before_1970_too() -> None:
    assert format_panes(run("1 -90 1\n2 -59 2", EVERY_MINUTE)) == ["-60: -inf..+inf 1 early", "0: -inf..+inf 3 early"]


def test_row_that_arrives_as_the_watermark_passes_its_window_is_on_time() -> None:
    outcome = run("5 20 1\n9 30 2", Handling(watermark=steps((0, 0), (30, 10))))

    assert format_panes(outcome) == ["30: 0..10 3 on_time"]


def test_watermark_exactly_at_the_end_of_a_window_passes_it() -> None:
    outcome = run("5 1 1", Handling(watermark=steps((1, 9.999999), (2, 10))))

    assert format_panes(outcome) == ["2: 0..10 1 on_time"]


def test_pane_is_on_time_if_watermark_and_period_coincide() -> None:
    trigger = AtWatermark(early=Every("1 minute"))
    outcome = run("5 1 1", Handling(trigger=trigger, watermark=steps((60, 10))))

    assert format_panes(outcome) == ["60: 0..10 1 on_time"]


def test_windows_passed_in_one_step_fire_in_event_time_order() -> None:
    outcome = run("25 1 4\n5 2 1 b\n15 3 2\n6 4 8 a", Handling(watermark=steps((9, None))))

    assert format_panes(outcome) == [
        "9: 0..10 a 8 on_time",
        "9: 0..10 b 1 on_time",
        "9: 10..20 2 on_time",
        "9: 20..30 4 on_time",
    ]


def test_each_late_row_fires_immediately() -> None:
    outcome = run("5 1 1\n6 3 2\n7 3 4", Handling(watermark=steps((2, 10))))

    assert format_panes(outcome) == ["2: 0..10 1 on_time", "3: 0..10 3 late", "3: 0..10 7 late"]


def test_window_with_nothing_but_late_rows_has_no_pane_on_time() -> None:
    assert format_panes(run("5 3 1", Handling(watermark=steps((2, 10))))) == ["3: 0..10 1 late"]


def test_row_behind_the_watermark_is_on_time_in_an_open_window() -> None:
    outcome = run("1 3 1", Handling(watermark=steps((2, 8), (4, 10))))

    assert format_panes(outcome) == ["4: 0..10 1 on_time"]


def test_late_row_after_an_unchanged_window_is_late() -> None:
    trigger = AtWatermark(early=AfterCount(1), late=AfterCount(1))
    outcome = run("5 1 1\n6 3 2", Handling(trigger=trigger, watermark=steps((2, 10))))

    assert format_panes(outcome) == ["1: 0..10 1 early", "3: 0..10 3 late"]


def test_first_period_behind_the_watermark_is_on_time_if_a_row_came_before_it() -> None:
    handling = Handling(trigger=Repeat(Every("1 minute")), watermark=steps((30, 10)))

    assert format_panes(run("5 1 1\n6 40 2\n7 61 4", handling)) == ["60: 0..10 3 on_time", "120: 0..10 7 late"]


def test_row_is_accepted_until_the_allowed_lateness_ends() -> None:
    handling = Handling(watermark=steps((1, 14.999999), (3, 15)), allowed=5)
    outcome = run("5 2 1\n6 4 2", handling)

    assert format_panes(outcome) == ["2: 0..10 1 late"]
    assert [(dropped_row.row.event_time, dropped_row.reason) for dropped_row in outcome.dropped] == [
        (6 * SECOND, DropReason.TOO_LATE)
    ]


def test_lateness_is_decided_for_each_window_of_a_row() -> None:
    handling = Handling(
        window=SlidingWindows(size=10 * SECOND, every=5 * SECOND), watermark=steps((1, 10), (3, None)), allowed=0
    )
    outcome = run("7 2 1", handling)

    assert format_panes(outcome) == ["3: 5..15 1 on_time"]
    assert [dropped_row.window.start for dropped_row in outcome.dropped] == [0]


def test_keys_are_independent() -> None:
    handling = Handling(window=Global(), trigger=Repeat(AfterCount(2)), accumulation=Accumulation.DISCARDING)
    outcome = run("1 1 1 a\n2 2 2 b\n3 3 4 a\n4 4 8 a\n5 5 16 b\n6 6 32 a", handling)

    assert format_panes(outcome) == ["3: -inf..+inf a 5 early", "5: -inf..+inf b 18 early", "6: -inf..+inf a 40 early"]


def test_rows_without_a_firing_are_waiting() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4", Handling(window=Global(), trigger=Repeat(AfterCount(2))))

    assert [waiting_window.rows for waiting_window in outcome.waiting] == [1]


def test_index_counts_the_firings_of_a_window() -> None:
    outcome = run("1 1 1\n2 70 2\n3 130 4", EVERY_MINUTE)

    assert [pane.index for pane in outcome.panes] == [0, 1, 2]


def test_epoch_fires_each_changed_window() -> None:
    handling = Handling(trigger=Repeat(EachEpoch()), epochs=(10, 20, 30, 40))
    outcome = run("1 1 1\n12 2 2\n2 20 4\n3 31 8", handling)

    assert format_panes(outcome) == [
        "10: 0..10 1 early",
        "10: 10..20 2 early",
        "20: 0..10 5 early",
        "40: 0..10 13 early",
    ]


def test_estimator_advances_the_watermark_after_the_rows_of_a_moment() -> None:
    handling = Handling(watermark=Estimator(out_of_orderness=2 * SECOND))
    outcome = run("5 1 1\n12 2 2\n6 2 4\n7 3 8", handling)

    assert format_panes(outcome) == ["2: 0..10 5 on_time", "3: 0..10 13 late"]


def test_ideal_watermark_passes_a_window_as_it_ends() -> None:
    outcome = run("5 5 1\n6 13 2", Handling(watermark=Ideal()))

    assert format_panes(outcome) == ["10: 0..10 1 on_time", "13: 0..10 3 late"]


def test_ideal_watermark_equals_the_processing_time_of_a_row() -> None:
    handling = Handling(watermark=Ideal(), allowed=5)

    assert [dropped_row.row.processing_time for dropped_row in run("5 15 1\n6 16 2", handling).dropped] == [16 * SECOND]


@pytest.mark.parametrize(
    ("measure", "expected"), [(Count(), 3), (Min("value"), -4), (Max("value"), 5), (Avg("value"), 1.0)]
)
def test_every_measure_equals_the_reference(measure: Measure, expected: float) -> None:
    outcome = run("1 1 5\n2 1 -4\n3 1 2", Handling(measure=measure, watermark=steps((2, None))))

    assert [expected] == [pane.value for pane in outcome.panes]


def test_daily_window_ends_with_the_day_of_its_zone() -> None:
    # 2024-03-31 in Berlin: from 2024-03-30T23:00Z to 2024-03-31T22:00Z, 23 hours.
    start = 1_711_839_600
    handling = Handling(window=Daily(zone="Europe/Berlin"), watermark=steps((2, start + 23 * 3600)))
    outcome = run(f"{start} 1 1\n{start + 23 * 3600 - 1} 1 2\n{start + 23 * 3600} 1 4", handling)

    assert [(3, start, start + 23 * 3600)] == [
        (pane.value, pane.window.start // SECOND, pane.window.end // SECOND) for pane in outcome.panes
    ]


def test_no_rows_give_no_panes() -> None:
    assert Outcome(panes=()) == run("", Handling(watermark=steps((1, 5))))
