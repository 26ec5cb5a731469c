"""Epochs that are merged into rows of one number."""

from dataclasses import replace

import pytest

from cutover.reconcile.verify.facts.rows import Segment, segments
from cutover.records.classes import Class
from tests.unit.verify.epochs import COUNTS, chain_of

EMPTY = {**COUNTS, Class.ACCEPTED.value: 0}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([], []),
        ([0, 1, 2], [(0, 0), (1, 1), (2, 2)]),
        ([2, 3], [(0, 2), (3, 3)]),
        ([4], [(0, 4)]),
    ],
)
def test_rows_cover_all_epochs_since_the_previous_number(labels: list[int], expected: list[tuple[int, int]]) -> None:
    assert segments(chain_of(5), labels) == tuple(Segment(first_epoch=a, last_epoch=b) for a, b in expected)


def test_epochs_that_accepted_nothing_do_not_begin_a_segment() -> None:
    records = [replace(r, counts=EMPTY) if r.epoch in {1, 2} else r for r in chain_of(5)]

    assert segments(records, [0, 3, 4])[1] == Segment(first_epoch=3, last_epoch=3)
