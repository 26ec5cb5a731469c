"""Numbers beside words: `cutover diff` decides only what holds for the cells as numbers and as texts alike."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Finding
from tests.support.diff.diff_peers import WORDS

Row = tuple[str, str, str]

KEYS, VALUES = ("1", "1.0", "1.00", "2", "2.0"), ("5", "5.0", "6")
SUMS = ("0.3", "0.30000000000000004", "0.5")
WORD: Row = ("word", "word", "0.5")
CELLS = st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from(SUMS))


@st.composite
def table_pairs(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Draw two tables of numbers that are equal, or nearly so, but for how the numbers are written."""
    left = draw(st.lists(CELLS, min_size=1, max_size=4))
    right = [tuple(draw(st.sampled_from(_list_spellings(cell))) for cell in row) for row in left]
    if draw(st.booleans()):
        right[draw(st.integers(0, len(right) - 1))] = draw(CELLS)
    return left, [(row[0], row[1], row[2]) for row in draw(st.permutations(right))]


def _list_spellings(cell: str) -> list[str]:
    return [other for other in (*KEYS, *VALUES, *SUMS) if abs(float(other) - float(cell)) < 1e-9]


def compare(folder: Path, sides: Sequence[Sequence[Row]], types: Mapping[str, str] | None = None) -> Finding:
    paths = [folder / f"{side}.csv" for side in ("left", "right")]
    for path, rows in zip(paths, sides, strict=True):
        path.write_text("".join(f"{','.join(row)}\n" for row in (("k", "v", "w"), *rows)))
    left, right = map(str, paths)
    return compare_tables(
        DiffRequest(expected=left, actual=right, key=("k",), types={"w": "DOUBLE", **(types or {})})
    ).finding


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=table_pairs(), seed=st.integers())
@example(pair=([("1.0", "5", "0.3")], [("1", "5", "0.30000000000000004")]), seed=0)
@example(pair=([("1.0", "5", "0.3"), ("1.00", "6", "0.3")], [("1.0", "6", "0.3"), ("1", "5", "0.3")]), seed=0)
def test_a_row_of_words_makes_no_number_equal_or_different(
    tmp_path: Path, pair: tuple[list[Row], list[Row]], seed: int
) -> None:
    with_word = [[*rows, WORD] for rows in pair]
    for rows in with_word:
        Random(seed).shuffle(rows)  # noqa: S311 -- an order

    as_numbers = WORDS[compare(tmp_path, pair).verdict]
    as_texts = WORDS[compare(tmp_path, pair, {"k": "VARCHAR", "v": "VARCHAR"}).verdict]

    assert WORDS[compare(tmp_path, with_word).verdict] == (as_texts if as_texts == as_numbers else "refused")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("right", "missing", "note"),
    [
        (("1", "5", "0.30000000000000004"), 0, "Not counted: 2 rows"),
        (("1", "6", "0.3"), 1, "1 missing row may be one with an extra row"),
    ],
)
def test_keys_that_are_written_otherwise_are_named_beside_a_difference(
    tmp_path: Path, right: Row, missing: int, note: str
) -> None:
    sides = [[("1.0", "5", "0.3"), WORD], [right, ("word", "words", "0.5")]]

    finding = compare(tmp_path, sides)

    assert (finding.rows.missing, finding.rows.extra, finding.rows.changed) == (missing, missing, 1)
    assert [text for text in finding.notes if text.startswith(note) and "--type k=text" in text]
