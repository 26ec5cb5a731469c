"""Cells of CSV files are text to every spreadsheet, for any form of a formula sign."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutover
from cutover.output.cells import cell, strip_guard, unescape_text, write_rows

SIGNS = [
    "=",
    "+",
    "-",
    "@",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
    "\ufe66",
    "\ufe62",
    "\ufe63",
    "\ufe6b",
    "\u2212",
    "\u207a",
]
BEFORE = ["", " ", "\t", "\r", "\n", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u202e", "\x00", " \t\ufeff "]


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("prefix", BEFORE)
def test_a_sign_that_begins_a_formula_is_made_harmless(prefix: str, sign: str) -> None:
    assert cell(f"{prefix}{sign}1+1").startswith("'")


@pytest.mark.parametrize("text", ["JFK", "a=b", "1-2", "", " JFK", "日本", "x@y", "O'Hare", "'s", r"C:\dir"])
def test_another_text_stays_as_it_is(text: str) -> None:
    assert cell(text) == text


def test_an_original_apostrophe_is_distinguished_from_an_added_one() -> None:
    assert (cell("=1"), cell("'=1")) == ("'=1", "''=1")


@given(st.text(st.sampled_from("'=+- \\nx1u\n\u202e\ud800\u2212a") | st.characters()))
def test_a_cell_gives_its_text_back(text: str) -> None:
    assert unescape_text(strip_guard(cell(text))) == text


def test_a_number_below_zero_is_a_number() -> None:
    assert cell(-1.5) == "-1.5"


def test_names_of_columns_are_cells_too() -> None:
    file = io.StringIO()

    write_rows(file, [["=cmd", "n"], ["\uff20x", -1], [None, "a,b"]])

    assert file.getvalue() == "'=cmd,n\n'\uff20x,-1\n,\"a,b\"\n"


def test_nothing_else_writes_csv() -> None:
    root = Path(cutover.__file__).parents[1]
    rooms = ("cutover", "streaming", "batch", "reconcile", "dags", "infra")
    ways = ("csv.writer", "csv.DictWriter", "FORMAT csv", "to_csv")
    writers = [
        str(file.relative_to(root))
        for room in rooms
        for file in sorted((root / room).rglob("*.py"))
        if any(word in file.read_text(encoding="utf-8") for word in ways)
    ]

    assert writers == ["cutover/sources/postgres.py"]  # what the server sends; people never see it
