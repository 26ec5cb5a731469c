"""Files of the batch table that a run rewrites, keeps or reverts."""

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cutover.batch.write.replace import replace_windows, roll_back_unfinished_run
from cutover.lake.integrity import foreign_commits
from cutover.lake.tables import checksums, delta
from tests.unit.batch.test_replace import SCHEMA, START, ranges, rows


def values(table: DeltaTable) -> list[tuple[int, int]]:
    table_rows = delta.open_table(table.table_uri).to_pyarrow_table().to_pylist()
    return sorted(((row["window_start"] - START) // timedelta(hours=1), row["v"]) for row in table_rows)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Create a batch table of one file, with the windows of the hours 2 and 3."""
    batch_table = delta.ensure(str(tmp_path / "batch"), SCHEMA)
    replace_windows(batch_table, rows({2: 1, 3: 1}), ranges((2, 4)), of="first")
    return batch_table


def test_a_file_that_holds_a_window_of_one_of_several_ranges_is_rewritten(table: DeltaTable) -> None:
    replace_windows(table, rows({2: 2, 7: 2}), ranges((2, 3), (7, 8)), of="r")

    assert values(table) == [(2, 2), (3, 1), (7, 2)]


@pytest.mark.parametrize("neighbour", [(1, 2), (4, 5)], ids=["before", "after"])
def test_a_file_whose_windows_only_touch_a_range_is_kept(table: DeltaTable, neighbour: tuple[int, int]) -> None:
    (file,) = delta.paths(table)

    replace_windows(table, rows({neighbour[0]: 2}), ranges(neighbour), of="r")

    assert file in delta.paths(table)
    assert values(table) == sorted([(2, 1), (3, 1), (neighbour[0], 2)])


@pytest.mark.parametrize("hours", [{7: 2}, {}], ids=["of other windows", "of none"])
@pytest.mark.parametrize("rows_to_keep", [{3: 9}, {}], ids=["one kept", "none kept"])
def test_replacement_rows_are_the_only_rows_kept(
    table: DeltaTable, hours: dict[int, int], rows_to_keep: dict[int, int]
) -> None:
    computed = ranges(*((h, h + 1) for h in hours))

    version = replace_windows(table, rows(hours), computed, of="r", instead_of=rows(rows_to_keep))

    assert (version, values(table)) == (2, sorted([*hours.items(), *rows_to_keep.items()]))


def test_a_run_without_replacements_makes_no_commit(table: DeltaTable) -> None:
    assert replace_windows(table, rows({}), [], of="r") == 1
    assert values(table) == [(2, 1), (3, 1)]


def require_change_since(table: DeltaTable, known_version: int) -> foreign_commits.TableChange:
    change = foreign_commits.find_change(table, known_version)
    assert change is not None
    return change


def test_rows_of_an_unrecorded_first_run_are_reverted(table: DeltaTable) -> None:
    table_change = require_change_since(table, 0)
    assert table_change.base == 0

    roll_back_unfinished_run(table, table_change)

    assert values(table) == []


def test_windows_cleared_by_a_killed_run_are_restored(table: DeltaTable) -> None:
    files = set(delta.paths(table))
    replace_windows(table, rows({}), ranges((2, 4)), of="killed")
    assert values(table) == []

    roll_back_unfinished_run(table, require_change_since(table, checksums.total(files)))

    assert (values(table), set(delta.paths(table))) == ([(2, 1), (3, 1)], files)


@pytest.mark.parametrize("base", [None, -1])
def test_table_is_unchanged_without_the_start_version_of_a_killed_run(table: DeltaTable, base: int | None) -> None:
    roll_back_unfinished_run(
        table, foreign_commits.TableChange(uri=table.table_uri, kind=foreign_commits.Kind.UNFINISHED, base=base)
    )

    assert (table.version(), values(table)) == (1, [(2, 1), (3, 1)])
