"""The records behind the rows that a report lists: those of the ledger, by partition and offset."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier, literal
from cutover.reconcile.attribution import cells
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.overview import RecordBehind

RECORDS_AT_MOST = 1_500
OF_A_ROW_AT_MOST = 10


def read(sides: Sides, pipeline: Pipeline, *, limit: int) -> tuple[RecordBehind, ...]:
    """Return records of the merged classes in the places of the rows that `cells.read` lists, by their offsets.

    Args:
        sides: Open sides for which `causes.find_causes` has run.
        pipeline: The definition.
        limit: Rows that `cells.read` was asked for.
    """
    classes = ", ".join(literal(str(name)) for name in sides.merged)
    if not classes:
        return ()
    shown = ", ".join(f"l.{column}" for column in ("_class", "_partition", "_offset", "event_time", "_epoch", "reason"))
    keys = ", ".join(f"t.{identifier(name)}" for name in sides.layout.keys)
    order = "l._partition, l._offset, l._class, l._epoch, l.event_time, l.reason"
    query = f"""
        SELECT {keys}, {shown} FROM {cells.listed_sql(sides, limit=limit)} t
        JOIN {SharedTable.LEDGER} l ON {sides.layout.same_place("l", "t")} AND l._class IN ({classes})
        WHERE t.__copy = 1
        QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) <= {OF_A_ROW_AT_MOST}
        ORDER BY {keys}, {order} LIMIT {RECORDS_AT_MOST}
    """
    wide = len(sides.layout.keys)
    return tuple(
        RecordBehind(
            window_start=str(scalar(row[0])),
            key={name: scalar(value) for name, value in zip(pipeline.key, row[1:wide], strict=True)},
            cause=str(row[wide]),
            partition=int(row[wide + 1]),
            offset=int(row[wide + 2]),
            event_time=None if row[wide + 3] is None else str(scalar(row[wide + 3])),
            epoch=int(row[wide + 4]),
            reason=row[wide + 5],
        )
        for row in sides.connection.execute(query).fetchall()
    )
