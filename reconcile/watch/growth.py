"""How fast an epoch log grows, hour by hour, as its own records tell."""

from datetime import datetime
from statistics import median

from cutover.engine import queries
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.tables import delta
from cutover.reconcile.watch.facts import Growth

HOURS = 7 * 24
"""Of the past that is looked at: a week, so that nights and Sundays are in it."""

_BY_HOUR = """
    SELECT floor((? - epoch(TRY_CAST(json_extract_string(_record, '$.processing_time') AS TIMESTAMPTZ))) / 3600) AS ago,
        sum(CAST(json_extract_string(_record, '$.rows') AS BIGINT))
    FROM epochs_by_hour WHERE _record IS NOT NULL GROUP BY ago HAVING ago BETWEEN 0 AND ?"""


def growth(epochs: EpochLog, now: datetime) -> Growth:
    """Return how many rows came in the last hour, and in a usual one of the week before it.

    Args:
        epochs: The log; all of its records are read, those that say when they were written count.
        now: Where the last hour ends.

    Raises:
        LakeError: A file cannot be read.
    """
    with queries.connect() as connection:
        delta.bind(connection, "epochs_by_hour", epochs.table, kinds=(RowKind.EPOCH,))
        with delta.naming(epochs.table):
            rows = connection.execute(_BY_HOUR, [now.timestamp(), HOURS]).fetchall()
    by_hour = {int(ago): int(number) for ago, number in rows if number}
    newest = by_hour.pop(0, 0)
    return Growth(newest=newest, usual=float(median(by_hour.values())) if by_hour else 0.0, hours=len(by_hour))
