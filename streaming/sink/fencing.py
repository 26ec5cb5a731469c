"""The fence's check: a handle must show the history that its next commit continues."""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord, open_log
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.integrity import epoch_history, foreign_commits, high_water, table_weights
from cutover.lake.integrity.high_water import Witness
from cutover.lake.tables import data_files, delta
from cutover.settings import Settings


def read_newest_epoch_record(table: DeltaTable) -> EpochRecord | None:
    """Return the newest epoch's record, from the one file that holds it; None before the first epoch.

    Raises:
        LakeError: The file is not there or does not parse.
    """
    files = [a for a in delta.actions(table) if a["partition._kind"] == RowKind.EPOCH]
    if not files:
        return None
    file = max(files, key=lambda a: int(str(a["max._epoch"])))
    record = read_record(table, str(file["path"]))
    if record is None:
        msg = f"Table `{table.table_uri}`: file `{file['path']}` should hold an epoch's record and holds none."
        raise LakeError(msg, runbook="EpochHistoryBroken")
    return record


def read_record(table: DeltaTable, path: str) -> EpochRecord | None:
    """Read one data file's rows for the newest epoch record; None of a file without rows.

    Raises:
        LakeError: The file is not there or does not parse.
    """
    try:
        rows = data_files.read(table, path, ("_epoch", "_record")).to_pylist()
    except (OSError, pa.ArrowException) as error:
        cause = str(error).splitlines()[0]
        msg = f"Table `{table.table_uri}`: file `{path}` is listed and cannot be read: {cause}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    newest_row = max(rows, key=lambda row: int(row["_epoch"]), default=None)
    return None if newest_row is None else EpochRecord.from_json(newest_row["_record"])


def open_checked(
    settings: Settings, pipeline: Pipeline, version: Version
) -> tuple[DeltaTable, EpochRecord | None] | tuple[None, None]:
    """Return a version's epoch log and its newest record, checked; nothing where none was ever made.

    A note of the driver that cannot be read is a witness less: the next epoch writes it again. Where the table is not
    there either, nothing else may have seen it, and the version is not begun once more.

    Raises:
        LakeError: It is not there though a reader saw epochs of it, cannot be read, or was changed by hand.
    """
    # The high-water note is read before the table is opened: another driver may commit in between.
    try:
        witnesses = high_water.list_witnesses(settings, pipeline, version)
    except LakeError as error:
        if not delta.exists(version.uri):
            raise
        log.warning("epoch_note_unreadable", pipeline=version.pipeline, error=str(error).splitlines()[0])
        witnesses = high_water.list_recorded(settings, pipeline, version)
    if not (witnesses or delta.exists(version.uri)):
        return None, None
    table_weights.check_not_removed(settings, pipeline, version)
    table = open_log(version.uri)
    return table, check_fencing(table, version, witnesses)


def check_fencing(table: DeltaTable, version: Version, witnesses: Sequence[Witness] = ()) -> EpochRecord | None:
    """Return the newest epoch's record if nothing contradicts what a handle shows.

    Args:
        table: The handle.
        version: Whose epoch log.
        witnesses: Who saw which epoch, gathered before the handle was opened.

    Raises:
        LakeError: Something other than a driver changed the table.
    """
    record = read_newest_epoch_record(table)
    inconsistencies = epoch_history.find_inconsistencies(version, table, [] if record is None else [record], witnesses)
    if inconsistencies:
        hint = "\nHint: a person or a tool restored or changed the table; nothing is written until it is repaired, or "
        hint += f"`cutover accept-loss {version.pipeline}` leaves it as it is and reads the log into a new version."
        raise LakeError(inconsistencies[0] + hint, runbook="EpochHistoryBroken")
    foreign_commits.reject_foreign_change(
        table,
        0 if record is None else int(record.files, 16),
        otherwise=f"`cutover accept-loss {version.pipeline}` leaves it as it is and reads the log into a new version",
    )
    return record
