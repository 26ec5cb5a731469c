"""Tables that nobody is served from any more: kept for a way back, and deleted once the policy's time has passed.

Those of a version that another one replaced, of a definition that changed under its name, and of a pipeline whose name
another one serves. Whatever somebody still writes or holds stays. A deletion is a row of the history of versions, in
the turn in which it was decided, so nobody can let such a version serve meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyarrow import fs

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.durations import parse_duration
from cutover.engine import storage
from cutover.lake.control import pins, swaps, versions
from cutover.lake.control.versions import BATCH, Registration
from cutover.lake.paths import BATCH_TABLES
from cutover.lake.tables import delta
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A stream, or the batch tables of a definition, that nobody is served from."""

    fingerprint: str  # of the definition's result
    number: int  # of the version; `versions.BATCH`: the batch tables
    uri: str  # folder
    files: int
    written: datetime | None  # last commit; None: there is no table
    since: datetime  # last commit, or when another one took its place, whichever is later
    held: str | None  # why it stays; None: it may go

    @property
    def text(self) -> str:
        """Return what it is: `stream-0 of 0166ca6291a2`."""
        what = "batch tables" if self.number == BATCH else f"stream-{self.number}"
        return f"{what} of {self.fingerprint}"


def list_unserved(settings: Settings, pipeline: Pipeline, now: datetime) -> list[Unserved]:
    """Return what nobody is served from, by definition and version; what was deleted and is still there too.

    Raises:
        LakeError: A table cannot be read.
    """
    rows = versions.read_registrations(settings, pipeline.name)
    return list(_list(settings, pipeline, rows, now))


def delete_unserved(settings: Settings, pipeline: Pipeline, clock: Clock, *, why: str) -> list[Unserved]:
    """Delete what nobody holds and the policy keeps no longer; the history keeps that it was there.

    Returns:
        What was deleted.

    Raises:
        DefinitionError: The reason is empty or too long.
        LakeError: A table cannot be read or removed, or a version was registered or let serve meanwhile.
    """
    gone: list[Unserved] = []
    while True:  # each in a turn of its own: one row a deletion
        turn = versions.next_turn(settings, pipeline)
        found = list_unserved(settings, pipeline, clock.now())
        going = next((one for one in found if one.held is None and one not in gone), None)
        if going is None:
            return gone
        versions.record_deletion(settings, pipeline, going.fingerprint, going.number, why=why, clock=clock, turn=turn)
        _remove(going)
        gone.append(going)


def _list(settings: Settings, pipeline: Pipeline, rows: list[Registration], now: datetime) -> Iterator[Unserved]:
    served = _find_served(settings, pipeline)
    swapped = swaps.history(settings, pipeline.name)
    replaced = swapped[-1]["at"] if swapped and swapped[-1]["served_by"] != pipeline.name else None
    folder = f"{settings.lake_uri}/{pipeline.name}"
    for fingerprint, number in dict.fromkeys(_list_known(rows)):
        if (fingerprint, number) in served and replaced is None:
            continue
        uri = f"{folder}/{fingerprint}" + ("" if number == BATCH else f"/stream-{number}")
        tables = [f"{uri}/{name}" for name in BATCH_TABLES] if number == BATCH else [f"{uri}/stream"]
        there = [delta.open_table(table) for table in tables if delta.exists(table)]
        if not there:
            continue
        written = max(_read_written(table.history(1)) for table in there)
        ended = replaced or _find_ended(rows, fingerprint, number)
        since = max(written, ended)
        yield Unserved(
            fingerprint=fingerprint,
            number=number,
            uri=uri,
            files=sum(len(table.file_uris()) for table in there),
            written=written,
            since=since,
            held=_find_fork(folder, rows, fingerprint, number)
            or _find_holder(settings, pipeline, fingerprint, number, since=since, now=now),
        )


def _list_known(rows: list[Registration]) -> Iterator[tuple[str, int]]:
    for row in rows:
        yield row.fingerprint, BATCH
        yield row.fingerprint, row.number


def _find_served(settings: Settings, pipeline: Pipeline) -> set[tuple[str, int]]:
    """Return what the definition in force is served from: its batch tables, and the version that serves."""
    current = versions.current(versions.looking_at_served(settings), pipeline)
    own = result_fingerprint(pipeline)
    return {(own, BATCH)} | (set() if current is None else {(own, current.number)})


def _find_ended(rows: list[Registration], fingerprint: str, number: int) -> datetime:
    """Return when another version, or definition, took the place; of one that never served when it was registered."""
    mine = [i for i, row in enumerate(rows) if row.fingerprint == fingerprint and number in {BATCH, row.number}]
    later = [row.at for row in rows[mine[-1] + 1 :] if not row.beside]
    return max([rows[mine[-1]].at, *later[:1]])


def _find_fork(folder: str, rows: list[Registration], fingerprint: str, number: int) -> str | None:
    """Return the fork that is to begin with what a version had, and has not been filled yet."""
    forks = [row.number for row in rows if (row.fingerprint, row.fork) == (fingerprint, number)]
    empty = (one for one in forks if not delta.exists(f"{folder}/{fingerprint}/stream-{one}/stream"))
    return next((f"needed by stream-{one}, which begins with it" for one in empty), None)


def _find_holder(
    settings: Settings, pipeline: Pipeline, fingerprint: str, number: int, *, since: datetime, now: datetime
) -> str | None:
    """Return why something stays; None: nobody holds it, and the policy's time has passed."""
    holders = pins.list_holders(settings, pipeline.name, fingerprint, None if number == BATCH else number, now=now)
    if holders:
        return f"held by {holders[0]}"
    kept = timedelta(microseconds=parse_duration(pipeline.policy.keep_unserved, of="policy.keep_unserved"))
    return None if now - since > kept else f"kept for {pipeline.policy.keep_unserved}"


def _read_written(history: list[dict[str, object]]) -> datetime:
    """Return when the newest commit of a table was made."""
    return datetime.fromtimestamp(int(str(history[0]["timestamp"])) / 1000, UTC)


def _remove(one: Unserved) -> None:
    """Remove the tables, each as a whole; of a folder that is gone already there is nothing to do."""
    folders = [f"{one.uri}/{name}" for name in BATCH_TABLES] if one.number == BATCH else [one.uri]
    for folder in folders:
        system, path = storage.place(folder)
        if system.get_file_info(path).type is not fs.FileType.NotFound:
            system.delete_dir(path)
