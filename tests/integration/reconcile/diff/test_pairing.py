"""Rows of one key are a multiset: as many as possible are paired as equal or near, and the rest differ."""

from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.reconcile.comparison.diff import match_most
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Rows


def rows_of(tmp_path: Path, left: pa.Table, right: pa.Table, **tolerances: Tolerance) -> Rows:
    for name, table in (("l", left), ("r", right)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    places = (str(tmp_path / "l.parquet"), str(tmp_path / "r.parquet"))
    return compare_tables(
        DiffRequest(expected=places[0], actual=places[1], key=("k",), tolerances=tolerances)
    ).finding.rows


def test_two_columns_with_tolerances_do_not_part_near_rows(tmp_path: Path) -> None:
    left = pa.table({"k": [1, 1], "v": [1.00, 1.01], "u": [10.0, 20.0]})
    right = pa.table({"k": [1, 1], "v": [1.01, 1.00], "u": [10.0, 20.0]})

    assert rows_of(tmp_path, left, right, v=Tolerance(absolute=0.05)) == Rows(compared=2)


def test_noise_of_sums_does_not_part_rows_of_one_key(tmp_path: Path) -> None:
    left = pa.table({"k": [1, 1], "v": [0.3, 0.3], "u": [10.0, 20.0]})
    right = pa.table({"k": [1, 1], "v": [0.1 + 0.2, 0.3], "u": [10.0, 20.0]})

    assert rows_of(tmp_path, left, right) == Rows(compared=2)


def test_one_row_in_place_of_another_is_one_change(tmp_path: Path) -> None:
    left = pa.table({"k": [1] * 3 + [2], "v": [1, 2, 3, 9]})
    right = pa.table({"k": [1] * 3 + [2], "v": [2, 3, 4, 9]})

    assert rows_of(tmp_path, left, right) == Rows(compared=4, changed=1)


def test_a_further_row_before_the_others_is_one_extra_row(tmp_path: Path) -> None:
    left = pa.table({"k": [1, 1, 2], "v": [1, 2, None]})
    right = pa.table({"k": [1, 1, 1, 2], "v": [0, 1, 2, None]})

    assert rows_of(tmp_path, left, right) == Rows(compared=4, extra=1)


@pytest.mark.quick
@settings(max_examples=100, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4))))
def test_no_other_pairs_are_more(near: set[tuple[int, int]]) -> None:
    pairs = match_most(sorted(near))

    assert set(pairs.items()) <= near
    assert len(set(pairs.values())) == len(pairs)
    assert len(pairs) == max(sum((n, m) in near for n, m in enumerate(order)) for order in permutations(range(5)))
