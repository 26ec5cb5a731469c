"""Free disk space, and the growth of an epoch log in rows and bytes."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.tables import delta
from cutover.reconcile.watch.facts import RowGrowth, compute_epoch_ages
from cutover.settings import Settings

HOURS = 7 * 24
"""Hours before the last one that define a usual hour: a week, so that nights and Sundays are included."""

EPOCHS, SECONDS = 10, 300.0
"""A disk must have room for the growth of this many epochs, and of this much time."""

_ROWS_BY_HOUR = """
    SELECT floor((? - epoch(TRY_CAST(json_extract_string(_record, '$.processing_time') AS TIMESTAMPTZ))) / 3600) AS ago,
        sum(CAST(json_extract_string(_record, '$.rows') AS BIGINT))
    FROM epochs_by_hour WHERE _record IS NOT NULL GROUP BY ago HAVING ago BETWEEN 0 AND ?"""


def measure_row_growth(epoch_log: EpochLog, now: datetime) -> RowGrowth:
    """Measure the rows added in the last hour, and in a usual hour of the week before it.

    Args:
        epoch_log: All of its epochs are read; those with a time count.
        now: End of the last hour.

    Raises:
        LakeError: A file cannot be read.
    """
    with queries.connect() as connection:
        delta.bind(connection, "epochs_by_hour", epoch_log.table, kinds=(RowKind.EPOCH,))
        with delta.naming(epoch_log.table):
            result = connection.execute(_ROWS_BY_HOUR, [now.timestamp(), HOURS]).fetchall()
    rows_by_hour = {int(hours_ago): int(rows) for hours_ago, rows in result if rows}
    last_hour = rows_by_hour.pop(0, 0)
    usual = float(median(rows_by_hour.values())) if rows_by_hour else 0.0
    return RowGrowth(last_hour=last_hour, usual=usual, hours=len(rows_by_hour))


def sum_recent_bytes(epoch_log: EpochLog, epochs: Sequence[EpochRecord], now: datetime) -> int:
    """Sum the sizes of the files that the newest epochs added to a local table; zero for an object store."""
    if not epochs or delta.local_root(epoch_log.table) is None:
        return 0
    recent = [number for number, age in compute_epoch_ages(epochs, None, now).items() if age < SECONDS]
    first_epoch = min([epochs[-1].epoch + 1 - EPOCHS, *recent])
    return sum(size for newest, size in _list_files(epoch_log) if newest >= first_epoch)


def _list_files(epoch_log: EpochLog) -> Iterator[tuple[int, int]]:
    """Yield the newest epoch and the size of each file of an epoch log."""
    for action in delta.actions(epoch_log.table):
        newest = action.get("max._epoch")
        yield -1 if newest is None else int(newest), int(action["size_bytes"])


def measure_free_bytes(settings: Settings) -> Mapping[str, int]:
    """Measure the free bytes for the lake, temporary files of Spark, run-time files and reports, by place.

    Raises:
        LakeError: The free space of a place cannot be read.
    """
    places = {
        "lake": settings.lake_uri,
        "home": str(settings.home.resolve()),
        "temporary files of Spark": str(settings.home.resolve() / "tmp" / "spark"),
        "run-time files": str(settings.run_dir),
        "reports": str(settings.reports_dir),
    }
    try:
        folders = {name: place for name, place in places.items() if "://" not in place and Path(place).is_dir()}
        return {name: shutil.disk_usage(folder).free for name, folder in folders.items()}
    except OSError as error:
        msg = f"Free space: expected folders whose free space can be read, got: {error}."
        raise LakeError(msg, runbook="DiskHeadroomLow") from error
