"""Savepoints: named pins without an end, to which a stream can go back."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cutover.definition.model.schema import check_name
from cutover.lake.control import control_tables, pins
from cutover.lake.control.versions import Version
from cutover.settings import Settings

FOREVER = datetime(9000, 1, 1, tzinfo=UTC)
_PREFIX = "savepoint/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """One epoch of one version, kept under a name."""

    name: str
    version: int  # of the stream
    epoch: int
    at: datetime


def keep(settings: Settings, version: Version, epoch: int, *, name: str, now: datetime) -> Savepoint:
    """Keep an epoch until `release`: no fold merges across it.

    Raises:
        DefinitionError: It is no name.
    """
    check_name(name, of="savepoint")
    pins.pin(settings, version, epoch, holder=_PREFIX + name, expires_at=FOREVER, now=now)
    return Savepoint(name=name, version=version.number, epoch=epoch, at=now)


def release(settings: Settings, version: Version, found: Savepoint, *, now: datetime) -> None:
    """Let a savepoint go."""
    pins.release(settings, version, found.epoch, holder=_PREFIX + found.name, now=now)


def of(settings: Settings, version: Version) -> tuple[Savepoint, ...]:
    """List what is held under a name and not released, by epoch."""
    last = {
        (row["holder"], row["epoch"]): row
        for row in control_tables.read(settings, "pins", version.pipeline)
        if (row["result_fingerprint"], row["stream_version"]) == (version.result_fingerprint, version.number)
    }
    found = (
        Savepoint(name=holder.removeprefix(_PREFIX), version=version.number, epoch=epoch, at=row["at"])
        for (holder, epoch), row in last.items()
        if holder.startswith(_PREFIX) and not row["released"]
    )
    return tuple(sorted(found, key=lambda savepoint: (savepoint.epoch, savepoint.name)))
