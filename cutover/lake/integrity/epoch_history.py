"""Consistency of an epoch log with what was committed to it: transaction, newest row, its commit, and witnesses."""

from collections.abc import Iterator, Sequence

from deltalake import DeltaTable

from cutover.errors import LakeError
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.integrity import high_water
from cutover.lake.integrity.high_water import Witness
from cutover.lake.tables import delta, delta_log

_RECORDS = f"_kind={RowKind.EPOCH}/"  # folder of the files with epoch records


def find_inconsistencies(
    version: Version, table: DeltaTable, records: Sequence[EpochRecord], witnesses: Sequence[Witness] = ()
) -> tuple[str, ...]:
    """Return one sentence for each contradiction between an epoch log and the other evidence about it.

    Args:
        version: Version whose epoch log is checked.
        table: The handle.
        records: Records that the handle shows: of its newest epoch only, or of all epochs.
        witnesses: Witnesses of its epochs, collected before the handle was opened; see `high_water`.
    """
    inconsistencies = [*_compare_transaction(version, table, records), *_compare_commit(version, table, records)]
    inconsistencies += high_water.find_contradictions(
        witnesses, records, name=version.pipeline, table_version=int(table.version())
    )
    return tuple(inconsistencies)


def _compare_transaction(version: Version, table: DeltaTable, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Compare the transaction with the newest row: a restore removes rows and leaves the transaction."""
    transaction = delta.transaction(table, version.app_id)
    newest = records[-1].epoch if records else None
    if transaction != newest:
        yield (
            f"Epoch log of {version.pipeline}: transaction says {_or_none(transaction)}, newest epoch row is "
            f"{_or_none(newest)} ({version.uri}, table version {table.version()})."
        )


def _compare_commit(version: Version, table: DeltaTable, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Compare the newest row with the commit that added it, if the log still has that commit."""
    for number, entry in delta_log.entries(version.uri):
        if number > table.version() or not _adds_records(entry):
            continue
        metadata = delta_log.info(entry).get("userMetadata")
        transactions = [action["txn"] for action in entry if "txn" in action]
        newest = records[-1] if records else None
        epoch = None if newest is None else newest.epoch
        is_own = any((txn["appId"], txn["version"]) == (version.app_id, epoch) for txn in transactions)
        if newest is None or not is_own or not _is_record(metadata, newest):
            contradiction = "added another one" if metadata else "does not record it"
            place = f"`{delta_log.file_of(number)}` {contradiction} ({version.uri})"
            yield f"Epoch log of {version.pipeline}: newest epoch row is {_or_none(epoch)}, {place}."
        return


def _is_record(metadata: str | None, record: EpochRecord) -> bool:
    """Return whether the metadata of a commit is a record; texts may differ if an older release wrote fewer fields."""
    try:
        return EpochRecord.from_json(metadata or "") == record
    except LakeError:
        return False


def _adds_records(entry: delta_log.Entry) -> bool:
    """Return whether a commit added an epoch's record: neither a fold nor a foreign rewrite, which change no data."""
    added = (action["add"] for action in entry if "add" in action)
    return any(add["path"].startswith(_RECORDS) and add["dataChange"] for add in added)


def _or_none(number: int | None) -> str:
    return "none" if number is None else str(number)
