"""Dimension stage, which replaces the stream's versions by batch's if the stream's rows are confirmed by the log."""

from collections.abc import Iterator, Mapping

import duckdb
import pytest

from cutover.engine import queries
from cutover.reconcile.attribution import causes
from cutover.reconcile.attribution.dimension import AS_BATCH, AS_STREAM, _add_stage
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.result.finding import DIMENSION, Cause
from cutover.records.classes import Class
from tests.support.comparison.open_sides import make_sides
from tests.unit.reconcile.attribution.indexed import HOUR

Cells = Mapping[tuple[int, str | None], int]  # hour, campaign -> records

LAYOUT = Layout(keys=("window_start", "campaign"), values=(Value(name="_n"),), group="window_start", wide=frozenset())
SEEN: Cells = {(0, "x"): 2, (0, None): 3, (0, "other"): 7, (0, "left"): 4, (0, "wrong"): 5, (1, "x"): 6}
FOLDED: Cells = {cell: n for cell, n in SEEN.items() if cell[0] == 0} | {(0, "wrong"): 1}
OTHERWISE: Cells = {(0, "x"): 1, (0, None): 4, (0, "other"): 7, (0, "come"): 3, (0, "wrong"): 2}
MOVED: Cells = {(0, "x"): 2, (0, None): 4, (0, "left"): 4, (0, "come"): 3}
STAGE: Cells = {(0, "x"): 1, (0, None): 4, (0, "other"): 7, (0, "come"): 3, (0, "wrong"): 5, (1, "x"): 6}


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with queries.open_duckdb() as database:
        yield database


def create_cells(connection: duckdb.DuckDBPyConnection, name: str, cells: Cells) -> None:
    connection.execute(f"CREATE TEMP TABLE {name} (window_start TIMESTAMPTZ, campaign VARCHAR, _n BIGINT)")
    for (hour, campaign), records in cells.items():
        row = [hour * HOUR, campaign, records]
        connection.execute(f"INSERT INTO {name} VALUES (make_timestamptz(?), ?, ?)", row)  # noqa: S608 -- ours


def read(connection: duckdb.DuckDBPyConnection, name: str, value: str = "_n") -> Cells:
    query = f"SELECT epoch_us(window_start) // {HOUR}, campaign, {value} FROM {name}"  # noqa: S608 -- ours
    rows = connection.execute(query).fetchall()
    cells = {(hour, campaign): records for hour, campaign, records in rows}
    assert len(cells) == len(rows)
    return cells


def sides_of(
    connection: duckdb.DuckDBPyConnection, *stages: Cells, expected: Cells = STAGE, same_definition: bool = True
) -> Sides:
    """Return sides with the stream's cells after each class, and both ways to fold the first window."""
    create_cells(connection, SharedTable.EXPECTED, expected)
    for number, cells in enumerate(stages):
        create_cells(connection, stage(number), cells)
    create_cells(connection, AS_STREAM, FOLDED)
    create_cells(connection, AS_BATCH, OTHERWISE)
    merged = ("late", "future")[: len(stages) - 1]
    return make_sides(connection, LAYOUT, merged=merged, same_definition=same_definition)


def test_confirmed_stream_rows_are_replaced_by_batchs_versions(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    sides = _add_stage(sides_of(connection, SEEN, SEEN), [0])

    assert sides.merged == ("late", DIMENSION)
    assert read(connection, "stage_2") == STAGE
    assert read(connection, "moved_2", "greatest(of_stream, of_batch)") == MOVED


def test_a_further_stage_keeps_what_the_classes_before_it_merged_elsewhere(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    future: Cells = {(1, "x"): 9, (0, "future"): 1}

    sides = _add_stage(sides_of(connection, SEEN, SEEN, {**SEEN, **future}), [0])

    assert sides.merged == ("late", "future", DIMENSION)
    assert read(connection, "stage_3") == {**STAGE, **future}


def test_no_stage_is_added_without_confirmed_rows_of_the_stream(connection: duckdb.DuckDBPyConnection) -> None:
    base_sides = sides_of(connection, SEEN, {cell: records + 1 for cell, records in {**OTHERWISE, **SEEN}.items()})

    assert _add_stage(base_sides, [0]) == base_sides


def count_dimension(connection: duckdb.DuckDBPyConnection, sides: Sides) -> Cause:
    """Return what versions are the cause of, where no ledger says anything."""
    for number in range(1, len(sides.merged)):
        create_cells(connection, f"moved_{number}", {})
    for name in (SharedTable.DOUBTFUL, "ledger_keys", SharedTable.LEDGER):
        connection.execute(
            f"CREATE TEMP TABLE {name} (window_start TIMESTAMPTZ, campaign VARCHAR, _class VARCHAR,"
            " _partition INTEGER, _offset BIGINT)"
        )
    return causes.find_causes(sides, causes.diff_stages(sides)).causes[DIMENSION]


def test_records_behind_a_version_are_those_of_its_rows_in_which_the_sides_differ(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    as_batch_but_for_one = {**STAGE, (0, "x"): SEEN[0, "x"]}
    base_sides = sides_of(connection, SEEN, SEEN, SEEN, expected=as_batch_but_for_one, same_definition=False)
    sides = _add_stage(base_sides, [0])

    assert count_dimension(connection, sides) == Cause(rows=3, events=3 + 4)  # what left one key came to another


def test_records_behind_a_version_count_with_one_class_merged_too(connection: duckdb.DuckDBPyConnection) -> None:
    sides = _add_stage(sides_of(connection, SEEN, SEEN), [0])

    assert count_dimension(connection, sides) == Cause(rows=4, events=2 + 3 + 4)


WITH_FUTURE: Cells = {(0, "x"): 2, (0, None): 3, (0, "other"): 9, (0, "left"): 4, (0, "wrong"): 5, (1, "x"): 6}
FOLDED_WITH_FUTURE: Cells = {cell: n for cell, n in WITH_FUTURE.items() if cell[0] == 0}
OTHERWISE_WITH_FUTURE: Cells = {**OTHERWISE, (0, "x"): 3, (0, "other"): 7, (0, "come"): 5, (0, "wrong"): 5}


@pytest.mark.parametrize(
    ("batch", "come_records"),
    [(OTHERWISE, 3), (OTHERWISE_WITH_FUTURE, 5), ({}, 3)],
    ids=["accepted", "future too", "neither"],
)
def test_against_a_teams_sql_each_moved_row_is_the_one_that_equals_batch(
    connection: duckdb.DuckDBPyConnection, batch: Cells, come_records: int
) -> None:
    base_sides = sides_of(connection, SEEN, SEEN, WITH_FUTURE, expected=batch, same_definition=False)
    create_cells(connection, f"{AS_STREAM}_1", FOLDED_WITH_FUTURE)
    create_cells(connection, f"{AS_BATCH}_1", OTHERWISE_WITH_FUTURE)

    sides = _add_stage(base_sides, [0], [Class.FUTURE])

    assert sides.merged == ("late", "future", DIMENSION)
    cells = read(connection, stage(3))
    assert (cells[0, "come"], cells[0, "other"]) == (come_records, 7)
