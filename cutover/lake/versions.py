"""Versions of a pipeline's streaming side: a new lateness makes a new one, beside the batch truth that stays."""

import contextlib
import json
from dataclasses import dataclass

from cutover.clock import Clock
from cutover.definition.fingerprint import describe, lateness_fingerprint, result_fingerprint
from cutover.definition.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import control
from cutover.lake.paths import stream_uri
from cutover.settings import Settings

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

    @property
    def app_id(self) -> str:
        """Return the application id of every commit to the epoch log: pipeline and version."""
        return f"{self.pipeline}/{self.result_fingerprint}/stream-{self.number}"


def known(settings: Settings, pipeline: Pipeline) -> list[Version]:
    """Return all versions under the definition's result fingerprint, by number."""
    rows = control.read(settings, "versions", pipeline.name)
    fingerprint = result_fingerprint(pipeline)
    found = [
        Version(
            pipeline=pipeline.name,
            result_fingerprint=fingerprint,
            lateness_fingerprint=row["lateness_fingerprint"],
            number=row["stream_version"],
            uri=stream_uri(settings, pipeline, row["stream_version"]),
            fork=None if row["fork_version"] is None else Fork(version=row["fork_version"], epoch=row["fork_epoch"]),
        )
        for row in rows
        if row["result_fingerprint"] == fingerprint
    ]
    return sorted(found, key=lambda version: version.number)


def current(settings: Settings, pipeline: Pipeline) -> Version | None:
    """Return the newest version that ran with this definition and this lateness; None before the first start."""
    lateness = lateness_fingerprint(pipeline)
    same = [version for version in known(settings, pipeline) if version.lateness_fingerprint == lateness]
    return same[-1] if same else None


def open_or_create(settings: Settings, pipeline: Pipeline, clock: Clock) -> Version:
    """Return the current version; if there is none, register the next one and say where the old one is.

    Raises:
        LakeError: The table of versions cannot be read, or others register without end.
    """
    for _ in range(RETRIES):
        with contextlib.suppress(LakeError):
            return _opened(settings, pipeline, clock)
    return _opened(settings, pipeline, clock)


def _opened(settings: Settings, pipeline: Pipeline, clock: Clock) -> Version:
    turn = next_turn(settings, pipeline)
    return current(settings, pipeline) or register(settings, pipeline, clock, turn=turn)


def next_turn(settings: Settings, pipeline: Pipeline) -> int:
    """Return the turn of the next registration; read it before what the version is decided by."""
    return control.next_turn(settings, "versions", pipeline.name)


def register(settings: Settings, pipeline: Pipeline, clock: Clock, *, turn: int, fork: Fork | None = None) -> Version:
    """Register the next version of a pipeline under its definition.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        clock: For the row.
        turn: `next_turn`, as it was before the caller looked at the versions that are known.
        fork: Of which version it begins with what; None: it begins where the log does.

    Raises:
        LakeError: Another process registered one meanwhile; nothing was written.
    """
    older = known(settings, pipeline)
    number = older[-1].number + 1 if older else 0
    row = {
        "pipeline": pipeline.name,
        "result_fingerprint": result_fingerprint(pipeline),
        "stream_version": number,
        "lateness_fingerprint": lateness_fingerprint(pipeline),
        "created_at": clock.now(),
        "definition": json.dumps(describe(pipeline), sort_keys=True),
        "fork_version": None if fork is None else fork.version,
        "fork_epoch": None if fork is None else fork.epoch,
    }
    control.append_in_turn(settings, "versions", row, turn=turn)
    made = known(settings, pipeline)[-1]
    log.info("version_created", version=made.app_id, before=older[-1].app_id if older else None)
    return made
