"""Ranges of the sample that the demonstration still has to send."""

from datetime import UTC, datetime

import pytest

from cutover.errors import DefinitionError
from cutover.infra.demo.demonstration import SamplePart, find_unsent_part, parts
from cutover.records.sending.produced import ProducedRun


def sent(start: int | None, end: int | None, *, finished: bool = True) -> ProducedRun:
    return ProducedRun(sha256="s", file="f", start=start, end=end, records=1, at="2026-01-01", finished=finished)


@pytest.mark.parametrize(
    ("requested", "runs", "expected"),
    [
        ((None, None), [], (None, None)),
        ((None, None), [sent(None, None)], None),
        ((10, 20), [sent(None, None)], None),
        ((10, 20), [sent(None, 10)], (10, 20)),
        ((10, 20), [sent(None, 20)], None),
        ((None, 20), [sent(None, 10)], (10, 20)),
        ((None, None), [sent(None, 10), sent(10, 20)], (20, None)),
        ((None, None), [sent(10, 20), sent(20, None), sent(None, 10)], None),
        ((None, None), [sent(None, None, finished=False)], (None, None)),
        ((10, 20), [sent(12, 20)], (10, 20)),
    ],
)
def test_missing_ranges_are_sent(
    requested: tuple[int | None, int | None], runs: list[ProducedRun], expected: tuple[int | None, int | None] | None
) -> None:
    missing = find_unsent_part(SamplePart(start=requested[0], end=requested[1]), runs)

    assert expected == (None if missing is None else (missing.start, missing.end))


def test_one_part_is_the_whole_year() -> None:
    assert parts(1) == (SamplePart(),)


def test_three_parts_begin_with_january_may_and_september() -> None:
    may, september = (int(datetime(2013, month, 1, tzinfo=UTC).timestamp() * 1_000_000) for month in (5, 9))

    assert parts(3) == (SamplePart(end=may), SamplePart(start=may, end=september), SamplePart(start=september))


@pytest.mark.parametrize("count", [0, 13, -1])
def test_impossible_number_of_parts_is_rejected(count: int) -> None:
    with pytest.raises(DefinitionError, match=f"expected 1 to 12, got {count}"):
        parts(count)
