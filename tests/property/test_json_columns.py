"""Fields of JSON objects read by the scanner of Python's `json` are those that the parser of records reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cutover.sources.staging import Fields, TextColumns, read_any_fields, read_fields
from tests.support.suite.depth import depth

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=2), SCALARS, max_size=2)
DOCUMENTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=5) | VALUES
NUMBERS = st.sampled_from(["1.50", "-0", "1E+2", "0.10", "9" * 40, "9" * 1001, "NaN", "-Infinity", "01", "1."])
TEXTS = (
    st.builds(json.dumps, DOCUMENTS, ensure_ascii=st.booleans())
    | st.builds('{{"a": {}, "b": {}}}'.format, NUMBERS, NUMBERS)
    | st.builds("{}{}{}".format, st.sampled_from(["", " ", "\n", "\ufeff"]), st.just('{"a": 1}'), st.text(max_size=2))
    | st.builds('{{"a": {}, "a": {}}}'.format, NUMBERS, NUMBERS)
    | st.text(alphabet='{}[]",:a1\\', max_size=8)
)


def read(function: Any, text: str) -> tuple[Mapping[str, str | None], tuple[str, ...]] | str:
    """Return the texts that a function reads, or its message."""
    try:
        fields, nested = function(text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return {name: json.dumps(value) if isinstance(value, bool) else value for name, value in fields.items()}, nested


@depth(60, 2000)
@given(TEXTS)
@example(json.dumps({"a" * 60_000: 1}))
@example(json.dumps({"a": "x" * 2_000, "b": 1}))
@example('{"a": 1' + "0" * 1_000 + "}")
@example('{"a": ' + "[" * 2_000)
@example('{"a": "\\ud800"}')
def test_the_scanner_reads_what_the_parser_of_records_reads(text: str) -> None:
    assert read(read_fields, text) == read(read_any_fields, text)


@depth(10, 200)
@given(st.lists(st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | st.booleans() | st.text()), max_size=3)))
def test_rows_are_merged_whatever_columns_they_have(batches: list[list[Fields]]) -> None:
    rows = [row for batch in batches for row in batch]
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        with TextColumns(Path(folder) / "copies") as columns:
            columns.add("k")
            for batch in batches:
                columns.write(batch)
            names = sorted(columns.names)
            path = columns.merge(connection, names)
        written = connection.execute(f"FROM read_parquet('{path}')").fetchall()
        assert sorted(Path(folder).rglob("*.parquet")) == [path]

    expected = [tuple(str(v).lower() if isinstance(v, bool) else v for v in map(row.get, names)) for row in rows]
    assert written == expected


def test_half_of_a_surrogate_pair_is_rejected(tmp_path: Path) -> None:
    with TextColumns(tmp_path) as columns, pytest.raises(UnicodeEncodeError):
        columns.write([read_fields('{"a": "\\ud800"}')[0]])
