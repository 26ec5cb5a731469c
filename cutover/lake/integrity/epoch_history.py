"""Whether an epoch log still shows what was committed to it: transaction, newest row, its commit, and who saw it."""

from collections.abc import Iterator, Sequence

from deltalake import DeltaTable

from cutover.errors import LakeError
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.integrity import high_water
from cutover.lake.integrity.high_water import Witness
from cutover.lake.tables import delta, delta_log

_RECORDS = f"_kind={RowKind.EPOCH}/"  # where a commit's record lies


def find_inconsistencies(
    version: Version, table: DeltaTable, records: Sequence[EpochRecord], witnesses: Sequence[Witness] = ()
) -> tuple[str, ...]:
    """Return a sentence for everything that contradicts what a handle shows.

    Args:
        version: Whose epoch log.
        table: The handle.
        records: What it shows: its newest epoch alone, or all of them.
        witnesses: Who saw which epoch, gathered before the handle was opened; see `witnesses`.
    """
    inconsistencies = [*_rows(version, table, records), *_commit(version, table, records)]
    inconsistencies += high_water.contradictions(
        witnesses, records, name=version.pipeline, table_version=int(table.version())
    )
    return tuple(inconsistencies)


def _rows(version: Version, table: DeltaTable, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Compare the transaction with the newest row: a restore takes rows back and leaves the transaction."""
    transaction = delta.transaction(table, version.app_id)
    known = records[-1].epoch if records else None
    if transaction != known:
        yield (
            f"Epoch log of {version.pipeline}: transaction says {_or_none(transaction)}, newest epoch row is "
            f"{_or_none(known)} ({version.uri}, table version {table.version()})."
        )


def _commit(version: Version, table: DeltaTable, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Compare the newest row with the commit that brought it, if no clean-up has taken that away."""
    for number, entry in delta_log.entries(version.uri):
        if number > table.version() or not _brings_records(entry):
            continue
        said = delta_log.info(entry).get("userMetadata")
        carried = [action["txn"] for action in entry if "txn" in action]
        newest = records[-1] if records else None
        known = None if newest is None else newest.epoch
        mine = any((txn["appId"], txn["version"]) == (version.app_id, known) for txn in carried)
        if newest is None or not mine or not _is_said(newest, said):
            what = "brought another one" if said else "says nothing of it"
            place = f"`{delta_log.file_of(number)}` {what} ({version.uri})"
            yield f"Epoch log of {version.pipeline}: newest epoch row is {_or_none(known)}, {place}."
        return


def _is_said(record: EpochRecord, said: str | None) -> bool:
    """Return whether a commit's words are a record; texts differ where an older release wrote fewer fields."""
    try:
        return EpochRecord.from_json(said or "") == record
    except LakeError:
        return False


def _brings_records(entry: delta_log.Entry) -> bool:
    """Return whether a commit added an epoch's record: neither a fold nor a rewrite by hand, which change no data."""
    added = (action["add"] for action in entry if "add" in action)
    return any(add["path"].startswith(_RECORDS) and add["dataChange"] for add in added)


def _or_none(number: int | None) -> str:
    return "none" if number is None else str(number)
