"""Deletion of what no reader needs: files that no recent version lists, and tables that no longer serve any reader.

Vacuum deletes files that no version of the last hours lists, unless a version that a reader holds needs them.

Unserved tables belong to a version that another one replaced, to a definition that changed under its name, or to a
pipeline whose name another one serves. They are retained so that the change can be rolled back, and deleted when the
policy allows. All tables of a definition have one age, so that they are deleted together. Tables that are written or
held are retained; so are all tables while their replacement has no epoch, or until both an epoch of the replacement and
another record show that the time has passed, so that one host whose clock is ahead deletes nothing. A deletion is a row
in the history of versions, appended under the sequence at which it was decided; the serving version is read again
before anything is removed.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.driver_state import read_driver_state
from cutover.engine import storage
from cutover.errors import CutoverError, LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import pins, served, versions
from cutover.lake.control.versions import BATCH, Registration
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, GateEvent, PinEvent
from cutover.lake.serving.views import list_earlier
from cutover.lake.shown_definition import resolve_definition
from cutover.lake.tables import delta
from cutover.pipeline_lake import BATCH_TABLES, JOB_ROWS, PipelineLake, serving_uri
from cutover.recorded_times import find_earliest_times
from cutover.settings import Settings
from cutover.timestamps import parse_duration

_NO_REPLACEMENT = "nothing with an epoch serves in its place"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldVersion:
    """Version of a table that a reader holds."""

    uri: str
    version: int
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """Stream, or batch tables of a definition, from which no reader is served."""

    fingerprint: str  # result fingerprint of the definition
    number: int  # of the version; `versions.BATCH`: the batch tables
    uri: str  # folder
    files: int  # number of listed files
    since: datetime  # latest commit to tables of the definition, or time of its replacement, whichever is later
    retained_because: str | None  # None: it may be deleted

    @property
    def text(self) -> str:
        """Return its name for people: `stream-0 of 0166ca6291a2`."""
        tables = "batch tables" if self.number == BATCH else f"stream-{self.number}"
        return f"{tables} of {self.fingerprint}"

    @property
    def folders(self) -> list[str]:
        """Return the folders to delete; of a batch path the index first, because its other tables depend on it."""
        names = sorted(BATCH_TABLES, key=lambda name: (name != "batch_index", name))
        return [f"{self.uri}/{name}" for name in (*names, JOB_ROWS)] if self.number == BATCH else [self.uri]


def delete_unlisted_files(lake: PipelineLake, *, hours: int, now: datetime, dry_run: bool) -> dict[str, int]:
    """Delete files of the epoch log, the batch tables and the serving table that are no longer listed.

    Args:
        lake: Pipeline whose tables are cleaned.
        hours: Files that were listed within this time are retained.
        now: Time at which pins must be in force.
        dry_run: Only count the files.

    Returns:
        Name of each table -> number of files.

    Raises:
        LakeError: A pin, or the newest batch run, needs a file that would be deleted; no file of any table was deleted.
    """
    places = dict(_list_places(lake))
    deletable = {name: _vacuum(uri, hours, dry_run=True) for name, uri in places.items()}
    for held_version in _list_held_versions(lake, now):
        name = next((name for name, uri in places.items() if uri == held_version.uri), None)
        needed_files = sorted(_list_files(held_version) & deletable[name]) if name is not None else []
        if needed_files:
            msg = (
                f"Vacuum of `{name}` to {hours} h: expected no reader of deletable files, got "
                f"{held_version.holder}, who needs version {held_version.version} (file `{needed_files[0]}`).\n"
                "Hint: wait until it is released or expired, or keep more hours."
            )
            raise LakeError(msg, runbook="PinnedVersionAtRisk")
    if not dry_run:
        for uri in places.values():
            _vacuum(uri, hours, dry_run=False)
    return {name: len(files) for name, files in deletable.items()}


def _list_places(lake: PipelineLake) -> Iterator[tuple[str, str]]:
    version = versions.find_current_version(lake)
    uris = {} if version is None else {"stream": version.uri}
    uris |= {name: lake.batch_uri(name) for name in ("batch", "batch_index", "batch_ledger")}
    uris["serving"] = serving_uri(lake.settings, lake.name)
    return ((name, uri) for name, uri in uris.items() if delta.exists(uri))


def _list_held_versions(lake: PipelineLake, now: datetime) -> Iterator[HeldVersion]:
    """Yield the versions that readers need: of runs that wait for a comparison, and of the newest run, which serves."""
    runs = [run for run in batch_runs.read_effective_runs(lake) if run.batch_version is not None]
    for holder in pins.list_all_holders(lake.settings, lake.name, result_fingerprint(lake.pipeline), now=now):
        for run in runs:
            if pins.name_batch_holder(run.run_id) == holder:
                yield from _list_versions(lake, run, f"the pin of {holder}")
    if runs:
        yield from _list_versions(lake, runs[-1], f"the newest batch run {runs[-1].run_id}")


def _list_versions(lake: PipelineLake, run: BatchRun, holder: str) -> Iterator[HeldVersion]:
    if run.batch_version is not None:
        yield HeldVersion(uri=lake.batch_uri(), version=run.batch_version, holder=holder)
    if run.ledger_version is not None:
        yield HeldVersion(uri=lake.batch_uri("batch_ledger"), version=run.ledger_version, holder=holder)


def _vacuum(uri: str, hours: int, *, dry_run: bool) -> set[str]:
    try:
        table = delta.open_table(uri)
        files = table.vacuum(retention_hours=hours, enforce_retention_duration=False, dry_run=dry_run)
    except (DeltaError, OSError) as error:
        msg = f"Table `{uri}`: expected a place where files can be removed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    return {PurePosixPath(file).name for file in files}


def _list_files(held_version: HeldVersion) -> set[str]:
    return {PurePosixPath(uri).name for uri in delta.open_table(held_version.uri, held_version.version).file_uris()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """Existing tables of a version, or of a batch path."""

    files: int
    latest_commit: datetime | None  # None: no table can be read
    problem: str | None  # why a table cannot be read


def list_unserved(lake: PipelineLake, now: datetime) -> list[Unserved]:
    """List the tables from which no reader is served, by definition and version; also those of a killed deletion.

    Raises:
        LakeError: The history cannot be read.
    """
    return list(_find_unserved(lake.with_settings(stream_version=None), now))


def delete_unserved(lake: PipelineLake, clock: Clock, *, why: str) -> list[Unserved]:
    """Delete the tables that no reader holds and that the policy no longer retains; the history records the deletion.

    Returns:
        The deleted tables.

    Raises:
        DefinitionError: The reason is empty or too long.
        LakeError: A table cannot be removed, or a version was registered or promoted meanwhile.
    """
    deleted: list[Unserved] = []
    while True:  # one sequence and one row per deletion
        sequence = versions.read_next_version_sequence(lake)
        deleted_uris = {tables.uri for tables in deleted}
        unserved = list_unserved(lake, clock.now())
        candidates = (tables for tables in unserved if tables.retained_because is None)
        candidate = next((tables for tables in candidates if tables.uri not in deleted_uris), None)
        if candidate is None:
            return deleted
        place = (lake.name, candidate.fingerprint, candidate.number)
        versions.record_deletion(lake.settings, *place, why=why, clock=clock, expected_sequence=sequence)
        try:
            is_needed = _is_needed_again(lake, candidate, clock.now())
        except BaseException:
            versions.undo_deletion(lake.settings, *place, clock)
            raise
        if is_needed:  # only the row of this deletion is undone: an earlier, killed deletion remains
            versions.undo_deletion(lake.settings, *place, clock)
            return deleted
        for folder in candidate.folders:
            _remove(folder)
        deleted.append(candidate)


def _is_needed_again(lake: PipelineLake, candidate: Unserved, now: datetime) -> bool:
    """Check, after the row was appended, whether a name was swapped back or an epoch pinned since the decision."""
    unserved = [tables for tables in list_unserved(lake, now) if tables.uri == candidate.uri]
    if not unserved:  # it serves; or another process has removed it
        return any(map(_exists, candidate.folders))
    return unserved[0].retained_because is not None


def _find_unserved(lake: PipelineLake, now: datetime) -> Iterator[Unserved]:
    settings, pipeline = lake.settings, lake.pipeline
    registrations = versions.read_registrations(settings, pipeline.name)
    serving_name = served.served_by(settings, pipeline.name)
    replaced_at = served.read_swaps(settings, pipeline.name)[-1].at if serving_name != pipeline.name else None
    served_places = _list_served(lake) if replaced_at is None else set()
    folder = f"{settings.lake_uri}/{pipeline.name}"
    places = [place for place in dict.fromkeys(_list_table_places(registrations)) if place not in served_places]
    tables_by_place = {place: tables for place in places if (tables := _read_tables(folder, *place)) is not None}
    epochs = _list_serving_epochs(lake, serving_name)
    shown_time = find_shown_time(settings, {pipeline.name, serving_name}, epochs, now)
    for (fingerprint, number), tables in tables_by_place.items():
        group = [other for place, other in tables_by_place.items() if replaced_at or place[0] == fingerprint]
        commits = [other.latest_commit for other in group if other.latest_commit is not None]
        unserved_since = max([*commits, replaced_at or _find_end(registrations, fingerprint, number)])
        holder = _find_holder(lake, fingerprint, number, unserved_since=unserved_since, now=now, shown_time=shown_time)
        deletion = versions.find_deletion(settings, pipeline.name, fingerprint, number)
        registered = max(row.sequence for row in registrations if row.fingerprint == fingerprint)
        # A killed deletion may have removed some tables already.
        problem = None if deletion is not None and deletion.sequence > registered else tables.problem
        reason = problem or _find_fork(folder, registrations, fingerprint, number)
        yield Unserved(
            fingerprint=fingerprint,
            number=number,
            uri=_uri(folder, fingerprint, number),
            files=tables.files,
            since=unserved_since,
            retained_because=reason or (holder if epochs else _NO_REPLACEMENT),
        )


def _list_table_places(rows: list[Registration]) -> Iterator[tuple[str, int]]:
    for row in rows:
        yield row.fingerprint, BATCH
        yield row.fingerprint, row.number


def _uri(folder: str, fingerprint: str, number: int) -> str:
    return f"{folder}/{fingerprint}" + ("" if number == BATCH else f"/stream-{number}")


def _read_tables(folder: str, fingerprint: str, number: int) -> _Tables | None:
    """Read the existing tables of a version; None: no folder exists, not even one that a killed deletion left."""
    uri = _uri(folder, fingerprint, number)
    places = [f"{uri}/{name}" for name in BATCH_TABLES] if number == BATCH else [f"{uri}/stream"]
    folders = [place for place in places if _exists(place)]
    if not folders:
        return None
    files, commits = 0, []
    for place in folders:
        try:
            if delta.exists(place):
                table = delta.open_table(place)
                files += len(table.file_uris())
                commits.append(_read_latest_commit(table))
        except CutoverError as error:
            return _Tables(files=files, latest_commit=None, problem=f"cannot be read: {error.text.splitlines()[0]}")
    return _Tables(files=files, latest_commit=max(commits, default=None), problem=None)


def _exists(folder: str) -> bool:
    system, path = storage.resolve_uri(folder)
    return bool(system.get_file_info(path).type is not fs.FileType.NotFound)


def _read_latest_commit(table: DeltaTable) -> datetime:
    """Read the time of the newest commit of a table.

    Raises:
        LakeError: Its entry is damaged.
    """
    newest = next(delta.list_commits(table), None)
    if newest is None:
        msg = f"Table `{table.table_uri}`: expected the entry of its newest version, got none that can be read."
        raise LakeError(msg, runbook="TableUnreadable")
    return datetime.fromtimestamp(int(str(newest["timestamp"])) / 1000, UTC)


def _list_serving_epochs(lake: PipelineLake, serving_name: str) -> list[EpochRecord]:
    """List the epochs of the pipeline that serves the name: without any, only the replaced tables have rows."""
    try:
        is_own = serving_name == lake.name
        serving = lake.pipeline if is_own else resolve_definition(lake.settings, serving_name).pipeline
        version = versions.find_current_version(PipelineLake(lake.settings, serving))
        return [] if version is None or not delta.exists(version.uri) else EpochLog(version.uri).records()
    except CutoverError:
        return []


def _list_served(lake: PipelineLake) -> set[tuple[str, int]]:
    """List the tables that serve the definition: of batch, the current version, and versions of lost windows."""
    current = versions.find_current_version(lake)
    fingerprint = result_fingerprint(lake.pipeline)
    streams = [] if current is None else [current, *list_earlier(lake, current)]
    return {(fingerprint, BATCH), *((fingerprint, version.number) for version in streams)}


def _find_end(rows: list[Registration], fingerprint: str, number: int) -> datetime:
    """Find when another version or definition replaced one; if it never served, when it was registered."""
    latest = max(i for i, row in enumerate(rows) if row.fingerprint == fingerprint and number in {BATCH, row.number})
    successors = [row.at for row in rows[latest + 1 :] if not row.parallel]
    return max([rows[latest].at, *successors[:1]])


def _find_fork(folder: str, rows: list[Registration], fingerprint: str, number: int) -> str | None:
    """Find a fork that will begin with the rows of a version and has not been filled yet; describe it."""
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


def find_shown_time(
    settings: Settings, names: Collection[str], epochs: Sequence[EpochRecord], now: datetime
) -> datetime | None:
    """Find the time that epochs and another history of some pipelines have both shown; None: no time was shown.

    A record that a later one of its history contradicts shows no more than that one, so that neither one host whose
    clock is ahead nor one record of the future shows a time that has not come.

    Args:
        settings: Where the lake is.
        names: Of the pipelines.
        epochs: Of the stream that serves, in order.
        now: By the clock of this host.

    Raises:
        LakeError: A history cannot be read.
    """
    histories: list[list[datetime]] = []
    for name in names:
        histories.append([registration.at for registration in versions.read_registrations(settings, name)])
        histories.append([pin.at for pin in Journal(settings, name, PinEvent).read_available()])
        histories.append([comparison.at for comparison in Journal(settings, name, ComparisonRow).read_available()])
        histories.append([move.at for move in Journal(settings, name, GateEvent).read_available()])
    latest_of_histories = [
        time for times in histories for time in find_earliest_times(times, now)[-1:] if time is not None
    ]
    committed = [datetime.fromisoformat(epoch.processing_time) for epoch in epochs if epoch.processing_time]
    epoch_time = next(reversed(find_earliest_times(committed, now)), None)
    return min(epoch_time, max(latest_of_histories)) if epoch_time is not None and latest_of_histories else None


def _find_holder(
    lake: PipelineLake,
    fingerprint: str,
    number: int,
    *,
    unserved_since: datetime,
    now: datetime,
    shown_time: datetime | None,
) -> str | None:
    """Find why tables are retained; None: no reader or driver holds them, and the policy's time has passed."""
    settings, pipeline = lake.settings, lake.pipeline
    holders = pins.list_holders(settings, pipeline.name, fingerprint, None if number == BATCH else number, now=now)
    if holders:
        return f"held by {holders[0]}"
    parallel_name = f"{pipeline.name}.stream-{number}"
    if served.served_by(settings, pipeline.name) != pipeline.name and read_driver_state(settings, pipeline.name).alive:
        return f"the driver of {pipeline.name} is running"
    if read_driver_state(settings, parallel_name).alive:
        return f"the driver of {parallel_name} is running"
    retention = timedelta(microseconds=parse_duration(pipeline.policy.keep_unserved, of="policy.keep_unserved"))
    if now - unserved_since <= retention:
        return f"kept for {pipeline.policy.keep_unserved}"
    if shown_time is not None and shown_time - unserved_since > retention:
        return None
    due = unserved_since + retention
    return f"kept until an epoch is committed and something else is recorded after {due:%Y-%m-%d %H:%M} UTC"


def _remove(folder: str) -> None:
    """Remove a folder of tables if it exists.

    Raises:
        LakeError: The storage does not allow it.
    """
    system, path = storage.resolve_uri(folder)
    try:
        if _exists(folder):
            system.delete_dir(path)
    except OSError as error:
        msg = f"Tables `{folder}`: expected a place where they can be removed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg + "\nHint: the same command again removes the rest.", runbook="TableUnreadable") from error
