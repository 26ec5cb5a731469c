"""Records of the ledger that cause the rows listed in a report, by partition and offset."""

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


def read_records_behind(sides: Sides, pipeline: Pipeline, *, limit: int) -> tuple[RecordBehind, ...]:
    """Read the records of the merged classes for the rows that `cells.read` lists, by offset.

    Args:
        sides: Open sides for which `causes.find_causes` has run.
        pipeline: The definition.
        limit: Maximum number of rows, as for `cells.read`.
    """
    classes = ", ".join(literal(str(name)) for name in sides.merged)
    if not classes:
        return ()
    record_columns = ", ".join(
        f"l.{column}" for column in ("_class", "_partition", "_offset", "event_time", "_epoch", "reason")
    )
    keys = ", ".join(f"t.{identifier(name)}" for name in sides.layout.keys)
    order = "l._partition, l._offset, l._class, l._epoch, l.event_time, l.reason"
    query = f"""
        SELECT {keys}, {record_columns} FROM {cells.listed_sql(sides, limit=limit)} t
        JOIN {SharedTable.LEDGER} l ON {sides.layout.same_place("l", "t")} AND l._class IN ({classes})
        WHERE t.__copy = 1
        QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) <= {OF_A_ROW_AT_MOST}
        ORDER BY {keys}, {order} LIMIT {RECORDS_AT_MOST}
    """
    key_width = len(sides.layout.keys)
    return tuple(
        RecordBehind(
            window_start=str(scalar(row[0])),
            key={name: scalar(value) for name, value in zip(pipeline.key, row[1:key_width], strict=True)},
            cause=str(row[key_width]),
            partition=int(row[key_width + 1]),
            offset=int(row[key_width + 2]),
            event_time=None if row[key_width + 3] is None else str(scalar(row[key_width + 3])),
            epoch=int(row[key_width + 4]),
            reason=row[key_width + 5],
        )
        for row in sides.connection.execute(query).fetchall()
    )
