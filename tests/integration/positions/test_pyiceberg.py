"""Positions in the snapshots of tables that pyiceberg writes, as a plain Python job does."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from cutover.cli.position import position
from cutover.positions.position import FORMAT, UnknownPosition
from cutover.positions.table_position import find_table_position


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    configuration = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    for name, value in configuration.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__POSITIONS__{name.upper()}", value)
    catalog = SqlCatalog("positions", **configuration)
    catalog.create_namespace("n")
    return catalog.create_table("n.payments", schema=pa.schema([("n", pa.int64())]))


def read_offset(table: Any) -> int | str:
    found = find_table_position(table.location().removeprefix("file://")).position
    return found.reason if isinstance(found, UnknownPosition) else found.topics["payments"][0]


def show(table: str) -> Any:
    return json.loads(json.dumps(position(table=table).document))


@pytest.mark.quick
def test_the_newest_snapshot_with_rows_states_the_position(table: Any) -> None:
    rows = pa.table({"n": [1, 2, 3]})

    def state(offset: int) -> dict[str, str]:
        return {"cutover.position": json.dumps({"format": FORMAT, "topics": {"payments": {"0": offset}}})}

    assert read_offset(table) == "no snapshot has written rows"
    table.append(rows, snapshot_properties=state(20))
    assert read_offset(table) == 20
    document = show("iceberg://positions/n.payments")  # the file that the catalog has, even if another one is newer
    assert document["position"]["topics"] == {"payments": {"0": 20}}
    assert document["notes"] == []
    table.append(rows, snapshot_properties=state(10))
    assert "another job writes the table" in str(read_offset(table))
    table.overwrite(rows, snapshot_properties=state(10))  # two snapshots: all rows are deleted, then others appended
    assert read_offset(table) == 10
    table.append(rows.slice(0, 0))
    assert read_offset(table) == 10
    table.append(rows)
    assert "without the property" in str(read_offset(table))
