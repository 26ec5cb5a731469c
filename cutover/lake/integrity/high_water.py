"""What is known of an epoch log from outside its table: the least that its newest epoch can be, whoever kept it.

Transaction and newest row go back together, without an error, when the last entries of a table's log are deleted. So
everything else that ever named an epoch is asked: a note that the driver leaves beside the table after each commit,
batch runs, reconciliations, pins. Each is a lower bound; the offsets it names must be those of the epoch's record.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyarrow import fs

from cutover import files
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, PinEvent
from cutover.log.topic_partitions import format_offsets
from cutover.settings import Settings

NOTE = "newest.json"
EpochRowT = TypeVar("EpochRowT", ComparisonRow, PinEvent)
_READABLE = 0o644  # as the table beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A reader or writer that saw an epoch of a version."""

    who: str  # as a message names it
    epoch: int
    end: Mapping[int, int] | None = None  # where it ended; None: not known
    table_version: int | None = None  # of the epoch log, as it was then or later


def keep(version: Version, record: EpochRecord, table_version: int) -> None:
    """Note the newest committed epoch beside the table; a note that cannot be written is a weaker witness, no failure.

    Args:
        version: Whose epoch log.
        record: Of the newest epoch.
        table_version: Of the epoch log after its commit.
    """
    said = {"app_id": version.app_id, "epoch": record.epoch, "end": dict(record.end), "table_version": table_version}
    try:
        _replace(_place(version), json.dumps(said))
    except OSError as error:
        log.warning("epoch_not_noted", pipeline=version.pipeline, epoch=record.epoch, error=str(error))


def all_of(settings: Settings, pipeline: Pipeline, version: Version) -> tuple[Witness, ...]:
    """Return everybody who saw an epoch of a version.

    Raises:
        LakeError: A table of the lake, or the driver's note, cannot be read.
    """
    note = read_note(version)
    return (*(() if note is None else (note,)), *list_recorded(settings, pipeline, version))


def list_recorded(settings: Settings, pipeline: Pipeline, version: Version) -> tuple[Witness, ...]:
    """Return the witnesses that tables of the lake record: all but the driver's note.

    Raises:
        LakeError: A table of the lake cannot be read.
    """
    found = [*_read_batch_runs(settings, pipeline, version), *_read_reconciliations(settings, version)]
    return (*found, *_read_pins(settings, version))


def read_note(version: Version) -> Witness | None:
    """Return what the driver noted of the newest epoch; None: it noted nothing of this version.

    Raises:
        LakeError: The note cannot be read, so what it witnessed is not known.
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
        epoch, at = int(raw["epoch"]), int(raw["table_version"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"File `{path}`: expected the driver's note of the newest epoch as JSON, got another content ({error}). "
        msg += "Whether the epoch log still has its newest epochs is not known.\n"
        hint = f"Hint: the next epoch writes the note again: `cutover stream {version.pipeline}`."
        raise LakeError(msg + hint, runbook="TableUnreadable") from error
    return Witness(who="the driver's note", epoch=epoch, end=end, table_version=at)


def contradictions(
    witnesses: Sequence[Witness], records: Sequence[EpochRecord], *, name: str, table_version: int | None
) -> tuple[str, ...]:
    """Return a sentence for each kind of thing that a reader saw and the table no longer shows.

    Args:
        witnesses: The witnesses.
        records: What the table shows: its newest epoch, or all of them.
        name: Of the epoch log, for messages.
        table_version: Of the table now; None: not to be compared.
    """
    newest = records[-1].epoch if records else -1
    ends = {record.epoch: dict(record.end) for record in records}
    ahead = max(witnesses, key=lambda w: w.epoch, default=None)
    texts = []
    if ahead is not None and ahead.epoch > newest:
        texts.append(f"Epoch log of {name}: {ahead.who} saw epoch {ahead.epoch}, newest epoch row is {newest}.")
    moved = next((w for w in witnesses if w.end is not None and dict(w.end) != ends.get(w.epoch, dict(w.end))), None)
    if moved is not None:
        texts.append(
            f"Epoch log of {name}: {moved.who} saw epoch {moved.epoch} end at {format_offsets(moved.end or {})}, "
            f"its row says {format_offsets(ends[moved.epoch])}."
        )
    later = max((w for w in witnesses if w.table_version is not None), key=lambda w: w.table_version or 0, default=None)
    if later is not None and table_version is not None and (later.table_version or 0) > table_version:
        texts.append(
            f"Epoch log of {name}: {later.who} saw table version {later.table_version}, it is {table_version} now."
        )
    return tuple(texts)


def _read_batch_runs(settings: Settings, pipeline: Pipeline, version: Version) -> Iterator[Witness]:
    for run in batch_runs.runs(settings, pipeline):
        if run.stream_version == version.number:
            yield Witness(who=f"batch run {run.run_id}", epoch=run.epoch, end=dict(run.cut))


def _read_reconciliations(settings: Settings, version: Version) -> Iterator[Witness]:
    for row in _filter_own_rows(Journal(settings, version.pipeline, ComparisonRow).read_available(), version):
        if row.epoch is not None:
            result = _json(row.result)
            # A broken seal names a table that need not hold its epoch: a damaged log opens at an earlier version.
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
    """Write a small file so that its readers see the old text or the new one; a store does that by itself."""
    system, path = place
    if isinstance(system, fs.LocalFileSystem):
        files.write(Path(path), text, mode=_READABLE)
        return
    with system.open_output_stream(path) as stream:
        stream.write(text.encode())


def _json(text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
