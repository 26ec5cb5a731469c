"""Pins: epochs that a reader still needs, and savepoints, which are named pins without an expiry.

No fold merges across a pinned epoch. A pin protects files, so it holds while clocks leave a doubt: it expires once its
duration has passed since the latest time at which it can have been written, and either another row of the history
confirms that or a week more has passed. A stream can return to a savepoint.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cutover.clock import Clock
from cutover.definition.model.topic import check_name
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control.versions import Version
from cutover.lake.journal import Journal, latest_by
from cutover.lake.journal_rows import PinEvent
from cutover.recorded_times import find_latest_times
from cutover.settings import Settings

LONGEST = timedelta(days=1)
UNCONFIRMED = timedelta(days=7)
"""Time for which an expired pin still holds if no row of the history confirms the reader's clock."""


@contextmanager
def pin_for_reader(settings: Settings, version: Version, epoch: int, *, holder: str, clock: Clock) -> Iterator[None]:
    """Pin an epoch for a day at most; release it after a failure, otherwise leave that to the reader of the result.

    A batch run ends before its cut is compared; a fold across the cut in between would leave nothing to compare.
    """
    try:
        # Inside: a pin whose acknowledgement was lost may exist, and would stay for a day.
        pin(settings, version, epoch, holder=holder, expires_at=clock.now() + LONGEST, now=clock.now())
        yield
    except BaseException:
        try:
            release_pin(settings, version, epoch, holder=holder, now=clock.now())
        except LakeError as release_error:  # it must not replace the reason of the failure
            log.warning("pin_not_released", pipeline=version.pipeline, epoch=epoch, error=str(release_error))
        raise


def name_batch_holder(run_id: str) -> str:
    """Return the name under which a batch run holds its cut until the cut has been compared."""
    return f"batch/{run_id}"


def pin(settings: Settings, version: Version, epoch: int, *, holder: str, expires_at: datetime, now: datetime) -> None:
    """Pin an epoch. Readers pin before they read."""
    _append(settings, version, epoch, holder=holder, expires_at=expires_at, released=False, now=now)


def release_pin(settings: Settings, version: Version, epoch: int, *, holder: str, now: datetime) -> None:
    """Release a pin."""
    _append(settings, version, epoch, holder=holder, expires_at=now, released=True, now=now)


def _append(  # noqa: PLR0913 -- the columns of a row
    settings: Settings,
    version: Version,
    epoch: int,
    *,
    holder: str,
    expires_at: datetime,
    released: bool,
    now: datetime,
) -> None:
    event = PinEvent(
        pipeline=version.pipeline,
        at=now,
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
        epoch=epoch,
        holder=holder,
        expires_at=expires_at,
        released=released,
    )
    Journal(settings, version.pipeline, PinEvent).append(event)


def is_of_version(event: PinEvent, version: Version) -> bool:
    """Return whether a pin holds an epoch of a stream version."""
    return (event.result_fingerprint, event.stream_version) == (version.result_fingerprint, version.number)


def list_pinned_epochs(settings: Settings, version: Version, *, now: datetime) -> tuple[int, ...]:
    """List the epochs of a version with a pin that holds, ascending: no fold may merge across one of them."""
    return tuple(sorted({event.epoch for event in list_held_by_version(settings, version, now=now)}))


def list_held_by_version(settings: Settings, version: Version, *, now: datetime) -> list[PinEvent]:
    """List the latest row of each pin of a stream version that holds."""
    return [event for event in list_held(settings, version.pipeline, now=now) if is_of_version(event, version)]


def list_held(settings: Settings, pipeline: str, *, now: datetime) -> list[PinEvent]:
    """List the latest row of each pin that holds, of all versions."""
    events = Journal(settings, pipeline, PinEvent).read()
    appended_at = find_latest_times([event.at for event in events], now)
    confirmed = max((event.at for event in events if event.at <= now), default=None)
    latest = {
        (event.result_fingerprint, event.stream_version, event.epoch, event.holder): (event, at)
        for event, at in zip(events, appended_at, strict=True)
    }
    pinned = ((event, at) for event, at in latest.values() if not event.released)
    return [event for event, at in pinned if not _has_expired(event, at, now=now, confirmed=confirmed)]


def _has_expired(event: PinEvent, appended_at: datetime, *, now: datetime, confirmed: datetime | None) -> bool:
    """Return whether the duration of a pin has passed, even if a clock is wrong.

    Args:
        event: Latest row of the pin.
        appended_at: Latest time at which it can have been written.
        now: By the reader's clock.
        confirmed: Latest time in the history that is not after `now`.
    """
    duration = event.expires_at - event.at
    is_confirmed = confirmed is not None and confirmed - appended_at >= duration
    return now - appended_at >= duration and (is_confirmed or now - appended_at - duration >= UNCONFIRMED)


def list_all_holders(settings: Settings, pipeline: str, fingerprint: str, *, now: datetime) -> tuple[str, ...]:
    """List the holders of epochs of any version under a result fingerprint."""
    return list_holders(settings, pipeline, fingerprint, None, now=now)


def list_holders(
    settings: Settings, pipeline: str, fingerprint: str, number: int | None, *, now: datetime
) -> tuple[str, ...]:
    """List the holders of epochs of one version; None: of any version under the fingerprint."""
    held_pins = (event for event in list_held(settings, pipeline, now=now) if event.result_fingerprint == fingerprint)
    return tuple(sorted({event.holder for event in held_pins if number in {None, event.stream_version}}))


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
    pin(settings, version, epoch, holder=_PREFIX + name, expires_at=NEVER, now=now)
    return Savepoint(name=name, version=version.number, epoch=epoch, at=now)


def release_savepoint(settings: Settings, version: Version, savepoint: Savepoint, *, now: datetime) -> None:
    """Release a savepoint."""
    release_pin(settings, version, savepoint.epoch, holder=_PREFIX + savepoint.name, now=now)


def list_savepoints(settings: Settings, version: Version) -> tuple[Savepoint, ...]:
    """List the savepoints of a version that were not released, by epoch and name."""
    events = Journal(settings, version.pipeline, PinEvent).read()
    latest = latest_by(
        (event for event in events if is_of_version(event, version)), lambda event: (event.holder, event.epoch)
    )
    savepoints = (
        Savepoint(name=event.holder.removeprefix(_PREFIX), version=version.number, epoch=event.epoch, at=event.at)
        for event in latest.values()
        if event.holder.startswith(_PREFIX) and not event.released
    )
    return tuple(sorted(savepoints, key=lambda savepoint: (savepoint.epoch, savepoint.name)))
