"""Counts in sentences."""

import pytest

from cutover.counts import choose_form, count_noun


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "record", "0 records"),
        (1, "late record", "1 late record"),
        (2, "process", "2 processes"),
        (1_000, "entry", "1,000 entries"),
        (2, "day", "2 days"),
        (2, "epoch", "2 epochs"),
        (2, "batch", "2 batches"),
        (2, "loss", "2 losses"),
        (2, "row of a window", "2 rows of a window"),
    ],
)
def test_only_one_is_singular(count: int, noun: str, text: str) -> None:
    assert count_noun(count, noun) == text


def test_verbs_follow_the_count() -> None:
    assert [choose_form(count, "is", "are") for count in (0, 1, 2)] == ["are", "is", "are"]
