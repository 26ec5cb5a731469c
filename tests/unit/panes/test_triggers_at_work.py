"""Firings of a window over its lifetime: repeat, until, sequence, early and late parts. Times in seconds."""

import pytest

from cutover.definition import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    Count,
    EachEpoch,
    Every,
    Repeat,
    RepeatUntil,
    Sequence,
    Until,
)
from cutover.definition.model.triggers import Trigger
from cutover.panes import reference
from cutover.panes.model import DropReason, Outcome, Watermark
from tests.support.drivers.settings_of_panes import Handling, format_panes, setting, steps

NEVER: Watermark = steps((0, 0))


def run(rows: str, trigger: Trigger, watermark: Watermark = NEVER, epochs: tuple[float, ...] = ()) -> Outcome:
    handling = Handling(trigger=trigger, watermark=watermark, accumulation=Accumulation.DISCARDING, epochs=epochs)
    return reference.run(setting(rows, handling))


def test_ended_trigger_accepts_no_rows() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4", AfterCount(2))

    assert format_panes(outcome) == ["2: 0..10 3 early"]
    assert [dropped_row.reason for dropped_row in outcome.dropped] == [DropReason.TRIGGER_ENDED]


def test_at_watermark_alone_fires_once() -> None:
    outcome = run("1 1 1\n2 3 2", AtWatermark(), steps((2, 10)))

    assert format_panes(outcome) == ["2: 0..10 1 on_time"]
    assert len(outcome.dropped) == 1


def test_sequence_continues_where_the_previous_part_ended() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4\n4 61 8\n5 62 16", Sequence(AfterCount(2), Repeat(Every("1 minute"))))

    assert format_panes(outcome) == ["2: 0..10 3 early", "60: 0..10 4 early", "120: 0..10 24 early"]


def test_part_of_a_sequence_counts_only_the_rows_of_its_turn() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4\n4 4 8\n5 5 16", Sequence(AfterCount(2), AfterCount(3)))

    assert format_panes(outcome) == ["2: 0..10 3 early", "5: 0..10 28 early"]


def test_repeated_sequence_restarts() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4\n4 4 8", Repeat(Sequence(AfterCount(1), AfterCount(2))))

    assert format_panes(outcome) == ["1: 0..10 1 early", "3: 0..10 6 early", "4: 0..10 8 early"]


def test_until_fires_a_last_time_and_ends() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4\n4 4 8", RepeatUntil(AfterCount(2), AfterCount(3)))

    assert format_panes(outcome) == ["2: 0..10 3 early", "3: 0..10 4 early"]
    assert len(outcome.dropped) == 1


def test_until_counts_rows_that_were_shown_already() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4", Sequence(RepeatUntil(AfterCount(1), AfterCount(2)), Repeat(AfterCount(2))))

    assert format_panes(outcome) == ["1: 0..10 1 early", "2: 0..10 2 early"]
    assert [waiting_window.rows for waiting_window in outcome.waiting] == [1]


def test_until_ends_with_the_trigger_that_it_bounds() -> None:
    outcome = run("1 1 1\n2 2 2", Until(AfterCount(1), AtWatermark()), steps((3, 10)))

    assert format_panes(outcome) == ["1: 0..10 1 early"]
    assert len(outcome.dropped) == 1


def test_until_ends_even_without_rows_to_show() -> None:
    trigger = Sequence(RepeatUntil(AfterCount(1), Every("1 minute")), Repeat(AfterCount(2)))
    outcome = run("1 1 1\n2 61 2\n3 62 4", trigger)

    assert format_panes(outcome) == ["1: 0..10 1 early", "62: 0..10 6 early"]


def test_both_parts_of_an_until_at_one_moment_are_one_firing() -> None:
    outcome = run("1 1 1\n2 61 2", Sequence(RepeatUntil(Every("1 minute"), Every("1 minute")), Repeat(AfterCount(1))))

    assert format_panes(outcome) == ["60: 0..10 1 early", "61: 0..10 2 early"]


def test_early_and_late_parts_repeat() -> None:
    trigger = AtWatermark(early=AfterCount(2), late=AfterCount(2))
    outcome = run(
        "1 1 1\n2 2 2\n3 3 4\n4 4 8\n5 5 16\n6 7 32\n7 8 64\n8 9 128\n9 9 256\n1 9 512", trigger, steps((6, 10))
    )

    assert format_panes(outcome) == [
        "2: 0..10 3 early",
        "4: 0..10 12 early",
        "6: 0..10 16 on_time",
        "8: 0..10 96 late",
        "9: 0..10 384 late",
    ]


def test_late_part_alone_waits_for_the_watermark_first() -> None:
    outcome = run("1 1 1\n2 2 2\n3 70 4\n4 71 8", AtWatermark(late=Every("1 minute")), steps((65, 10)))

    assert format_panes(outcome) == ["65: 0..10 3 on_time", "120: 0..10 12 late"]


def test_late_part_by_epochs() -> None:
    outcome = run("1 1 1\n2 12 2", AtWatermark(late=EachEpoch()), steps((5, 10)), epochs=(10, 20))

    assert format_panes(outcome) == ["5: 0..10 1 on_time", "20: 0..10 2 late"]


def test_nothing_is_shown_twice_once_the_watermark_has_passed() -> None:
    trigger = Sequence(RepeatUntil(Every("1 minute"), AtWatermark()), Repeat(AtWatermark()))
    outcome = run("1 1 1", trigger, steps((61, 10), (62, 11), (63, None)))

    assert format_panes(outcome) == ["60: 0..10 1 early"]


def test_delay_begins_with_the_first_row_and_not_with_a_period() -> None:
    outcome = run("1 1 1\n2 30 2\n3 61 4\n4 62 8", Repeat(AfterDelay("1 minute")))

    assert format_panes(outcome) == ["61: 0..10 7 early", "122: 0..10 8 early"]


def test_delay_of_each_key_is_its_own() -> None:
    outcome = run("1 1 1 a\n2 31 2 b\n3 40 4 a", Repeat(AfterDelay("1 minute")))

    assert format_panes(outcome) == ["61: 0..10 a 5 early", "91: 0..10 b 2 early"]


def test_delay_ends_when_the_watermark_passes() -> None:
    trigger = AtWatermark(early=AfterDelay("1 minute"), late=AfterDelay("5 seconds"))
    outcome = run("1 1 1\n2 62 2\n3 71 4\n4 74 8\n5 77 16", trigger, steps((70, 10)))

    assert format_panes(outcome) == [
        "61: 0..10 1 early",
        "70: 0..10 2 on_time",
        "76: 0..10 12 late",
        "82: 0..10 16 late",
    ]


def test_delay_may_be_the_end_of_another_trigger() -> None:
    outcome = run("1 1 1\n2 2 2\n3 3 4\n4 40 8", RepeatUntil(AfterCount(2), AfterDelay("30 seconds")))

    assert format_panes(outcome) == ["2: 0..10 3 early", "31: 0..10 4 early"]
    assert len(outcome.dropped) == 1


ALWAYS = AtWatermark(early=AfterCount(1), late=AfterCount(1), always=True)


@pytest.mark.parametrize(
    ("accumulation", "on_time"),
    [
        (Accumulation.ACCUMULATING, ["5: 0..10 3 on_time"]),
        (Accumulation.DISCARDING, ["5: 0..10 None on_time"]),
        (Accumulation.RETRACTING, ["5: 0..10 -3 on_time", "5: 0..10 3 on_time"]),
    ],
)
def test_on_time_pane_fires_always_even_without_changes(accumulation: Accumulation, on_time: list[str]) -> None:
    rows = "1 1 3"
    handling = Handling(trigger=ALWAYS, watermark=steps((5, 10)), accumulation=accumulation)

    assert format_panes(reference.run(setting(rows, handling))) == ["1: 0..10 3 early", *on_time]


def test_empty_pane_counts_no_rows() -> None:
    handling = Handling(trigger=ALWAYS, watermark=steps((5, 10)), accumulation=Accumulation.DISCARDING, measure=Count())

    assert format_panes(reference.run(setting("1 1 3", handling))) == ["1: 0..10 1 early", "5: 0..10 0 on_time"]


def test_on_time_pane_fires_once_and_only_for_windows_with_rows() -> None:
    outcome = run("1 1 1\n21 1 2", Repeat(AtWatermark(always=True)), steps((2, 10), (3, 20), (4, 25), (5, None)))

    assert format_panes(outcome) == ["2: 0..10 1 on_time", "5: 20..30 2 on_time"]


def test_late_rows_fire_after_an_unconditional_pane() -> None:
    outcome = run("1 1 1\n2 6 2\n3 7 4", Repeat(AtWatermark(always=True)), steps((5, 10), (8, 11), (9, None)))

    assert format_panes(outcome) == ["5: 0..10 1 on_time", "6: 0..10 2 late", "7: 0..10 4 late"]


def test_unconditional_pane_fires_at_the_end_of_a_repetition() -> None:
    trigger = Sequence(RepeatUntil(Every("1 minute"), AtWatermark(always=True)), Repeat(AtWatermark()))
    outcome = run("1 1 1\n2 63 2", trigger, steps((61, 10), (62, 11), (64, None)))

    assert format_panes(outcome) == ["60: 0..10 1 early", "61: 0..10 None on_time", "63: 0..10 2 late"]


def test_trigger_that_ends_before_the_watermark_has_no_pane_on_time() -> None:
    outcome = run("1 1 1", Until(AfterCount(1), AtWatermark(always=True)), steps((2, 10)))

    assert format_panes(outcome) == ["1: 0..10 1 early"]
