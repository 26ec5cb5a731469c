"""Which files of the batch table a run rewrites, keeps, and takes back."""

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cutover.batch.write.replace import replace_windows, take_back
from cutover.lake.integrity import foreign_commits
from cutover.lake.tables import checksums, delta
from tests.unit.batch.test_replace import SCHEMA, START, ranges, rows


def values(table: DeltaTable) -> list[tuple[int, int]]:
    found = delta.open_table(table.table_uri).to_pyarrow_table().to_pylist()
    return sorted(((row["window_start"] - START) // timedelta(hours=1), row["v"]) for row in found)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Return a batch table of one file, with the windows of the hours 2 and 3."""
    made = delta.ensure(str(tmp_path / "batch"), SCHEMA)
    replace_windows(made, rows({2: 1, 3: 1}), ranges((2, 4)), of="first")
    return made


def test_a_file_that_holds_a_window_of_one_of_several_ranges_is_rewritten(table: DeltaTable) -> None:
    replace_windows(table, rows({2: 2, 7: 2}), ranges((2, 3), (7, 8)), of="r")

    assert values(table) == [(2, 2), (3, 1), (7, 2)]


@pytest.mark.parametrize("beside", [(1, 2), (4, 5)], ids=["before", "after"])
def test_a_file_whose_windows_meet_a_range_and_lie_outside_stays_as_it_is(
    table: DeltaTable, beside: tuple[int, int]
) -> None:
    (file,) = delta.paths(table)

    replace_windows(table, rows({beside[0]: 2}), ranges(beside), of="r")

    assert file in delta.paths(table)
    assert values(table) == sorted([(2, 1), (3, 1), (beside[0], 2)])


@pytest.mark.parametrize("hours", [{7: 2}, {}], ids=["of other windows", "of none"])
@pytest.mark.parametrize("kept", [{3: 9}, {}], ids=["one kept", "none kept"])
def test_rows_given_instead_of_those_of_the_table_are_all_that_stays(
    table: DeltaTable, hours: dict[int, int], kept: dict[int, int]
) -> None:
    computed = ranges(*((h, h + 1) for h in hours))

    version = replace_windows(table, rows(hours), computed, of="r", instead_of=rows(kept))

    assert (version, values(table)) == (2, sorted([*hours.items(), *kept.items()]))


def test_a_run_that_has_nothing_to_replace_makes_no_commit(table: DeltaTable) -> None:
    assert replace_windows(table, rows({}), [], of="r") == 1
    assert values(table) == [(2, 1), (3, 1)]


def change_since(table: DeltaTable, recorded: int) -> foreign_commits.TableChange:
    found = foreign_commits.find_change(table, recorded)
    assert found is not None
    return found


def test_rows_of_a_first_run_that_was_never_recorded_are_taken_back(table: DeltaTable) -> None:
    table_change = change_since(table, 0)
    assert table_change.base == 0

    take_back(table, table_change)

    assert values(table) == []


def test_windows_that_a_killed_run_has_only_cleared_are_listed_again(table: DeltaTable) -> None:
    files = set(delta.paths(table))
    replace_windows(table, rows({}), ranges((2, 4)), of="killed")
    assert values(table) == []

    take_back(table, change_since(table, checksums.total(files)))

    assert (values(table), set(delta.paths(table))) == ([(2, 1), (3, 1)], files)


@pytest.mark.parametrize("base", [None, -1])
def test_without_a_version_at_which_a_killed_run_began_the_table_stays_as_it_is(
    table: DeltaTable, base: int | None
) -> None:
    take_back(table, foreign_commits.TableChange(uri=table.table_uri, kind=foreign_commits.Kind.UNFINISHED, base=base))

    assert (table.version(), values(table)) == (1, [(2, 1), (3, 1)])
