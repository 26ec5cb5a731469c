"""Consistency of an epoch log with what was committed to it: transaction, newest row, its commit, and witnesses.

If the last entries of a table's log are deleted, transaction and newest row are both lost without an error. So all
other records of an epoch are read: a note that the driver writes next to the table after each commit, batch runs,
comparisons, and pins. Each is a lower bound of the newest epoch, and the offsets that it names must be those of the
epoch's record.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from deltalake import DeltaTable
from pyarrow import fs

from cutover import files
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, PinEvent
from cutover.lake.tables import delta, delta_log
from cutover.lake.tables.schemas import RowKind
from cutover.log.topic_partitions import format_offsets
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

NOTE = "newest.json"
EpochRowT = TypeVar("EpochRowT", ComparisonRow, PinEvent)
_READABLE = 0o644  # as the files of the table

_RECORDS = f"_kind={RowKind.EPOCH}/"  # folder of the files with epoch records


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Reader or writer that saw an epoch of a version."""

    who: str  # name for messages
    epoch: int
    end: Mapping[int, int] | None = None  # end offsets of the epoch; None: unknown
    table_version: int | None = None  # of the epoch log, when the witness saw the epoch or later


def write_note(version: Version, record: EpochRecord, table_version: int) -> None:
    """Write the newest committed epoch to a note next to the table; a failure is logged, and only weakens the evidence.

    Args:
        version: Version of the epoch log.
        record: Record of the newest epoch.
        table_version: Version of the table after its commit.
    """
    note = {"app_id": version.app_id, "epoch": record.epoch, "end": dict(record.end), "table_version": table_version}
    try:
        _replace(_place(version), json.dumps(note))
    except OSError as error:
        log.warning("epoch_not_noted", pipeline=version.pipeline, epoch=record.epoch, error=str(error))


def list_witnesses(lake: PipelineLake, version: Version) -> tuple[Witness, ...]:
    """List all readers and writers that saw an epoch of a version.

    Raises:
        LakeError: A table of the lake, or the driver's note, cannot be read.
    """
    note = read_note(version)
    return (*(() if note is None else (note,)), *list_recorded_witnesses(lake, version))


def list_recorded_witnesses(lake: PipelineLake, version: Version) -> tuple[Witness, ...]:
    """List the witnesses that tables of the lake record: all except the driver's note.

    Raises:
        LakeError: A table of the lake cannot be read.
    """
    witnesses = [*_read_batch_runs(lake, version), *_read_reconciliations(lake.settings, version)]
    return (*witnesses, *_read_pins(lake.settings, version))


def read_note(version: Version) -> Witness | None:
    """Read the driver's note of the newest epoch; None: it wrote none for this version.

    Raises:
        LakeError: The note cannot be read, so its epoch is unknown.
    """
    system, path = _place(version)
    try:
        if system.get_file_info(path).type is not fs.FileType.File:
            return None
        with system.open_input_stream(path) as stream:
            raw = json.loads(stream.read())
        if raw.get("app_id") != version.app_id:
            return None
        end = {int(p): int(offset) for p, offset in raw["end"].items()}
        epoch, table_version = int(raw["epoch"]), int(raw["table_version"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"File `{path}`: expected the driver's note of the newest epoch as JSON, got another content ({error}). "
        msg += "It is unknown whether the epoch log still has its newest epochs.\n"
        hint = f"Hint: the next epoch writes the note again: `cutover stream {version.pipeline}`."
        raise LakeError(msg + hint, runbook="TableUnreadable") from error
    return Witness(who="the driver's note", epoch=epoch, end=end, table_version=table_version)


def find_contradictions(
    witnesses: Sequence[Witness], records: Sequence[EpochRecord], *, name: str, table_version: int | None
) -> tuple[str, ...]:
    """Return one sentence for each kind of contradiction between witnesses and table: epoch, offsets, table version.

    Args:
        witnesses: The witnesses.
        records: Records of the table: of its newest epoch, or of all epochs.
        name: Name of the epoch log, for messages.
        table_version: Current version of the table; None: not compared.
    """
    newest = records[-1].epoch if records else -1
    ends = {record.epoch: dict(record.end) for record in records}
    ahead = max(witnesses, key=lambda w: w.epoch, default=None)
    texts = []
    if ahead is not None and ahead.epoch > newest:
        texts.append(f"Epoch log of {name}: {ahead.who} saw epoch {ahead.epoch}, newest epoch row is {newest}.")
    differing = next(
        (w for w in witnesses if w.end is not None and dict(w.end) != ends.get(w.epoch, dict(w.end))), None
    )
    if differing is not None:
        texts.append(
            f"Epoch log of {name}: {differing.who} saw epoch {differing.epoch} end at "
            f"{format_offsets(differing.end or {})}, its row says {format_offsets(ends[differing.epoch])}."
        )
    numbered = (w for w in witnesses if w.table_version is not None)
    newer = max(numbered, key=lambda w: w.table_version or 0, default=None)
    if newer is not None and table_version is not None and (newer.table_version or 0) > table_version:
        texts.append(
            f"Epoch log of {name}: {newer.who} saw table version {newer.table_version}, it is {table_version} now."
        )
    return tuple(texts)


def _read_batch_runs(lake: PipelineLake, version: Version) -> Iterator[Witness]:
    for run in batch_runs.read_effective_runs(lake):
        if run.stream_version == version.number:
            yield Witness(who=f"batch run {run.run_id}", epoch=run.epoch, end=dict(run.cut))


def _read_reconciliations(settings: Settings, version: Version) -> Iterator[Witness]:
    for row in _filter_own_rows(Journal(settings, version.pipeline, ComparisonRow).read_available(), version):
        if row.epoch is not None:
            result = _parse_result(row.result)
            # A broken seal may name a table version without its epoch: a damaged log opens at an earlier version.
            table = result.get("tables", {}).get("stream") if result.get("seal", {}).get("holds") else None
            yield Witness(who=f"reconciliation {row.run_id}", epoch=row.epoch, table_version=table)


def _read_pins(settings: Settings, version: Version) -> Iterator[Witness]:
    for row in _filter_own_rows(Journal(settings, version.pipeline, PinEvent).read_available(), version):
        yield Witness(who=f"the pin of {row.holder}", epoch=row.epoch)


def _filter_own_rows(rows: Sequence[EpochRowT], version: Version) -> Iterator[EpochRowT]:
    place = (version.result_fingerprint, version.number)
    return (row for row in rows if (row.result_fingerprint, row.stream_version) == place)


def _place(version: Version) -> tuple[fs.FileSystem, str]:
    system, root = fs.FileSystem.from_uri(version.uri)
    return system, f"{root.rstrip('/').rpartition('/')[0]}/{NOTE}"


def _replace(place: tuple[fs.FileSystem, str], text: str) -> None:
    """Write a small file atomically: readers see the old text or the new one, as in an object store."""
    system, path = place
    if isinstance(system, fs.LocalFileSystem):
        files.write_atomically(Path(path), text, mode=_READABLE)
        return
    with system.open_output_stream(path) as stream:
        stream.write(text.encode())


def _parse_result(text: str) -> dict[str, Any]:
    """Parse the JSON of a comparison; empty if it is not an object."""
    try:
        result = json.loads(text)
    except ValueError:
        return {}
    return result if isinstance(result, dict) else {}


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
    inconsistencies += find_contradictions(
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
