"""Versions of a pipeline's streaming side: a new lateness makes a new one, beside the batch truth that stays."""

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import describe_version, lateness_fingerprint, result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LakeError
from cutover.events import log
from cutover.lake.control import control_tables
from cutover.lake.control.signature import reason, user
from cutover.lake.paths import ControlTable, stream_uri
from cutover.lake.tables import delta
from cutover.settings import Settings

BATCH = -1
"""Stands for the batch tables of a definition where a deletion names a version."""

_NO_DEFINITION, _SEEN = "{}", "seen"
"""Of a row that is a word on a deletion and registers nothing: empty, or which numbers came next in other tables."""

RETRIES = 5  # of a registration: one fails only if another process has just registered another version


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Where a version begins that another one had begun: behind an epoch of it, with everything up to there."""

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
    beside: bool = False  # a replay fills it; it never served
    deleted: bool = False  # its tables went, since nobody was served from them

    @property
    def app_id(self) -> str:
        """Return the application id of every commit to the epoch log: pipeline and version."""
        return f"{self.pipeline}/{self.result_fingerprint}/stream-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A row of the history: tables were deleted, and that was not taken back."""

    sequence: int
    at: datetime
    seen: Mapping[str, int]  # control table -> sequence of its first row behind the deletion; none: an older release

    def is_before(self, table: str, row: Mapping[str, Any]) -> bool:
        """Return whether a row of another control table was appended behind the deletion."""
        return bool(row["sequence"] >= self.seen[table] if table in self.seen else row["at"] > self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A row of the history: a version was registered, or let serve."""

    sequence: int
    fingerprint: str  # of the result
    number: int
    at: datetime
    beside: bool
    fork: int | None = None  # of which version it begins with what
    deleted: bool = False  # its tables were deleted, and were not made again


def list_versions(settings: Settings, pipeline: Pipeline) -> list[Version]:
    """Return all versions under the definition's result fingerprint whose tables were not deleted, by number."""
    newest = {row.number: row for row in _rows(settings, pipeline) if not row.deleted}
    return [newest[number] for number in sorted(newest)]


def read_registrations(settings: Settings, name: str) -> list[Registration]:
    """Return every registration and every later word on a version, of all definitions of a name, but for deletions.

    Raises:
        LakeError: The table cannot be read, or rows of it are gone.
    """
    rows = control_tables.read(settings, "versions", name)
    deleted = _list_deleted(rows)
    return [
        Registration(
            sequence=row["sequence"],
            fingerprint=row["result_fingerprint"],
            number=row["stream_version"],
            at=row["created_at"],
            beside=bool(row["beside"]),
            fork=row["fork_version"],
            deleted=(row["result_fingerprint"], row["stream_version"]) in deleted,
        )
        for row in rows
        if is_registration(row)
    ]


def is_registration(row: Mapping[str, Any]) -> bool:
    """Return whether a row of the history registers a version or lets it serve: others are words on deletions."""
    text = row["definition"]
    return bool(text != _NO_DEFINITION and not text.startswith(f'{{"{_SEEN}"'))


def _list_deleted(rows: Sequence[Mapping[str, Any]]) -> set[tuple[str, int]]:
    """Return the fingerprints and numbers of what was deleted, and not taken back."""
    places = {(row["result_fingerprint"], row["stream_version"]) for row in rows if row["deleted"]}
    return {place for place in places if _find_deletion(rows, place) is not None}


def _find_deletion(rows: Sequence[Mapping[str, Any]], place: tuple[str, int]) -> Deletion | None:
    """Return the newest deletion of something; one that was taken back is none."""
    standing: list[Mapping[str, Any]] = []
    for row in rows:
        if (row["result_fingerprint"], row["stream_version"]) == place and not is_registration(row):
            if row["deleted"]:
                standing.append(row)
            elif standing:
                standing.pop()
    if not standing:
        return None
    row = standing[-1]
    return Deletion(sequence=row["sequence"], at=row["created_at"], seen=json.loads(row["definition"]).get(_SEEN, {}))


def record_deletion(  # noqa: PLR0913 -- what is deleted, why, and what a test hands in
    settings: Settings, name: str, fingerprint: str, number: int, *, why: str, clock: Clock, turn: int
) -> None:
    """Note that the tables of a version, or of a definition's batch path (`BATCH`), go.

    Raises:
        DefinitionError: The reason is empty or too long.
        OvertakenError: A version was registered or let serve meanwhile; nothing was written.
    """
    given = reason(why, of="Deletion")
    others: tuple[ControlTable, ...] = ("gate", "reconciliations")
    seen = {table: control_tables.next_turn(settings, table, name) for table in others}
    row = _make_word(name, fingerprint, number, clock) | {"deleted": True, "why": given}
    row["definition"] = json.dumps({_SEEN: seen})
    control_tables.append(settings, "versions", [row], turn=turn)
    log.warning("tables_deleted", pipeline=name, fingerprint=fingerprint, stream_version=number, why=why)


def take_deletion_back(settings: Settings, name: str, fingerprint: str, number: int, clock: Clock) -> None:
    """Note that what the newest deletion named is there still: nothing was removed. Who serves does not change."""
    row = _make_word(name, fingerprint, number, clock) | {"deleted": False, "why": "deletion taken back"}
    control_tables.append(settings, "versions", [row])


def _make_word(name: str, fingerprint: str, number: int, clock: Clock) -> dict[str, Any]:
    """Return what a row has that is a word on a deletion."""
    return {
        "pipeline": name,
        "result_fingerprint": fingerprint,
        "stream_version": number,
        "created_at": clock.now(),
        "definition": _NO_DEFINITION,
        "who": user(),
    }


def current(settings: Settings, pipeline: Pipeline) -> Version | None:
    """Return the version that is in force: the one that the settings name, else the one that serves.

    The last that was registered or was let serve under this definition and this lateness; None before the first start,
    and where its tables were deleted: what it had replaced does not come back by that.

    Raises:
        DefinitionError: The settings name a version that is not there under this definition and this lateness.
    """
    lateness = lateness_fingerprint(pipeline)
    same = [version for version in _rows(settings, pipeline) if version.lateness_fingerprint == lateness]
    if settings.stream_version is not None:
        return _find_version(same, pipeline, settings.stream_version)
    last = next((version for version in reversed(same) if not version.beside), None)
    return None if last is None or last.deleted else last


def format_option(number: int | None) -> str:
    """Return the option by which a command that is named looks at a version; nothing of the first, which needs none."""
    return f" --version {number}" if number else ""


def looking_at(settings: Settings, number: int | None) -> Settings:
    """Return settings under which everything looks at one version, whichever serves; None: as they are."""
    return settings if number is None else settings.model_copy(update={"stream_version": number})


def looking_at_served(settings: Settings) -> Settings:
    """Return settings under which everything looks at the versions that serve, whatever a user asked to look at."""
    return settings.model_copy(update={"stream_version": None})


def serve(  # noqa: PLR0913 -- what to let serve, why, by what evidence, and what a test hands in
    settings: Settings,
    pipeline: Pipeline,
    number: int,
    *,
    why: str,
    found: str = "",
    clock: Clock,
    turn: int | None = None,
) -> Version:
    """Let a version serve in place of the one that does, in one commit; the other one stays as it is.

    Args:
        settings: Where the lake is.
        pipeline: The definition.
        number: Of the version.
        why: A person's reason.
        found: What a comparison said of it, kept behind the reason.
        clock: When that is.
        turn: Of `next_turn`, before that comparison; None: from now on.

    Raises:
        DefinitionError: There is no such version under this definition and this lateness, or it serves already.
        LakeError: Another process registered or changed a version meanwhile; nothing was written.
    """
    turn = next_turn(settings, pipeline) if turn is None else turn
    rows = [row for row in _rows(settings, pipeline) if row.lateness_fingerprint == lateness_fingerprint(pipeline)]
    wanted, serving = _find_version(rows, pipeline, number), current(settings, pipeline)
    if serving is not None and serving.number == number:
        msg = f"Version of `{pipeline.name}`: expected one that does not serve yet, stream-{number} does."
        raise DefinitionError(msg)
    row = _row(replace(wanted, beside=False), pipeline, clock) | {
        "who": user(),
        "why": reason(why, of="Version") + found,
    }
    control_tables.append(settings, "versions", [row], turn=turn)
    log.warning("version_serves", version=wanted.app_id, before=None if serving is None else serving.app_id, why=why)
    return replace(wanted, beside=False)


def _find_version(versions: list[Version], pipeline: Pipeline, number: int) -> Version:
    known = [version for version in versions if not version.deleted]
    for version in reversed(known):
        if version.number == number:
            return version
    there = ", ".join(str(each) for each in sorted({version.number for version in known})) or "none"
    msg = f"Version of `{pipeline.name}`: expected one under this definition and lateness ({there}), got {number}."
    raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline.name} list` shows them.")


def _rows(settings: Settings, pipeline: Pipeline) -> list[Version]:
    """Return every registration and every later word on a version, in their order."""
    first = stream_uri(settings, pipeline, 0)
    was_there = delta.exists(first)  # asked first: a version is registered before its table is made
    fingerprint = result_fingerprint(pipeline)
    rows = control_tables.read(settings, "versions", pipeline.name)
    mine = [row for row in rows if row["result_fingerprint"] == fingerprint]
    deleted = _list_deleted(mine)
    told = [row for row in mine if is_registration(row)]
    found = [_version(settings, pipeline, row, deleted) for row in told]
    if was_there and not mine:
        msg = f"Versions of `{pipeline.name}`: expected the one of table `{first}`, none is registered."
        hint = "\nHint: `_control` of this lake is gone or another one; put it back from a copy."
        raise LakeError(msg + hint, runbook="ForeignWrite")
    return found


def _version(
    settings: Settings, pipeline: Pipeline, row: Mapping[str, Any], deleted: Collection[tuple[str, int]]
) -> Version:
    return Version(
        pipeline=pipeline.name,
        result_fingerprint=row["result_fingerprint"],
        lateness_fingerprint=row["lateness_fingerprint"],
        number=row["stream_version"],
        uri=stream_uri(settings, pipeline, row["stream_version"]),
        fork=None if row["fork_version"] is None else Fork(version=row["fork_version"], epoch=row["fork_epoch"]),
        beside=bool(row["beside"]),
        deleted=(row["result_fingerprint"], row["stream_version"]) in deleted,
    )


def _row(version: Version, pipeline: Pipeline, clock: Clock) -> dict[str, Any]:
    return {
        "pipeline": version.pipeline,
        "result_fingerprint": version.result_fingerprint,
        "stream_version": version.number,
        "lateness_fingerprint": version.lateness_fingerprint,
        "created_at": clock.now(),
        "definition": json.dumps(describe_version(pipeline), sort_keys=True),
        "fork_version": None if version.fork is None else version.fork.version,
        "fork_epoch": None if version.fork is None else version.fork.epoch,
        "beside": version.beside,
        "deleted": False,
    }


def open_or_create(settings: Settings, pipeline: Pipeline, clock: Clock) -> Version:
    """Return the current version; if there is none, register the next one and say where the old one is.

    Raises:
        LakeError: The table of versions cannot be read, or others register without end.
    """
    for _ in range(RETRIES):
        with contextlib.suppress(LakeError):
            return _open_current(settings, pipeline, clock)
    return _open_current(settings, pipeline, clock)


def _open_current(settings: Settings, pipeline: Pipeline, clock: Clock) -> Version:
    turn = next_turn(settings, pipeline)
    return current(settings, pipeline) or register(settings, pipeline, clock, turn=turn)


def next_number(settings: Settings, pipeline: Pipeline) -> int:
    """Return the number of the next version: no number is given twice, also not that of one that was deleted."""
    fingerprint = result_fingerprint(pipeline)
    rows = control_tables.read(settings, "versions", pipeline.name)
    return max([row["stream_version"] for row in rows if row["result_fingerprint"] == fingerprint], default=BATCH) + 1


def find_deletion(settings: Settings, name: str, fingerprint: str, number: int) -> Deletion | None:
    """Return the newest deletion of the tables of a version, or of a definition's batch path; None: there is none."""
    return _find_deletion(control_tables.read(settings, "versions", name), (fingerprint, number))


def next_turn(settings: Settings, pipeline: Pipeline) -> int:
    """Return the turn of the next registration; read it before what the version is decided by."""
    return control_tables.next_turn(settings, "versions", pipeline.name)


def register(
    settings: Settings,
    pipeline: Pipeline,
    clock: Clock,
    *,
    turn: int,
    fork: Fork | None = None,
    beside: bool = False,
) -> Version:
    """Register the next version of a pipeline under its definition.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        clock: For the row.
        turn: `next_turn`, as it was before the caller looked at the versions that are known.
        fork: Of which version it begins with what; None: it begins where the log does.
        beside: A replay fills it; it serves nothing until it is let.

    Raises:
        LakeError: Another process registered one meanwhile; nothing was written.
    """
    older = list_versions(settings, pipeline)
    number = next_number(settings, pipeline)
    made = Version(
        pipeline=pipeline.name,
        result_fingerprint=result_fingerprint(pipeline),
        lateness_fingerprint=lateness_fingerprint(pipeline),
        number=number,
        uri=stream_uri(settings, pipeline, number),
        fork=fork,
        beside=beside,
    )
    control_tables.append(settings, "versions", [_row(made, pipeline, clock)], turn=turn)
    log.info("version_created", version=made.app_id, before=older[-1].app_id if older else None)
    return made
