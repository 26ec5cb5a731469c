"""Savepoints: named pins without an expiry, to which a stream can return."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cutover.definition.model.topic import check_name
from cutover.lake.control import pins
from cutover.lake.control.versions import Version
from cutover.lake.journal import Journal, latest_by
from cutover.lake.journal_rows import PinEvent
from cutover.settings import Settings

NEVER = datetime(9000, 1, 1, tzinfo=UTC)
"""Expiry of a savepoint."""
_PREFIX = "savepoint/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """One epoch of one version, kept under a name."""

    name: str
    version: int  # of the stream
    epoch: int
    at: datetime


def create_savepoint(settings: Settings, version: Version, epoch: int, *, name: str, now: datetime) -> Savepoint:
    """Pin an epoch under a name until `release_savepoint`: no fold merges across it.

    Raises:
        DefinitionError: The name is invalid.
    """
    check_name(name, of="savepoint")
    pins.pin(settings, version, epoch, holder=_PREFIX + name, expires_at=NEVER, now=now)
    return Savepoint(name=name, version=version.number, epoch=epoch, at=now)


def release_savepoint(settings: Settings, version: Version, savepoint: Savepoint, *, now: datetime) -> None:
    """Release a savepoint."""
    pins.release_pin(settings, version, savepoint.epoch, holder=_PREFIX + savepoint.name, now=now)


def list_savepoints(settings: Settings, version: Version) -> tuple[Savepoint, ...]:
    """List the savepoints of a version that were not released, by epoch and name."""
    events = Journal(settings, version.pipeline, PinEvent).read()
    latest = latest_by(
        (event for event in events if pins.is_of_version(event, version)), lambda event: (event.holder, event.epoch)
    )
    savepoints = (
        Savepoint(name=event.holder.removeprefix(_PREFIX), version=version.number, epoch=event.epoch, at=event.at)
        for event in latest.values()
        if event.holder.startswith(_PREFIX) and not event.released
    )
    return tuple(sorted(savepoints, key=lambda savepoint: (savepoint.epoch, savepoint.name)))
