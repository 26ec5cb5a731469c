"""The records behind the rows that a report lists, from hand-made tables."""

from unittest.mock import Mock

from cutover.engine import queries
from cutover.reconcile.attribution import cells
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value
from cutover.reconcile.result.parts import RecordBehind
from tests.integration.streaming import rig

CLICKS = rig.pipeline("clicks")
NOON, LATER = "TIMESTAMPTZ '2026-11-01 12:00:00+00'", "TIMESTAMPTZ '2026-11-01 13:00:00+00'"
LAYOUT = Layout(keys=("window_start", *CLICKS.key), values=(Value(name="n"),), group="window_start", wide=frozenset())
LEDGER = (
    (NOON, "'late'", 0, 7, "TIMESTAMPTZ '2026-11-01 12:07:00+00'", 3, "NULL"),
    (NOON, "'late'", 0, 6, "TIMESTAMPTZ '2026-11-01 12:06:00+00'", 2, "'a reason'"),
    (NOON, "'future'", 0, 5, "TIMESTAMPTZ '2026-11-01 12:05:00+00'", 2, "NULL"),
    (LATER, "'late'", 0, 9, "TIMESTAMPTZ '2026-11-01 13:01:00+00'", 3, "NULL"),
)


def test_records_behind_a_listed_row_have_position_and_time() -> None:
    with queries.open_duckdb() as connection:
        connection.execute(
            f"CREATE TABLE {SharedTable.TOUCHED} AS SELECT {NOON} AS window_start, 'home' AS {CLICKS.key[0]},"
            " 1 AS __copy, 'changed' AS _kind, 1 AS _explained, 2 AS __b0, 1 AS __v0_0, 2 AS __v1_0"
        )
        rows = ", ".join(f"({', '.join(map(str, (row[0], repr('home'), *row[1:])))})" for row in LEDGER)
        columns = f"window_start, {CLICKS.key[0]}, _class, _partition, _offset, event_time, _epoch, reason"
        connection.execute(f"CREATE TABLE {SharedTable.LEDGER} AS SELECT * FROM (VALUES {rows}) t({columns})")  # noqa: S608 -- ours

        records_behind = cells.read_records_behind(
            Mock(connection=connection, layout=LAYOUT, merged=("late",)), CLICKS, limit=10
        )

    assert records_behind == tuple(
        RecordBehind(
            window_start="2026-11-01T12:00:00Z",
            key={CLICKS.key[0]: "home"},
            cause="late",
            partition=0,
            offset=offset,
            event_time=f"2026-11-01T12:0{offset}:00Z",
            epoch=epoch,
            reason=reason,
        )
        for offset, epoch, reason in ((6, 2, "a reason"), (7, 3, None))
    )
