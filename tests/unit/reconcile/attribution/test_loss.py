"""What a report says of records that the log lost: their first and last offset, and what windows may miss."""

from dataclasses import replace

from cutover.reconcile.attribution.loss import sentence
from tests.support.losses import LOSS

GAP = replace(LOSS, windows_from=0, windows_to=3_600_000_000)


def test_a_gap_is_named_by_its_first_and_its_last_offset() -> None:
    said = sentence([GAP], {"lost": 1})

    assert said == (
        "The log lost records (topic t, partition 0: offsets 40 to 59). 1 closed window may miss some of them:"
        " incomplete(lost), not compared."
    )


def test_a_topic_that_was_made_anew_lost_all_from_an_offset_on() -> None:
    said = str(sentence([replace(GAP, next=None)], {"lost": 2}))

    assert "(topic t, partition 0: offset 40 and all after it of topic id A)" in said
    assert "2 closed windows may miss" in said


def test_a_loss_that_touches_no_window_is_not_said() -> None:
    assert sentence([LOSS], {}) is None
