"""Texts that look like numbers, times or nothing: `cutover diff` says of any table of them what plain Python says."""

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from tests.support.diff.diff_peers import WORDS
from tests.support.diff.text_rules import Answer, Cell, Row, compare_csv, read

NUMBERS = ("0", "-0", "0.0", "1", "1.0", "1.", "+1", "1.10", "1.1", ".5", "0.5", "-2", "1" * 40, "1" * 40 + ".0")
OTHERS = (
    *("007", "7", "00", "0e1", "0e12345", "1e3", "1E3", "1e-7", "1000", "0x1F", "31", "1_000", "1,5", " 1", "1 "),
    *("9007199254740993", "9007199254740992", "0.1", "0.10000000000000001", "0.100000000000000001"),
    *("inf", "-inf", "nan", "NaN", "NULL", "null", "None", "true", "TRUE", "false", "t", "\\N", "N/A", "-", "."),
    *("2024-01-31", "2024-01-31 00:00:00", "2024-01-31T00:00:00Z", "2024-02-30", "01/02/2024", "10:00"),
    *("a\nb", "a\r\nb", "a\rb", '"', '""', "'a'", "a", "#a", ";", "\t", "\u00fc", "u\u0308", "\u200b", "[1]", "{}"),
)
CELLS = st.one_of(st.sampled_from(NUMBERS), st.sampled_from((*NUMBERS, *OTHERS)), st.none(), st.just(""))
NUMERIC = st.one_of(st.sampled_from(NUMBERS), st.none())
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def csv_rows(draw: st.DrawFn) -> list[Row]:
    cells = draw(st.sampled_from([CELLS, NUMERIC]))
    return draw(st.lists(st.tuples(cells, draw(st.sampled_from([CELLS, NUMERIC]))), max_size=4))


@st.composite
def csv_pairs(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Draw two tables that are alike in most rows, so that equal is as frequent as different."""
    left = draw(csv_rows())
    right = [*left]
    for place in draw(st.lists(st.integers(0, 3), max_size=2)):
        if place < len(right):
            key, value = right[place]
            right[place] = draw(st.sampled_from([(key, draw(CELLS)), (draw(CELLS), value), (key, draw(NUMERIC))]))
    return left, right


def write_csv(path: Path, rows: Sequence[Row], *, quotes_all: bool = False) -> str:
    lines = [",".join(_write_cell(cell, quotes_all=quotes_all) for cell in row) for row in rows]
    path.write_bytes("".join(f"{line}\n" for line in ("k,v", *lines)).encode())
    return str(path)


def _write_cell(cell: Cell, *, quotes_all: bool) -> str:
    if cell is None:
        return ""
    is_plain = cell and not set(cell) & set(',"\r\n') and not quotes_all
    return cell if is_plain else '"' + cell.replace('"', '""') + '"'


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def compare_files(left: str, right: str, **types: str) -> Answer:
    result = compare_tables(DiffRequest(expected=left, actual=right, key=("k",), types=types))
    return WORDS[result.finding.verdict]


@QUICK
@given(pair=csv_pairs())
@example(pair=([("1", "0e1")], [("1", "0e2")]))
@example(pair=([("1", "1.0"), ("2", "a")], [("1", "1"), ("2", "a")]))
@example(pair=([("1.0", "a"), ("b", "a")], [("1", "a"), ("b", "a")]))
@example(pair=([("1", "1" * 40)], [("1", "1" * 39 + "2")]))
@example(pair=([("1", "1.50"), ("2", "")], [("1", "1.5"), ("2", "")]))
@example(pair=([("1", "")], [("1", None)]))
@example(pair=([("1", "2"), ("2", "")], [("1", "2.0"), ("2", None)]))
@example(pair=([("1", "2"), ("", "3")], [("1", "2"), (None, "3")]))
@example(pair=([("1", "1" * 40), ("2", "")], [("1", "1" * 40), ("2", None)]))
@example(pair=([("1", "2"), ("2", "a"), ("3", "")], [("1", "2"), ("2", "a"), ("3", None)]))
def test_two_files_of_csv_are_what_plain_python_says(folder: Path, pair: tuple[list[Row], list[Row]]) -> None:
    sides = [write_csv(folder / f"{n}.csv", rows, quotes_all=n == 1) for n, rows in enumerate(pair)]

    assert compare_files(sides[0], sides[1]) == compare_csv(*pair)


@QUICK
@given(pair=csv_pairs(), further=st.tuples(CELLS, CELLS), seed=st.integers())
def test_no_verdict_depends_on_sides_order_or_other_rows(
    folder: Path, pair: tuple[list[Row], list[Row]], further: Row, seed: int
) -> None:
    """A further row that both sides have makes nothing different equal, and nothing equal different."""
    mixed = [[*rows] for rows in pair]
    for rows in mixed:
        Random(seed).shuffle(rows)  # noqa: S311 -- an order
    with_further = [[*rows, further] for rows in pair]
    as_given, shuffled, longer = (
        [write_csv(folder / f"{name}{n}.csv", rows) for n, rows in enumerate(sides)]
        for name, sides in (("given", pair), ("mixed", mixed), ("longer", with_further))
    )

    verdict = compare_files(*as_given)

    assert compare_files(as_given[1], as_given[0]) == verdict
    assert compare_files(*shuffled) == verdict
    if verdict != "refused":
        assert compare_files(*longer) in {verdict, "refused"}


WHOLE, LATER = 9007199254740992, datetime(2024, 1, 31, tzinfo=UTC)
TYPED: dict[str, tuple[pa.DataType, Sequence[object]]] = {
    "text": (pa.string(), ("1", "1.0", "007", "", "a\r\nb", "0e1", "2024-01-31")),
    "int64": (pa.int64(), (0, 1, 7, 31, 1000, WHOLE, -2)),
    "decimal": (pa.decimal128(18, 3), tuple(map(Decimal, ("0", "1", "1.1", "0.5", "7", "31", "1000")))),
    "float64": (pa.float64(), (0.0, 1.0, 0.1, 1e-7, 1000.0, float(WHOLE), float("inf"), 7.0, 31.0)),
    "bool": (pa.bool_(), (True, False)),
    "date": (pa.date32(), (date(2024, 1, 31),)),
    "timestamp": (pa.timestamp("us", "UTC"), (LATER,)),
}


def same_value(kind: str, cell: Cell, value: object) -> bool:
    """Return whether a cell is a way to write a value; an empty one is a null of every type but text."""
    if cell is None or (not cell and kind != "text"):
        return value is None
    cell_value = read(cell, kind)
    if kind == "float64" and isinstance(cell_value, float) and isinstance(value, float):
        return cell_value == value
    return bool(type(value) is not bool or isinstance(cell_value, bool)) and cell_value == value


@QUICK
@given(
    kind=st.sampled_from([*TYPED]),
    rows=st.lists(st.tuples(CELLS, st.integers(0, 20)), min_size=1, max_size=4),
    swapped=st.booleans(),
)
@example(kind="float64", rows=[("9007199254740993", 5)], swapped=False)
@example(kind="int64", rows=[("007", 2)], swapped=False)
@example(kind="float64", rows=[("1e-7", 3)], swapped=True)
@example(kind="text", rows=[("007", 2)], swapped=False)
def test_csv_beside_a_type_is_equal_where_its_texts_write_the_values(
    folder: Path, kind: str, rows: list[tuple[Cell, int]], *, swapped: bool
) -> None:
    stored, values = TYPED[kind]
    typed_values = [values[place] if place < len(values) else None for _, place in rows]
    # Where a cell writes a value of the type, that value is on the other side in half of the cases.
    pairs = [
        (cell, (cell_value if _fits(cell_value := read(cell, kind), kind) else value) if cell and place % 2 else value)
        for (cell, place), value in zip(rows, typed_values, strict=True)
    ]
    csv = write_csv(folder / "l.csv", [(str(n), cell) for n, (cell, _) in enumerate(pairs)])
    table = pa.table({"k": [*range(len(pairs))], "v": pa.array([value for _, value in pairs], stored)})
    pq.write_table(table, folder / "r.parquet")
    sides = (str(folder / "r.parquet"), csv) if swapped else (csv, str(folder / "r.parquet"))

    expected = all(same_value(kind, cell, value) for cell, value in pairs)

    assert compare_files(*sides) == ("equal" if expected else "different")


def _fits(cell_value: object, kind: str) -> bool:
    """Return whether a read value can be written with the type of Parquet of a kind."""
    if isinstance(cell_value, tuple) or cell_value == "nan":
        return False
    if isinstance(cell_value, Decimal):
        limit = 10**15 if kind == "decimal" else 2**63
        return abs(cell_value) < limit and cell_value == cell_value.quantize(
            Decimal(1) if kind == "int64" else Decimal("0.001")
        )
    return True
