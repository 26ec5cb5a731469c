"""Positions in the snapshots of tables that pyiceberg writes, as a plain Python job does."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cutover.positions.position import FORMAT, UnknownPosition
from cutover.positions.table_position import find_table_position

sql = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")


@pytest.fixture
def table(tmp_path: Path) -> Any:
    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    return catalog.create_table("n.payments", schema=pa.schema([("n", pa.int64())]))


def read_offset(table: Any) -> int | str:
    position = find_table_position(table.location().removeprefix("file://")).position
    if isinstance(position, UnknownPosition):
        return position.reason
    return position.topics["payments"][0]


def test_the_newest_snapshot_with_rows_states_the_position(table: Any) -> None:
    rows = pa.table({"n": [1, 2, 3]})

    def state(offset: int) -> dict[str, str]:
        return {"cutover.position": json.dumps({"format": FORMAT, "topics": {"payments": {"0": offset}}})}

    assert read_offset(table) == "no snapshot has written rows"
    table.append(rows, snapshot_properties=state(20))
    assert read_offset(table) == 20
    table.append(rows, snapshot_properties=state(10))
    assert "another job writes the table" in str(read_offset(table))
    table.overwrite(rows, snapshot_properties=state(10))  # two snapshots: all rows are deleted, then others appended
    assert read_offset(table) == 10
    table.append(rows.slice(0, 0))
    assert read_offset(table) == 10
    table.append(rows)
    assert "without the property" in str(read_offset(table))
