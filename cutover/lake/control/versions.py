"""Versions of a pipeline's streaming side: a new lateness creates a new one, next to the batch result that stays.

The differences between the definitions of two versions say why the current definition has no stream, or another one.
"""

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cutover.changes import check_reason, user
from cutover.clock import Clock
from cutover.definition.compile.fingerprint import describe_version, lateness_fingerprint, result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.events import log
from cutover.lake.journal import Journal, JournalRow
from cutover.lake.journal_rows import ComparisonRow, GateEvent, VersionEvent, VersionEventKind
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

BATCH = -1
"""Version number by which a deletion names the batch tables of a definition."""

RETRIES = 5  # of a registration: it fails only if another process has just registered another version

Place = tuple[str, int]  # result fingerprint, version number


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Origin of a version that begins with the epochs of another one, up to and including `epoch`."""

    version: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One streaming side: the tables under `<result fingerprint>/stream-<number>`."""

    pipeline: str
    result_fingerprint: str
    lateness_fingerprint: str
    number: int
    uri: str  # of the epoch log
    fork: Fork | None = None  # None: it begins where the log does
    parallel: bool = False  # filled by a replay in parallel; it never served
    deleted: bool = False  # its tables were deleted because no one was served from them

    @property
    def app_id(self) -> str:
        """Return the application id of every commit to the epoch log: pipeline and version."""
        return f"{self.pipeline}/{self.result_fingerprint}/stream-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Deletion of tables that was not undone."""

    sequence: int
    at: datetime
    next_sequences: Mapping[str, int]  # control table -> sequence of its first row after the deletion

    def is_before(self, row: JournalRow) -> bool:
        """Return whether a row of another control table was appended after the deletion."""
        return row.sequence >= self.next_sequences[row.TABLE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Registration of a version, or its promotion to the one that serves."""

    sequence: int
    fingerprint: str  # of the result
    number: int
    at: datetime
    parallel: bool  # filled by a replay in parallel, not promoted yet
    fork: int | None = None  # number of the version with whose epochs it begins
    deleted: bool = False  # its tables were deleted and not created again


def read_version_events(settings: Settings, name: str) -> list[VersionEvent]:
    """Read the history of versions under all definitions of a name, oldest first.

    Raises:
        LakeError: The table cannot be read, or rows are missing.
    """
    return Journal(settings, name, VersionEvent).read()


def list_stream_versions(lake: PipelineLake) -> list[Version]:
    """List the versions under the definition's result fingerprint whose tables were not deleted, by number."""
    latest = {version.number: version for version in _read_versions(lake) if not version.deleted}
    return [latest[number] for number in sorted(latest)]


def read_registrations(settings: Settings, name: str) -> list[Registration]:
    """Read every registration and promotion of a version, under all definitions of a name, oldest first.

    Raises:
        LakeError: The table cannot be read, or rows are missing.
    """
    events = read_version_events(settings, name)
    deleted = _list_deleted(events)
    return [
        Registration(
            sequence=event.sequence,
            fingerprint=event.result_fingerprint,
            number=event.stream_version,
            at=event.at,
            parallel=event.parallel,
            fork=event.fork_version,
            deleted=_place(event) in deleted,
        )
        for event in events
        if event.registers
    ]


def _place(event: VersionEvent) -> Place:
    return event.result_fingerprint, event.stream_version


def _list_deleted(events: Sequence[VersionEvent]) -> set[Place]:
    """Return the fingerprint and number of each version whose deletion was not undone."""
    places = {_place(event) for event in events if event.event is VersionEventKind.DELETED}
    return {place for place in places if _find_latest_deletion(events, place) is not None}


def _find_latest_deletion(events: Iterable[VersionEvent], place: Place) -> Deletion | None:
    """Return the latest deletion of a version that was not undone."""
    deletions: list[VersionEvent] = []
    for event in events:
        if _place(event) == place:
            if event.event is VersionEventKind.DELETED:
                deletions.append(event)
            elif event.event is VersionEventKind.DELETION_UNDONE and deletions:
                deletions.pop()
    if not deletions:
        return None
    latest = deletions[-1]
    return Deletion(sequence=latest.sequence, at=latest.at, next_sequences=json.loads(latest.next_sequences or "{}"))


def record_deletion(  # noqa: PLR0913 -- what is deleted, why, and what a test passes
    settings: Settings, name: str, fingerprint: str, number: int, *, why: str, clock: Clock, expected_sequence: int
) -> None:
    """Record that the tables of a version, or of a definition's batch path (`BATCH`), are about to be deleted.

    Raises:
        DefinitionError: The reason is empty or too long.
        SequenceConflictError: A version was registered or promoted in the meantime; nothing was written.
    """
    text = check_reason(why, of="Deletion")
    following = {row.TABLE: Journal(settings, name, row).next_sequence() for row in (GateEvent, ComparisonRow)}
    event = VersionEvent(
        pipeline=name,
        at=clock.now(),
        event=VersionEventKind.DELETED,
        result_fingerprint=fingerprint,
        stream_version=number,
        next_sequences=json.dumps(following),
        who=user(),
        why=text,
    )
    Journal(settings, name, VersionEvent).append(event, expected_sequence=expected_sequence)
    log.warning("tables_deleted", pipeline=name, fingerprint=fingerprint, stream_version=number, why=why)


def undo_deletion(settings: Settings, name: str, fingerprint: str, number: int, clock: Clock) -> None:
    """Record that the latest deletion removed nothing. The version that serves does not change."""
    event = VersionEvent(
        pipeline=name,
        at=clock.now(),
        event=VersionEventKind.DELETION_UNDONE,
        result_fingerprint=fingerprint,
        stream_version=number,
        who=user(),
        why="deletion undone",
    )
    Journal(settings, name, VersionEvent).append(event)


def find_current_version(lake: PipelineLake) -> Version | None:
    """Return the current version: the one that the settings name, otherwise the one that serves.

    That is the last one that was registered or promoted under this definition and this lateness. None before the first
    start, and if its tables were deleted: a deletion does not bring back the version that it had replaced.

    Raises:
        DefinitionError: The settings name a version that does not exist under this definition and this lateness.
    """
    lateness = lateness_fingerprint(lake.pipeline)
    versions = [version for version in _read_versions(lake) if version.lateness_fingerprint == lateness]
    if lake.settings.stream_version is not None:
        return _select_version(versions, lake.pipeline, lake.settings.stream_version)
    serving = next((version for version in reversed(versions) if not version.parallel), None)
    return None if serving is None or serving.deleted else serving


def format_option(number: int | None) -> str:
    """Return the option by which a command selects a version; empty for the first, which needs none."""
    return f" --version {number}" if number else ""


def select_stream_version(settings: Settings, number: int | None) -> Settings:
    """Return settings that select a version, whichever serves; None: unchanged settings."""
    return settings if number is None else settings.model_copy(update={"stream_version": number})


def select_served_version(settings: Settings) -> Settings:
    """Select in settings the versions that serve, whichever version a user selected."""
    return settings.model_copy(update={"stream_version": None})


def promote_version(
    lake: PipelineLake,
    number: int,
    *,
    why: str,
    finding: str = "",
    clock: Clock,
    expected_sequence: int | None = None,
) -> Version:
    """Promote a version to the one that serves, in one commit; the tables of the previous one stay as they are.

    Args:
        lake: Pipeline whose readers get the version.
        number: Of the version.
        why: A person's reason.
        finding: Result of the comparison with the previous version, recorded after the reason.
        clock: Time of the promotion.
        expected_sequence: Of `read_next_version_sequence`, read before that comparison; None: the next one.

    Raises:
        DefinitionError: There is no such version under this definition and this lateness, or it already serves.
        LakeError: Another process registered or changed a version in the meantime; nothing was written.
    """
    pipeline = lake.pipeline
    sequence = read_next_version_sequence(lake) if expected_sequence is None else expected_sequence
    lateness = lateness_fingerprint(pipeline)
    versions = [version for version in _read_versions(lake) if version.lateness_fingerprint == lateness]
    version, previous = _select_version(versions, pipeline, number), find_current_version(lake)
    if previous is not None and previous.number == number:
        msg = f"Version of `{pipeline.name}`: expected one that does not serve yet, stream-{number} does."
        raise DefinitionError(msg)
    promoted = replace(version, parallel=False)
    event = replace(
        _make_event(promoted, pipeline, clock),
        event=VersionEventKind.SERVED,
        who=user(),
        why=check_reason(why, of="Version") + finding,
    )
    Journal(lake.settings, pipeline.name, VersionEvent).append(event, expected_sequence=sequence)
    previous_app_id = None if previous is None else previous.app_id
    log.warning("version_serves", version=version.app_id, before=previous_app_id, why=why)
    return promoted


def _select_version(versions: Sequence[Version], pipeline: Pipeline, number: int) -> Version:
    latest = {version.number: version for version in versions if not version.deleted}
    if number in latest:
        return latest[number]
    numbers = ", ".join(map(str, sorted(latest))) or "none"
    msg = f"Version of `{pipeline.name}`: expected one under this definition and lateness ({numbers}), got {number}."
    raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline.name} list` shows them.")


def _read_versions(lake: PipelineLake) -> list[Version]:
    """Read every registration and promotion under the definition's result fingerprint, in order."""
    first_uri = lake.stream_uri(0)
    first_exists = delta.exists(first_uri)  # checked first: a version is registered before its table is created
    fingerprint = result_fingerprint(lake.pipeline)
    events = [
        event for event in read_version_events(lake.settings, lake.name) if event.result_fingerprint == fingerprint
    ]
    if first_exists and not events:
        msg = f"Versions of `{lake.name}`: expected the one of table `{first_uri}`, none is registered."
        hint = "\nHint: `_control` of this lake is missing or belongs to another lake; restore it from a copy."
        raise LakeError(msg + hint, runbook="ForeignWrite")
    deleted = _list_deleted(events)
    return [_make_version(lake, event, deleted) for event in events if event.registers]


def _make_version(lake: PipelineLake, event: VersionEvent, deleted: Collection[Place]) -> Version:
    fork = None
    if event.fork_version is not None and event.fork_epoch is not None:
        fork = Fork(version=event.fork_version, epoch=event.fork_epoch)
    return Version(
        pipeline=lake.name,
        result_fingerprint=event.result_fingerprint,
        lateness_fingerprint=event.lateness_fingerprint or "",
        number=event.stream_version,
        uri=lake.stream_uri(event.stream_version),
        fork=fork,
        parallel=event.parallel,
        deleted=_place(event) in deleted,
    )


def _make_event(version: Version, pipeline: Pipeline, clock: Clock) -> VersionEvent:
    """Make the row that registers a version."""
    return VersionEvent(
        pipeline=version.pipeline,
        at=clock.now(),
        event=VersionEventKind.REGISTERED,
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
        lateness_fingerprint=version.lateness_fingerprint,
        definition=json.dumps(describe_version(pipeline), sort_keys=True),
        fork_version=None if version.fork is None else version.fork.version,
        fork_epoch=None if version.fork is None else version.fork.epoch,
        parallel=version.parallel,
    )


def open_or_create(lake: PipelineLake, clock: Clock) -> Version:
    """Return the current version; if there is none, register the next one and log which one it follows.

    Raises:
        LakeError: The table of versions cannot be read, or other processes were faster in every attempt.
    """
    for _ in range(RETRIES):
        with contextlib.suppress(LakeError):
            return _open_current(lake, clock)
    return _open_current(lake, clock)


def _open_current(lake: PipelineLake, clock: Clock) -> Version:
    sequence = read_next_version_sequence(lake)
    return find_current_version(lake) or register(lake, clock, expected_sequence=sequence)


def read_next_version_number(lake: PipelineLake) -> int:
    """Return the number of the next version; numbers are never reused, including those of deleted versions."""
    fingerprint = result_fingerprint(lake.pipeline)
    events = read_version_events(lake.settings, lake.name)
    numbers = [event.stream_version for event in events if event.result_fingerprint == fingerprint]
    return max(numbers, default=BATCH) + 1


def find_deletion(settings: Settings, name: str, fingerprint: str, number: int) -> Deletion | None:
    """Find the latest deletion of the tables of a version, or of a definition's batch path, that was not undone."""
    return _find_latest_deletion(read_version_events(settings, name), (fingerprint, number))


def read_next_version_sequence(lake: PipelineLake) -> int:
    """Return the sequence of the next registration; read it before the facts on which that is decided."""
    return Journal(lake.settings, lake.name, VersionEvent).next_sequence()


def register(
    lake: PipelineLake,
    clock: Clock,
    *,
    expected_sequence: int,
    fork: Fork | None = None,
    parallel: bool = False,
) -> Version:
    """Register the next version of a pipeline under its definition.

    Args:
        lake: Pipeline under the definition of the version.
        clock: Time of the row.
        expected_sequence: Of `read_next_version_sequence`, read before the caller read the registered versions.
        fork: With whose epochs it begins; None: it begins where the log does.
        parallel: A replay fills it in parallel; it serves nothing until it is promoted.

    Raises:
        LakeError: Another process registered a version in the meantime; nothing was written.
    """
    pipeline = lake.pipeline
    older = list_stream_versions(lake)
    number = read_next_version_number(lake)
    version = Version(
        pipeline=pipeline.name,
        result_fingerprint=result_fingerprint(pipeline),
        lateness_fingerprint=lateness_fingerprint(pipeline),
        number=number,
        uri=lake.stream_uri(number),
        fork=fork,
        parallel=parallel,
    )
    event = _make_event(version, pipeline, clock)
    Journal(lake.settings, pipeline.name, VersionEvent).append(event, expected_sequence=expected_sequence)
    log.info("version_created", version=version.app_id, before=older[-1].app_id if older else None)
    return version


LONGEST_VALUE = 120
"""Characters of a value that a message shows."""


def describe_changes(lake: PipelineLake, version: Version | None) -> str:
    """Describe what changed in the definition since the previous version, each sentence after a blank.

    Args:
        lake: Pipeline under its current definition.
        version: The current one; None: there is none under this definition.

    Returns:
        Nothing if nothing changed.
    """
    if version is not None and version.fork is not None:
        origin = f"stream-{version.fork.version} after epoch {version.fork.epoch}"
        return f" Version stream-{version.number} is a fork of {origin}."
    events = [event for event in read_version_events(lake.settings, lake.name) if event.registers]
    previous = _find_previous(events, version)
    if previous is None:
        return "" if version is not None else " No stream of this name has been started yet."
    recorded = json.loads(previous.definition or "{}")
    current = json.loads(json.dumps(describe_version(lake.pipeline)))
    changed_fields = [name for name in sorted({*recorded, *current}) if recorded.get(name) != current.get(name)]
    if not changed_fields:
        return ""
    text = "; ".join(
        f"`{name}` is {_format_value(current, name)}, was {_format_value(recorded, name)}" for name in changed_fields
    )
    return f" Since stream-{previous.stream_version} of {previous.result_fingerprint} was created: {text}."


def _find_previous(events: Sequence[VersionEvent], version: Version | None) -> VersionEvent | None:
    """Return the row before the registration of a version; without a version, the latest row."""
    if version is None:
        return events[-1] if events else None
    place = (version.result_fingerprint, version.number)
    indexes = [i for i, event in enumerate(events) if (event.result_fingerprint, event.stream_version) == place]
    return events[indexes[0] - 1] if indexes and indexes[0] else None


def _format_value(definition: Mapping[str, Any], name: str) -> str:
    text = json.dumps(definition.get(name))
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
