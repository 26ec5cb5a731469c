"""A cell of the sheet is text to every spreadsheet, in whatever form the sign comes."""

import csv
from dataclasses import replace

import pytest

from reconcile.report.sheet import cell, differences
from tests.support.reconciliations import flights

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
@pytest.mark.parametrize("before", BEFORE)
def test_a_sign_that_begins_a_formula_is_made_harmless(before: str, sign: str) -> None:
    assert cell(f"{before}{sign}1+1").startswith("'")


@pytest.mark.parametrize("text", ["JFK", "a=b", "1-2", "", " JFK", "日本", "x@y", "'=1"])
def test_another_text_stays_as_it_is(text: str) -> None:
    assert cell(text) == text


def test_a_number_below_zero_is_a_number() -> None:
    assert cell(-1.5) == "-1.5"


def test_a_sheet_that_was_cut_says_so_in_its_last_line() -> None:
    result = flights()

    head, *_, last = csv.reader(differences(result).splitlines())

    assert last[0] == f"cut here: {len(result.differences)} of 230 differing cells are listed"
    assert last[1:] == [""] * (len(head) - 1)


def test_a_sheet_with_every_difference_ends_with_one() -> None:
    result = flights()
    whole = replace(result, differences_total=len(result.differences))

    assert len(differences(whole).splitlines()) == 1 + len(result.differences)
    assert "cut here" not in differences(whole)
