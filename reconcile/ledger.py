"""The stream's ledger, questioned: a record is believed to be late only if position, epoch and watermark bear it out.

Makes the temporary tables `ledger` (one row per record and window: `_class`, `_epoch`, window, keys, `_partition`,
`_offset`, `event_time`, `reason`), `ledger_keys` (records by class, window and key), `doubtful` (window, key and why).
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Sequence

import pyarrow as pa

from cutover.definition.pipeline import Pipeline
from cutover.lake.epochs import EpochRecord
from reconcile.sides import Sides, key_columns

_POSITIONS = """
    CREATE TEMP TABLE ledger AS
    SELECT _class, _epoch, {keys}, position.partition AS _partition, position."offset" AS _offset,
           position.event_time AS event_time, position.reason AS reason
    FROM (SELECT _class, _epoch, {keys}, unnest(_positions) AS position FROM stream_log WHERE _positions IS NOT NULL)
"""
_DOUBTS = {
    "the ledger counts other records than it lists": """
        SELECT {keys} FROM stream_log
        WHERE _class IN ('late', 'future') AND _n IS DISTINCT FROM coalesce(len(_positions), 0)
    """,
    "a record stands in the ledger twice": """
        SELECT {keys} FROM ledger WHERE window_start IS NOT NULL
        QUALIFY count(*) OVER (PARTITION BY _partition, _offset, window_start) > 1
    """,
    "a record lies outside the offsets of its epoch": """
        SELECT {keys} FROM ledger l WHERE window_start IS NOT NULL AND NOT EXISTS (SELECT 1 FROM epoch_offsets o
        WHERE o.epoch = l._epoch AND o.partition = l._partition AND l._offset >= o.first AND l._offset < o.next)
    """,
    "a record is called late before its window had closed": """
        SELECT {keys} FROM ledger l WHERE _class = 'late' AND NOT EXISTS (SELECT 1 FROM epoch_watermarks w
        WHERE w.epoch = l._epoch AND epoch_us(l.window_start) + {wait} <= w.watermark)
    """,
    "a record's event time lies outside its window": """
        SELECT {keys} FROM ledger WHERE window_start IS NOT NULL AND NOT coalesce(
        event_time >= window_start AND epoch_us(event_time) < epoch_us(window_start) + {size}, false)
    """,
}


def question(sides: Sides, pipeline: Pipeline, records: Sequence[EpochRecord]) -> tuple[str, ...]:
    """Make the ledger's tables and return a note for each kind of doubt that was found.

    Args:
        sides: Open sides; `stream_log` is bound.
        pipeline: The definition, for the windows' size and allowed lateness.
        records: All epochs up to the cut.
    """
    connection, keys = sides.connection, key_columns(sides.layout)
    connection.register("epoch_offsets", _offsets(records))
    connection.register("epoch_watermarks", _watermarks(records))
    connection.execute(_POSITIONS.format(keys=keys))
    connection.execute(
        f"CREATE TEMP TABLE ledger_keys AS SELECT _class, {keys}, count(*) AS records FROM ledger"
        f" WHERE window_start IS NOT NULL GROUP BY ALL"
    )
    size = pipeline.window.size
    wait = size + pipeline.lateness.allowed_micros
    doubts = [
        f"SELECT *, '{why.replace(chr(39), chr(39) * 2)}' AS why FROM ({query.format(keys=keys, size=size, wait=wait)})"
        for why, query in _DOUBTS.items()
    ]
    connection.execute(f"CREATE TEMP TABLE doubtful AS {' UNION ALL '.join(doubts)}")
    found = connection.execute("SELECT why, count(*) FROM doubtful GROUP BY 1 ORDER BY 1").fetchall()
    return tuple(f"The stream's ledger is in doubt: {why} ({count} rows)." for why, count in found)


def _offsets(records: Sequence[EpochRecord]) -> pa.Table:
    rows = [
        {"epoch": record.epoch, "partition": partition, "first": record.start.get(partition, 0), "next": end}
        for record in records
        for partition, end in record.end.items()
    ]
    fields = [pa.field(name, pa.int64()) for name in ("epoch", "partition", "first", "next")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _watermarks(records: Sequence[EpochRecord]) -> pa.Table:
    rows = [{"epoch": record.epoch, "watermark": record.watermark_before} for record in records]
    return pa.Table.from_pylist(rows, schema=pa.schema([pa.field(n, pa.int64()) for n in ("epoch", "watermark")]))
