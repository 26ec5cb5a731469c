"""Sentences on records that the log lost: their first and last offset, and the affected windows."""

from dataclasses import replace

from cutover.reconcile.preconditions.log_state import describe_losses, list_loss_notes, list_ranges
from cutover.reconcile.result.finding import LostRange
from tests.support.log.losses import LOSS

GAP = replace(LOSS, windows_from=0, windows_to=3_600_000_000)


def test_a_gap_is_named_by_its_first_and_its_last_offset() -> None:
    sentence = describe_losses([GAP], {"lost": 1})

    assert sentence == (
        "The log lost records (topic t, partition 0: offsets 40 to 59). 1 closed window may miss some of them:"
        " incomplete(lost), not compared."
    )


def test_a_recreated_topic_lost_everything_from_an_offset_on() -> None:
    sentence = str(describe_losses([replace(GAP, next=None)], {"lost": 2}))

    assert "(topic t, partition 0: offset 40 and all after it of topic id A)" in sentence
    assert "2 closed windows may miss" in sentence


def test_a_loss_that_touches_no_window_is_not_reported() -> None:
    assert describe_losses([LOSS], {}) is None


def test_three_losses_are_named_and_the_others_counted() -> None:
    gaps = [replace(GAP, partition=p) for p in range(3)]

    three, five = (str(describe_losses([*gaps, *more], {})) for more in ([], [GAP, GAP]))

    assert "partition 2: offsets 40 to 59). 0 closed windows may miss" in three
    assert "partition 2: offsets 40 to 59; and 2 more). 0 closed windows may miss" in five


def test_the_report_shows_what_was_recorded_of_a_loss() -> None:
    assert list_ranges([GAP]) == (
        LostRange(
            topic="t",
            topic_id="A",
            partition=0,
            first=40,
            next=60,
            windows_from="1970-01-01T00:00:00Z",
            windows_to="1970-01-01T01:00:00Z",
            stream_version=0,
            epoch=1,
            kind="gap",
            who="me",
            why="retention",
            at="2026-01-01T00:00:00Z",
        ),
    )


def test_windows_before_the_first_gap_may_have_missed_late_records() -> None:
    later = replace(GAP, windows_from=7_200_000_000, windows_to=9_000_000_000)

    (note,) = list_loss_notes([LOSS, later, GAP])

    assert note == (
        "Among the lost records may have been late ones of windows before 1970-01-01T00:00:00Z, which were final by"
        " then. Neither side has them: a comparison cannot show what both miss."
    )
    assert list_loss_notes([LOSS, replace(GAP, kind="anew")]) == ()
