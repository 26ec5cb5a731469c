"""Numbers in lists, structs and maps: `cutover diff` compares them as it does in a column of their own."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cutover.errors import DefinitionError
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict

ODD = 2**53 + 1
"""The first whole number that no double holds."""
LONG, SMALL = Decimal("123456789012345678.90"), Decimal("0.0000000000000000001")
"""Decimals that no double holds, and that no type of 38 digits holds together with 10^37."""

Rows: TypeAlias = "pa.Array[Any]"
Wrap = Callable[[Sequence[Any], pa.DataType], Rows]

WRAPS: Mapping[str, Wrap] = {
    "struct": lambda values, kind: pa.array([{"a": value} for value in values], pa.struct([("a", kind)])),
    "list": lambda values, kind: pa.array([[None, value] for value in values], pa.list_(kind)),
    "map": lambda values, kind: pa.array([[("a", value)] for value in values], pa.map_(pa.string(), kind)),
    "list of structs": lambda values, kind: pa.array(
        [[{"a": [value]}, None] for value in values], pa.list_(pa.struct([("a", pa.list_(kind))]))
    ),
}
INTEGERS = (0, 1, -7, 2**24 + 1, 2**53, ODD, ODD + 1, 2**62, 2**63 - 1)
TYPES: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "int32": (pa.int32(), (0, 1, -7, 2**24 + 1)),
    "int64": (pa.int64(), INTEGERS),
    "uint64": (pa.uint64(), (0, 1, ODD, 2**64 - 1)),
    "float32": (pa.float32(), (0.0, 1.0, -7.0, 0.5, 2.0**24, math.inf)),
    "float64": (pa.float64(), (*map(float, INTEGERS), 1.0 + 1e-12, 1.5, 123456789012345678.9, math.nan)),
    "decimal(38,0)": (pa.decimal128(38, 0), tuple(map(Decimal, (*INTEGERS, 10**37)))),
    "decimal(38,2)": (pa.decimal128(38, 2), (*map(Decimal, ("0", "1.5")), LONG, Decimal(ODD))),
    "decimal(38,30)": (pa.decimal128(38, 30), (*map(Decimal, ("0", "1", "1.5", "-7")), SMALL)),
}


@st.composite
def number_pairs(draw: st.DrawFn) -> tuple[str, str, list[tuple[Any, Any]]]:
    """Draw two types, and rows of two numbers."""
    kinds = draw(st.sampled_from([*TYPES])), draw(st.sampled_from([*TYPES]))
    values = [st.one_of(st.none(), st.sampled_from(TYPES[kind][1])) for kind in kinds]
    return *kinds, draw(st.lists(st.tuples(*values), min_size=1, max_size=4))


def compare(folder: Path, sides: Sequence[Rows], tolerances: Mapping[str, Tolerance]) -> tuple[Any, ...] | str:
    """Return verdict, changed rows and cells equal within a tolerance; "rejected" for rejected tolerances."""
    paths = [str(folder / f"{side}.parquet") for side in ("left", "right")]
    for path, values in zip(paths, sides, strict=True):
        pq.write_table(pa.table({"k": [*range(len(values))], "v": values}), path)
    try:
        finding = compare_tables(
            DiffRequest(expected=paths[0], actual=paths[1], key=("k",), tolerances=tolerances)
        ).finding
    except DefinitionError as error:
        assert "expected numbers of at most 38 digits" in str(error)  # noqa: PT017 -- it is an answer here
        return "rejected"
    return finding.verdict, finding.rows.changed, [equal.cells for equal in finding.equal_within]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=number_pairs(),
    wrap=st.sampled_from([*WRAPS]),
    bound=st.sampled_from([None, Tolerance(absolute=1.0), Tolerance(relative=0.01)]),
)
@example(drawn=("int64", "float64", [(ODD, 2.0**53)]), wrap="struct", bound=Tolerance(absolute=1.0))
@example(drawn=("int64", "float64", [(ODD, 2.0**53)]), wrap="map", bound=None)
@example(drawn=("decimal(38,2)", "float64", [(LONG, float(LONG))]), wrap="list", bound=None)
@example(
    drawn=("decimal(38,30)", "int64", [(Decimal(1), 1), (None, 2**62)]), wrap="list", bound=Tolerance(absolute=1.0)
)
@example(drawn=("decimal(38,30)", "decimal(38,0)", [(SMALL, 10**37)]), wrap="struct", bound=Tolerance(absolute=1.0))
def test_nested_numbers_are_compared_as_those_of_a_column(
    tmp_path: Path, drawn: tuple[str, str, list[tuple[Any, Any]]], wrap: str, bound: Tolerance | None
) -> None:
    kinds, pairs = drawn[:2], drawn[2]
    sides = [([pair[n] for pair in pairs], TYPES[kind][0]) for n, kind in enumerate(kinds)]
    tolerances = {} if bound is None else {"v": bound}

    plain = compare(tmp_path, [pa.array(*side) for side in sides], tolerances)

    assert compare(tmp_path, [WRAPS[wrap](*side) for side in sides], tolerances) == plain


@pytest.mark.quick
@pytest.mark.parametrize(("key", "is_equal"), [(2.0**53, False), (2.0**53 + 2, True)])
def test_keys_of_maps_keep_digits_that_no_double_holds(tmp_path: Path, key: float, is_equal: bool) -> None:
    """Two integers that one double would stand for are two keys."""
    integers, doubles = pa.map_(pa.int64(), pa.string()), pa.map_(pa.float64(), pa.string())
    left = pa.array([[(int(key) if is_equal else ODD, "a")], [(ODD, "b"), (ODD - 1, "c")]], integers)
    right = pa.array([[(key, "a")], [(1.0, "b")]], doubles)

    compared = compare(tmp_path, [left, right], {})

    assert compared == (Verdict.DIVERGED, 1 if is_equal else 2, [])
