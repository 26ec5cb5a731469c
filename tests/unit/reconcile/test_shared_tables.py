"""Names of the tables that modules of a comparison share, defined in one place."""

import re
from pathlib import Path

from cutover.reconcile.comparison.layout import SharedTable

ROOT = Path(__file__).parents[3]
ROOMS = ("attribution", "comparison", "verdict")
MAKES = re.compile(rf"\b(?:FROM|JOIN|TABLE|VIEW|INTO) (?:{'|'.join(SharedTable)})\b")


def test_no_query_of_a_comparison_writes_the_name_of_a_shared_table() -> None:
    files = [file for room in ROOMS for file in (ROOT / "reconcile" / room).glob("*.py")]
    files.append(ROOT / "reconcile" / "compare.py")

    assert [file.name for file in files if MAKES.search(file.read_text(encoding="utf-8"))] == []


def test_each_table_is_read_by_another_module_than_its_maker() -> None:
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "reconcile").rglob("*.py")]

    readers = {table: sum(f"SharedTable.{table.name}" in text for text in texts) for table in SharedTable}

    assert [table for table, count in readers.items() if count < 2] == []
