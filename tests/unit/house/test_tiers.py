"""Lists of long tests: every entry names an existing test."""

import re
from pathlib import Path

import pytest

from tests.support.suite.tiers import ALL, KEPT, LONG, is_long

ROOT = Path(__file__).resolve().parents[3]
ENTRIES = [(file, part) for tier in (LONG, KEPT) for file, parts in tier.items() for part in parts]


@pytest.mark.parametrize(("file", "part"), ENTRIES)
def test_every_entry_names_an_existing_test(file: str, part: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    name = re.match(r"(test_\w+)?", part)

    assert name is not None
    assert not name[0] or any(line.startswith(f"def {name[0]}") for line in text.splitlines())


def test_no_file_is_in_both_lists() -> None:
    assert LONG.keys() & KEPT.keys() == set()


def test_long_tests_are_listed_or_not_kept() -> None:
    (fully_listed, *_) = (file for file, parts in LONG.items() if parts is ALL)
    kept_file, parts = next(iter(KEPT.items()))

    assert is_long(f"{fully_listed}::test_anything")
    assert is_long(f"{kept_file}::test_another")
    assert not is_long(f"{kept_file}::{parts[0]}")
    assert not is_long("tests/unit/house/test_tiers.py::test_anything")
