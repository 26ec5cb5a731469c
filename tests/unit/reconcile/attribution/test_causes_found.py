"""Rows and records of each cause, and of none: with the same definition, and against a team's SQL."""

from collections.abc import Iterator, Mapping, Sequence

import duckdb
import pytest

from cutover.engine import queries
from cutover.reconcile.attribution import causes
from cutover.reconcile.attribution.causes import UNEXPLAINED, Findings
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value, stage
from cutover.reconcile.result.finding import Cause
from tests.support.comparison.open_sides import make_sides
from tests.unit.reconcile.attribution.indexed import HOUR

Rows = Mapping[tuple[int, str], int]  # hour, who -> records

LAYOUT = Layout(keys=("window_start", "who"), values=(Value(name="_n"),), group="window_start", wide=frozenset())
BATCH: Rows = {(0, "late"): 3, (0, "more"): 9, (1, "masked"): 2, (3, "equal"): 5, (4, "future"): 8, (4, "both"): 4}
STREAM: Rows = {
    **dict.fromkeys([(0, "late"), (0, "more"), (1, "masked")], 2),
    (2, "extra"): 4,
    (3, "equal"): 5,
    (4, "future"): 7,
    (4, "both"): 1,
}
LATE: Rows = {**STREAM, (0, "late"): 3, (0, "more"): 4, (1, "masked"): 3, (4, "both"): 2}
FUTURE: Rows = {**LATE, (4, "future"): 8, (4, "both"): 4}
LEDGER = [
    *((0, "late", "late", 10), (0, "more", "late", 11), (0, "more", "late", 12), (1, "masked", "late", 13)),
    *((3, "equal", "malformed", 14), (4, "future", "future", 15)),
    *((4, "both", "late", 16), (4, "both", "future", 17), (4, "both", "future", 18)),
]


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with queries.open_duckdb() as database:
        for name, rows in ((SharedTable.EXPECTED, BATCH), (stage(0), STREAM), (stage(1), LATE), (stage(2), FUTURE)):
            database.execute(f"CREATE TEMP TABLE {name} (window_start TIMESTAMPTZ, who VARCHAR, _n BIGINT)")
            for (hour, key), n in rows.items():
                insert_row(database, name, f"make_timestamptz({hour * HOUR}), '{key}', {n}")
        place = "window_start TIMESTAMPTZ, who VARCHAR"
        database.execute(
            f"CREATE TEMP TABLE {SharedTable.LEDGER} ({place}, _class VARCHAR, _partition INTEGER, _offset BIGINT)"
        )
        for hour, key, name, offset in LEDGER:
            insert_row(database, SharedTable.LEDGER, f"make_timestamptz({hour * HOUR}), '{key}', '{name}', 0, {offset}")
        database.execute(f"CREATE TEMP TABLE ledger_keys AS FROM {SharedTable.LEDGER}")
        database.execute(f"CREATE TEMP TABLE {SharedTable.DOUBTFUL} ({place})")
        for number in (1, 2):
            database.execute(f"CREATE TEMP TABLE moved_{number} AS SELECT 1")
        yield database


def insert_row(connection: duckdb.DuckDBPyConnection, table: str, values: str) -> None:
    connection.execute(f"INSERT INTO {table} VALUES ({values})")  # noqa: S608 -- ours


def find(connection: duckdb.DuckDBPyConnection, *, same_definition: bool) -> Findings:
    sides = make_sides(connection, LAYOUT, same_definition=same_definition)
    return causes.find_causes(sides, causes.diff_stages(sides))


def explained(connection: duckdb.DuckDBPyConnection) -> Sequence[tuple[str, str, int]]:
    query = f"SELECT who, _kind, _explained FROM {SharedTable.TOUCHED} ORDER BY ALL"  # noqa: S608 -- ours
    return connection.execute(query).fetchall()


def test_with_one_definition_batch_equals_the_stream_with_all_classes(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    attribution = find(connection, same_definition=True)

    assert explained(connection) == [
        ("both", "changed", 2),
        ("extra", "extra", 0),
        ("future", "changed", 2),
        ("late", "changed", 1),
        ("masked", "masked", 0),
        ("more", "changed", 0),
    ]
    assert (attribution.different_windows, attribution.unexplained, attribution.plain.rows) == (4, 3, 5)
    assert attribution.causes == {
        "late": Cause(rows=4, events=5),  # a masked row, and one that late records explain in part, among them
        "future": Cause(rows=2, events=3),
        "duplicate": Cause(),
        "malformed": Cause(),
        "dimension": Cause(),
        UNEXPLAINED: Cause(rows=3, events=(9 - 4) + (3 - 2) + 4),
    }


def test_against_a_teams_sql_a_class_is_a_cause_if_it_removes_the_whole_difference(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    attribution = find(connection, same_definition=False)

    assert explained(connection) == [
        ("both", "changed", 2),
        ("extra", "extra", 0),
        ("future", "changed", 2),
        ("late", "changed", 1),
        ("more", "changed", 0),
    ]
    assert (attribution.different_windows, attribution.unexplained) == (3, 2)
    assert (attribution.causes["late"], attribution.causes["future"]) == (
        Cause(rows=2, events=2),
        Cause(rows=2, events=3),
    )
    assert attribution.causes[UNEXPLAINED] == Cause(rows=2, events=(9 - 2) + 4)


def test_a_row_whose_ledger_is_in_doubt_has_no_cause(connection: duckdb.DuckDBPyConnection) -> None:
    insert_row(connection, SharedTable.DOUBTFUL, "make_timestamptz(0), 'late'")

    attribution = find(connection, same_definition=True)

    assert ("late", "changed", 0) in explained(connection)
    assert attribution.causes[UNEXPLAINED].rows == 4


@pytest.mark.parametrize(
    ("same_definition", "expected"), [(True, ["both", "future", "late"]), (False, ["both", "future", "late", "spoilt"])]
)
def test_causes_are_claimed_of_rows_that_a_stage_makes_equal_and_whose_ledger_holds(
    connection: duckdb.DuckDBPyConnection, *, same_definition: bool, expected: list[str]
) -> None:
    for table, n in ((SharedTable.EXPECTED, 3), (stage(0), 2), (stage(1), 3), (stage(2), 7)):  # late alone is equal
        insert_row(connection, table, f"make_timestamptz(0), 'spoilt', {n}")
        insert_row(connection, table, f"make_timestamptz(0), 'doubted', {3 if table != stage(0) else 2}")
    insert_row(connection, SharedTable.DOUBTFUL, "make_timestamptz(0), 'doubted'")
    sides = make_sides(connection, LAYOUT, same_definition=same_definition)
    causes.diff_stages(sides)

    claimed = connection.execute(f"SELECT who FROM ({causes.select_claimed_sql(sides)}) ORDER BY 1").fetchall()  # noqa: S608 -- ours

    assert [key for (key,) in claimed] == expected


def test_a_stage_that_moved_nothing_is_as_the_one_before_it(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("DELETE FROM moved_2")
    sides = make_sides(connection, LAYOUT)

    causes.diff_stages(sides)

    remaining = [connection.execute(f"SELECT who FROM left_{n} ORDER BY 1").fetchall() for n in (1, 2)]  # noqa: S608 -- ours
    assert remaining[0] == remaining[1] == [("both",), ("extra",), ("future",), ("masked",), ("more",)]
