"""Cells of CSV, as `cutover diff` reads them, are those of Python's strict reader, or the file is rejected."""

import csv
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cutover.errors import LakeError
from cutover.sources.binding import SourceBinder
from cutover.sources.csv_dialect import Dialect

NAMES = ("k", "v", "w")
PIECES = (
    '"',
    '"',
    ",",
    ";",
    " ",
    "\n",
    "\r\n",
    "\r",
    "a",
    "1",
    "\\",
    '\\"',
    "\t",
    "\0",
    "\ufeff",
    "#",
    "'",
    '""',
    '"a"',
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def files_of_csv(draw: st.DrawFn) -> tuple[str, Dialect, int]:
    """Draw a text whose head is in form, with its dialect and its number of columns."""
    dialect = Dialect(delimiter=draw(st.sampled_from(",; ")), quote=draw(st.sampled_from(['"', '"', "'", ""])))
    columns, end = draw(st.integers(1, 3)), draw(ENDS)
    rows = draw(
        TEXTS
        | st.lists(st.lists(cells(dialect), min_size=columns, max_size=columns)).map(
            lambda rows: end.join((dialect.delimiter or "").join(row) for row in rows)
        )
    )
    start = draw(st.sampled_from(["", "", "\ufeff", end, "\ufeff\n"]))
    return start + (dialect.delimiter or "").join(NAMES[:columns]) + end + rows, dialect, columns


def cells(dialect: Dialect) -> st.SearchStrategy[str]:
    """Return cells in form: with quotes, or without a text that needs them."""
    quote = dialect.quote
    plain = TEXTS.map(lambda text: "".join(c for c in text if c not in f"\r\n{dialect.delimiter}"))
    return plain | TEXTS.map(lambda text: f"{quote}{text.replace(quote, quote * 2)}{quote}") if quote else plain


def read_with_python(text: str, dialect: Dialect, columns: int) -> list[list[str]] | None:
    """Return the rows below the head; None: they are not in form. In one column an empty line is a row."""
    lines = io.StringIO(text.removeprefix("\ufeff"), newline="")
    delimiter = dialect.delimiter or ","
    try:
        rows = [
            *csv.reader(
                lines,
                delimiter=delimiter,
                quotechar=dialect.quote or None,
                quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
                strict=True,
            )
        ]
    except csv.Error:
        return None
    head = next(place for place, row in enumerate(rows) if row)
    below = [row or [""] for row in rows[head + 1 :] if row or columns == 1]
    return None if any(len(row) != columns for row in below) else below


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn_csv=files_of_csv())
@example(drawn_csv=('k,v\n1, "a"\n', Dialect(delimiter=","), 2))
@example(drawn_csv=('k,v\n1,"a" \n', Dialect(delimiter=","), 2))
@example(drawn_csv=('k,v\n"1",a,\n', Dialect(delimiter=","), 2))
@example(drawn_csv=("\nk,v\n1,a,\n", Dialect(delimiter=","), 2))
@example(drawn_csv=("\n\nk,v\n1,a\n", Dialect(delimiter=","), 2))
@example(drawn_csv=("k,v\n1,a\r\n2,b\n", Dialect(delimiter=","), 2))
@example(drawn_csv=("k\n1\r\n2\n\n", Dialect(delimiter=","), 1))
@example(drawn_csv=("k\n1\n\n2\n", Dialect(delimiter=","), 1))
def test_cells_are_those_of_python_or_the_file_is_rejected(folder: Path, drawn_csv: tuple[str, Dialect, int]) -> None:
    text, dialect, columns = drawn_csv
    (folder / "t.csv").write_bytes(text.encode())
    expected = read_with_python(text, dialect, columns)

    with duckdb.connect() as connection:
        try:
            SourceBinder(connection, folder).bind("t", str(folder / "t.csv"), dialect)
            rows = [[cell or "" for cell in row] for row in connection.execute("FROM t").fetchall()]
        except LakeError:
            rows = None

    assert rows in (None, expected)


@pytest.mark.quick
@pytest.mark.parametrize("body", ["k,v\n1,a\r\n2,b\n", 'k,v\r\n1,"a\nb"\n2,"c\r\nd"\r\n3,e'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_lines_that_end_in_different_ways_are_read(tmp_path: Path, body: str, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes(body.encode(encoding))

    with duckdb.connect() as connection:
        SourceBinder(connection, tmp_path).bind("t", str(tmp_path / "t.csv"), Dialect(encoding=encoding))
        rows = [[*row] for row in connection.execute("FROM t").fetchall()]

    assert rows == read_with_python(body, Dialect(delimiter=","), 2)


@pytest.mark.parametrize("fault", ["", "1,x,\n"])
def test_records_longer_than_a_block_are_checked_to_their_end(tmp_path: Path, fault: str) -> None:
    long = "x,\n" * 4_000_000
    (tmp_path / "t.csv").write_text(f'k,v\n1,"{long}"\n2,a\n{fault}', encoding="utf-8")

    with duckdb.connect() as connection:
        if fault:
            with pytest.raises(LakeError, match=r"line 4,000,004 of `t.csv`: expected 2 cells"):
                SourceBinder(connection, tmp_path).bind("t", str(tmp_path / "t.csv"))
        else:
            SourceBinder(connection, tmp_path).bind("t", str(tmp_path / "t.csv"))
            assert connection.execute("SELECT length(v) FROM t").fetchall() == [(len(long),), (1,)]
