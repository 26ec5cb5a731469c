import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.batch.write.replace import replace_windows, roll_back_unfinished_run
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.integrity import foreign_commits
from cutover.lake.tables import checksums, commits, delta

START = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("window_start", TIME), ("window_end", TIME), ("v", pa.int64())])


def rows(hours: dict[int, int]) -> pa.Table:
    at = {h: START + timedelta(hours=h) for h in range(9)}
    row_dicts = [{"window_start": at[h], "window_end": at[h + 1], "v": v} for h, v in hours.items()]
    return pa.Table.from_pylist(row_dicts, SCHEMA)


def ranges(*pairs: tuple[int, int]) -> list[tuple[int, int]]:
    base = round(START.timestamp() * 1_000_000)
    return [(base + a * HOUR, base + b * HOUR) for a, b in pairs]


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    batch_table = delta.ensure(str(tmp_path / "batch"), SCHEMA)
    commits.append(batch_table, rows(dict.fromkeys(range(6), 1)))
    return batch_table


def values(table: DeltaTable) -> dict[int, int]:
    connection = queries.open_duckdb()
    delta.relation(connection, "found", table.table_uri)
    table_rows = connection.execute("SELECT window_start, v FROM found ORDER BY ALL").fetchall()
    return {(start - START) // timedelta(hours=1): v for start, v in table_rows}


def test_the_windows_of_a_range_are_replaced_and_those_without_a_row_are_cleared(table: DeltaTable) -> None:
    version = replace_windows(table, rows({1: 2, 4: 2}), ranges((1, 3), (4, 5)), of="r")

    assert version == 2
    assert values(table) == {0: 1, 1: 2, 3: 1, 4: 2, 5: 1}


def test_a_row_outside_the_ranges_is_rejected_and_nothing_changes(table: DeltaTable) -> None:
    with pytest.raises(LakeError, match="windows cannot be replaced"):
        replace_windows(table, rows({3: 2}), ranges((1, 3)), of="r")

    assert values(table) == dict.fromkeys(range(6), 1)


def test_windows_between_two_ranges_stay(table: DeltaTable) -> None:
    replace_windows(table, rows({0: 2, 2: 2}), ranges((0, 1), (2, 3), (5, 6)), of="r")

    assert values(table) == {0: 2, 1: 1, 2: 2, 3: 1, 4: 1}


def test_files_without_a_window_of_the_ranges_are_kept(table: DeltaTable) -> None:
    replace_windows(table, rows({7: 2}), ranges((7, 8)), of="r")
    original_files = set(delta.paths(table))
    replace_windows(table, rows({7: 3}), ranges((7, 8)), of="r")

    assert len(original_files & set(delta.paths(table))) == 1
    assert values(table) == dict.fromkeys(range(6), 1) | {7: 3}


def test_a_changed_schema_rewrites_the_table_and_keeps_other_windows(table: DeltaTable) -> None:
    wider = rows({1: 2}).append_column("w", pa.array([7], pa.int64()))

    replace_windows(table, wider, ranges((1, 2)), of="r")

    assert values(delta.open_table(table.table_uri)) == {0: 1, 1: 2, 2: 1, 3: 1, 4: 1, 5: 1}


@pytest.mark.parametrize("is_base_gone", [False, True])
def test_rows_of_an_unrecorded_run_are_reverted(table: DeltaTable, tmp_path: Path, is_base_gone: bool) -> None:
    files = set(delta.paths(table))
    recorded_files = checksums.total(files)
    replace_windows(table, rows({1: 2}), ranges((1, 3)), of="killed")
    replace_windows(table, rows({5: 3}), ranges((5, 6)), of="killed-again")
    if is_base_gone:  # as clean-up behind a checkpoint leaves the log
        table.create_checkpoint()
        for entry in (0, 1):
            (tmp_path / "batch" / "_delta_log" / f"{entry:020d}.json").unlink()
    change = foreign_commits.find_change(table, recorded_files)
    assert change is not None
    assert change.kind is foreign_commits.Kind.UNFINISHED

    roll_back_unfinished_run(table, change)

    assert values(table) == dict.fromkeys(range(6), 1)
    assert set(delta.paths(delta.open_table(table.table_uri))) == files
    assert foreign_commits.find_change(delta.open_table(table.table_uri), recorded_files) is None


def test_modified_statistics_leave_no_old_row_in_replaced_windows(table: DeltaTable) -> None:
    entry = max(Path(table.table_uri.removeprefix("file://")).glob("_delta_log/*.json"))
    tampered = re.sub(r"(maxValues.*?window_end[^0-9]*)2013-01-01T06", r"\g<1>2012-01-01T06", entry.read_text())
    assert tampered != entry.read_text()
    entry.write_text(tampered)

    replace_windows(delta.open_table(table.table_uri), rows({1: 2}), ranges((1, 2)), of="r")

    assert values(table) == {0: 1, 1: 2, 2: 1, 3: 1, 4: 1, 5: 1}
    assert delta.open_table(table.table_uri).to_pyarrow_table().num_rows == 6
