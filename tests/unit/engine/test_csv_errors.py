"""Errors of DuckDB for unreadable CSV, on one line."""

from pathlib import Path

import duckdb
import pytest

from cutover.engine import queries

MANY = "1,2\n" * 30_000


@pytest.mark.parametrize(
    ("rows", "description"),
    [
        (f"{MANY}1,2,secret\n", "line 30002: Expected Number of Columns: 2 Found: 3"),
        (f"{MANY}1,secret\n", 'line 30002: Error when converting column "b"'),
        (f'{MANY}1,"secret\n', "line 30002: Value with unterminated quote found"),
        (f"1,{'secret' * 400_000}\n", "line 1: Maximum line size of 2000000 bytes exceeded"),
        ("1,secret\udcff\n", "line 2: Invalid unicode"),
    ],
    ids=["fields", "type", "quote", "long", "no UTF-8"],
)
def test_csv_error_names_line_and_cause_but_not_the_text(tmp_path: Path, rows: str, description: str) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(f"a,b\n{rows}".encode(errors="surrogateescape"))
    with queries.open_duckdb() as connection, pytest.raises(duckdb.Error) as refused:
        connection.read_csv(str(file), quotechar='"').aggregate("sum(a), max(b)").fetchall()

    assert queries.describe_error(refused.value) == f"{description} (`a.csv`)"


def test_an_error_of_another_kind_is_its_first_line() -> None:
    with queries.open_duckdb() as connection, pytest.raises(duckdb.Error) as refused:
        connection.execute("SELECT * FROM nowhere")

    assert queries.describe_error(refused.value).startswith("Catalog Error: Table with name nowhere does not exist!")
