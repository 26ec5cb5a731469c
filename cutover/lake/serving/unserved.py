"""Tables that nobody is served from any more: kept for a way back, and deleted once the policy's time has passed.

Those of a version that another one replaced, of a definition that changed under its name, and of a pipeline whose name
another one serves. What belongs together stays together: all tables of a definition have one age. Whatever somebody
still writes or holds stays, and everything does where nothing stands in its place, or where only this host's clock says
that the time has passed. A deletion is a row of the history
of versions, in the turn in which it was decided; who serves is looked at once more before anything is removed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable
from pyarrow import fs

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import read_driver_state
from cutover.durations import parse_duration
from cutover.engine import storage
from cutover.errors import CutoverError, LakeError
from cutover.lake.control import pins, swaps, versions
from cutover.lake.control.versions import BATCH, Registration
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, GateEvent, PinEvent
from cutover.lake.paths import BATCH_TABLES
from cutover.lake.serving.earlier_versions import list_earlier
from cutover.lake.shown_definition import resolve_definition
from cutover.lake.tables import delta
from cutover.settings import Settings

_NOTHING_STANDS = "nothing with an epoch serves in its place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A stream, or the batch tables of a definition, that nobody is served from."""

    fingerprint: str  # of the definition's result
    number: int  # of the version; `versions.BATCH`: the batch tables
    uri: str  # folder
    files: int  # that are listed
    since: datetime  # last commit to tables of the definition, or when another took its place, whichever is later
    held: str | None  # why it stays; None: it may go

    @property
    def text(self) -> str:
        """Return what it is: `stream-0 of 0166ca6291a2`."""
        what = "batch tables" if self.number == BATCH else f"stream-{self.number}"
        return f"{what} of {self.fingerprint}"

    @property
    def folders(self) -> list[str]:
        """Return the folders that go: of a batch path the index first, without which the others are none of its."""
        names = sorted(BATCH_TABLES, key=lambda name: (name != "batch_index", name))
        return [f"{self.uri}/{name}" for name in names] if self.number == BATCH else [self.uri]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """What is there of a version, or of a batch path."""

    files: int
    written: datetime | None  # last commit; None: no table can be read
    trouble: str | None  # why one cannot be read


def list_unserved(settings: Settings, pipeline: Pipeline, now: datetime) -> list[Unserved]:
    """Return what nobody is served from, by definition and version; also what a deletion that was killed has left.

    Raises:
        LakeError: The history cannot be read.
    """
    return list(_list(versions.looking_at_served(settings), pipeline, now))


def delete_unserved(settings: Settings, pipeline: Pipeline, clock: Clock, *, why: str) -> list[Unserved]:
    """Delete what nobody holds and the policy keeps no longer; the history keeps that it was there.

    Returns:
        What was deleted.

    Raises:
        DefinitionError: The reason is empty or too long.
        LakeError: A table cannot be removed, or a version was registered or let serve meanwhile.
    """
    gone: list[Unserved] = []
    while True:  # each in a turn of its own: one row a deletion
        sequence = versions.next_sequence(settings, pipeline)
        unserved = list_unserved(settings, pipeline, clock.now())
        going = next((one for one in unserved if one.held is None and one.uri not in {each.uri for each in gone}), None)
        if going is None:
            return gone
        place = (pipeline.name, going.fingerprint, going.number)
        versions.record_deletion(settings, *place, why=why, clock=clock, expected_sequence=sequence)
        try:
            is_wanted = _is_wanted_again(settings, pipeline, going, clock.now())
        except BaseException:
            versions.undo_deletion(settings, *place, clock)
            raise
        if is_wanted:  # one's own row alone: a deletion that was killed before stands
            versions.undo_deletion(settings, *place, clock)
            return gone
        for folder in going.folders:
            _remove(folder)
        gone.append(going)


def _is_wanted_again(settings: Settings, pipeline: Pipeline, going: Unserved, now: datetime) -> bool:
    """Look once more, behind the row: whether a name was swapped back, or an epoch pinned, since it was decided."""
    again = [one for one in list_unserved(settings, pipeline, now) if one.uri == going.uri]
    if not again:  # it serves; or another process has removed it
        return any(map(_is_there, going.folders))
    return again[0].held is not None


def _list(settings: Settings, pipeline: Pipeline, now: datetime) -> Iterator[Unserved]:
    rows = versions.read_registrations(settings, pipeline.name)
    serves = swaps.served_by(settings, pipeline.name)
    replaced = swaps.history(settings, pipeline.name)[-1].at if serves != pipeline.name else None
    served = _find_served(settings, pipeline) if replaced is None else set()
    folder = f"{settings.lake_uri}/{pipeline.name}"
    there = {place: _look(folder, *place) for place in dict.fromkeys(_list_places(rows)) if place not in served}
    stands, shown = _stands(settings, pipeline, serves), find_shown_time(settings, {pipeline.name, serves}, now)
    for (fingerprint, number), tables in there.items():
        if tables is None:
            continue
        together = [each for place, each in there.items() if each and (replaced or place[0] == fingerprint)]
        ends = [each.written for each in together if each.written is not None]
        since = max([*ends, replaced or _find_ended(rows, fingerprint, number)])
        holder = _find_holder(settings, pipeline, fingerprint, number, since=since, now=now, shown=shown)
        deleted = versions.find_deletion(settings, pipeline.name, fingerprint, number)
        begun = max(row.sequence for row in rows if row.fingerprint == fingerprint)
        trouble = (
            None if deleted is not None and deleted.sequence > begun else tables.trouble
        )  # half of it is gone already
        needed = trouble or _find_fork(folder, rows, fingerprint, number)
        yield Unserved(
            fingerprint=fingerprint,
            number=number,
            uri=_uri(folder, fingerprint, number),
            files=tables.files,
            since=since,
            held=needed or (holder if stands else _NOTHING_STANDS),
        )


def _list_places(rows: list[Registration]) -> Iterator[tuple[str, int]]:
    for row in rows:
        yield row.fingerprint, BATCH
        yield row.fingerprint, row.number


def _uri(folder: str, fingerprint: str, number: int) -> str:
    return f"{folder}/{fingerprint}" + ("" if number == BATCH else f"/stream-{number}")


def _look(folder: str, fingerprint: str, number: int) -> _Tables | None:
    """Return what is there; None: nothing is, not even what a deletion that was killed left of a folder."""
    uri = _uri(folder, fingerprint, number)
    places = [f"{uri}/{name}" for name in BATCH_TABLES] if number == BATCH else [f"{uri}/stream"]
    folders = [place for place in places if _is_there(place)]
    if not folders:
        return None
    files, written = 0, []
    for place in folders:
        try:
            if delta.exists(place):
                table = delta.open_table(place)
                files += len(table.file_uris())
                written.append(_read_written(table))
        except CutoverError as error:
            return _Tables(files=files, written=None, trouble=f"cannot be read: {error.text.splitlines()[0]}")
    return _Tables(files=files, written=max(written, default=None), trouble=None)


def _is_there(folder: str) -> bool:
    system, path = storage.place(folder)
    return bool(system.get_file_info(path).type is not fs.FileType.NotFound)


def _read_written(table: DeltaTable) -> datetime:
    """Return when the newest commit of a table was made.

    Raises:
        LakeError: Its entry is damaged.
    """
    newest = next(delta.history(table), None)
    if newest is None:
        msg = f"Table `{table.table_uri}`: expected the entry of its newest version, got none that can be read."
        raise LakeError(msg, runbook="TableUnreadable")
    return datetime.fromtimestamp(int(str(newest["timestamp"])) / 1000, UTC)


def _stands(settings: Settings, pipeline: Pipeline, serves: str) -> bool:
    """Return whether what serves the name has an epoch: before that what was served last is all there is."""
    try:
        follower = pipeline if serves == pipeline.name else resolve_definition(settings, serves).pipeline
        version = versions.current(settings, follower)
        return version is not None and delta.exists(version.uri) and bool(EpochLog(version.uri).records())
    except CutoverError:
        return False


def _find_served(settings: Settings, pipeline: Pipeline) -> set[tuple[str, int]]:
    """Return what the definition in force is served from: its batch tables, the version that serves, lost windows."""
    current = versions.current(settings, pipeline)
    own = result_fingerprint(pipeline)
    streams = [] if current is None else [current, *list_earlier(settings, pipeline, current)]
    return {(own, BATCH), *((own, version.number) for version in streams)}


def _find_ended(rows: list[Registration], fingerprint: str, number: int) -> datetime:
    """Return when another version, or definition, took the place; of one that never served when it was registered."""
    mine = [i for i, row in enumerate(rows) if row.fingerprint == fingerprint and number in {BATCH, row.number}]
    later = [row.at for row in rows[mine[-1] + 1 :] if not row.beside]
    return max([rows[mine[-1]].at, *later[:1]])


def _find_fork(folder: str, rows: list[Registration], fingerprint: str, number: int) -> str | None:
    """Return the fork that is to begin with what a version had, and has not been filled yet."""
    forks = (row for row in rows if (row.fingerprint, row.fork) == (fingerprint, number) and not row.deleted)
    for fork in forks:
        uri = f"{_uri(folder, fingerprint, fork.number)}/stream"
        try:
            is_empty = not delta.exists(uri) or not EpochLog(uri).records()
        except CutoverError:
            return f"stream-{fork.number}, which begins with it, cannot be read"
        if is_empty:
            return f"needed by stream-{fork.number}, which begins with it"
    return None


def find_shown_time(settings: Settings, names: Collection[str], now: datetime) -> datetime | None:
    """Return the newest time, not beyond now, at which anything of some pipelines was recorded; None: nothing was.

    Raises:
        LakeError: A history cannot be read.
    """
    times: list[datetime] = []
    for name in names:
        times += [registration.at for registration in versions.read_registrations(settings, name)]
        times += [pin.at for pin in Journal(settings, name, PinEvent).read_available()]
        times += [comparison.at for comparison in Journal(settings, name, ComparisonRow).read_available()]
        times += [move.at for move in Journal(settings, name, GateEvent).read_available()]
    return max((at for at in times if at <= now), default=None)


def _find_holder(  # noqa: PLR0913 -- what is held, and three times
    settings: Settings,
    pipeline: Pipeline,
    fingerprint: str,
    number: int,
    *,
    since: datetime,
    now: datetime,
    shown: datetime | None,
) -> str | None:
    """Return why something stays; None: nobody holds it, and the policy's time has passed."""
    holders = pins.list_holders(settings, pipeline.name, fingerprint, None if number == BATCH else number, now=now)
    if holders:
        return f"held by {holders[0]}"
    beside = f"{pipeline.name}.stream-{number}"
    if swaps.served_by(settings, pipeline.name) != pipeline.name and read_driver_state(settings, pipeline.name).alive:
        return f"the driver of {pipeline.name} is at work"
    if read_driver_state(settings, beside).alive:
        return f"the driver of {beside} is at work"
    kept = timedelta(microseconds=parse_duration(pipeline.policy.keep_unserved, of="policy.keep_unserved"))
    if now - since <= kept:
        return f"kept for {pipeline.policy.keep_unserved}"
    is_shown = shown is not None and shown - since > kept
    return None if is_shown else f"kept until something is recorded behind {since + kept:%Y-%m-%d %H:%M} UTC"


def _remove(folder: str) -> None:
    """Remove a folder of tables; one that is gone already is no trouble.

    Raises:
        LakeError: The storage does not let it go.
    """
    system, path = storage.place(folder)
    try:
        if _is_there(folder):
            system.delete_dir(path)
    except OSError as error:
        msg = f"Tables `{folder}`: expected a place where they can be removed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg + "\nHint: the same command again removes the rest.", runbook="TableUnreadable") from error
