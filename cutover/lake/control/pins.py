"""Pins: an epoch that a reader still needs; no fold merges across it while the pin holds.

A pin protects files, so where clocks leave a doubt it holds: it ends once its length has passed since the latest time
at which it can have been written, and another row of the history shows that as well, or a week more has passed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from cutover.clock import Clock
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control import control_tables
from cutover.lake.control.versions import Version
from cutover.recorded_times import find_latest_times
from cutover.settings import Settings

LONGEST = timedelta(days=1)
UNCONFIRMED = timedelta(days=7)
"""How long a pin that has expired by the clock of who asks still holds while no row of the history shows it, too."""


@contextmanager
def hold_for_reader(settings: Settings, version: Version, epoch: int, *, holder: str, clock: Clock) -> Iterator[None]:
    """Hold an epoch for a day at most; let it go on a failure, else leave that to whoever reads the result.

    A batch run ends before its cut is compared; a fold across the cut in between would leave nothing to compare.
    """
    try:
        # Inside: a pin whose answer was lost may be there, and would stay for a day.
        pin(settings, version, epoch, holder=holder, expires_at=clock.now() + LONGEST, now=clock.now())
        yield
    except BaseException:
        try:
            release(settings, version, epoch, holder=holder, now=clock.now())
        except LakeError as unreleased:  # it must not stand in the place of why the run failed
            log.warning("pin_not_released", pipeline=version.pipeline, epoch=epoch, error=str(unreleased))
        raise


def batch_holder(run_id: str) -> str:
    """Return the name under which a batch run holds its cut until it was compared."""
    return f"batch/{run_id}"


def pin(settings: Settings, version: Version, epoch: int, *, holder: str, expires_at: datetime, now: datetime) -> None:
    """Write a pin. Readers pin before they read."""
    row = _row(version, epoch, holder) | {"expires_at": expires_at, "released": False, "at": now}
    control_tables.append(settings, "pins", [row])


def release(settings: Settings, version: Version, epoch: int, *, holder: str, now: datetime) -> None:
    """Let a pin go."""
    row = _row(version, epoch, holder) | {"expires_at": now, "released": True, "at": now}
    control_tables.append(settings, "pins", [row])


def list_pinned_epochs(settings: Settings, version: Version, *, now: datetime) -> tuple[int, ...]:
    """Ascending, without those whose pin expired or was released: no fold may merge across one of them."""
    return tuple(sorted({row["epoch"] for row in list_held_by_version(settings, version, now=now)}))


def list_held_by_version(settings: Settings, version: Version, *, now: datetime) -> list[dict[str, Any]]:
    """Return the newest row of each pin of a stream version that holds: the columns of the control table `pins`."""
    held = list_held(settings, version.pipeline, now=now)
    return [row for row in held if _get_version(row) == (version.result_fingerprint, version.number)]


def list_held(settings: Settings, pipeline: str, *, now: datetime) -> list[dict[str, Any]]:
    """Return the newest row of each pin that holds, of all versions: the columns of the control table `pins`."""
    rows = control_tables.read(settings, "pins", pipeline)
    written = find_latest_times([row["at"] for row in rows], now)
    shown = max((row["at"] for row in rows if row["at"] <= now), default=None)
    last = {(*_get_version(row), row["epoch"], row["holder"]): (row, at) for row, at in zip(rows, written, strict=True)}
    held = ((row, at) for row, at in last.values() if not row["released"])
    return [row for row, at in held if not _has_expired(row, at, now=now, shown=shown)]


def _has_expired(row: dict[str, Any], written: datetime, *, now: datetime, shown: datetime | None) -> bool:
    """Return whether a pin's length has passed, whichever clock is wrong.

    Args:
        row: Of the pin.
        written: The latest time at which it can have been written.
        now: By the clock of who asks.
        shown: The newest time of the history that is not beyond it.
    """
    length = row["expires_at"] - row["at"]
    is_shown = shown is not None and shown - written >= length
    return bool(now - written >= length and (is_shown or now - written - length >= UNCONFIRMED))


def holders(settings: Settings, pipeline: str, fingerprint: str, *, now: datetime) -> tuple[str, ...]:
    """Return who holds an epoch of any version under a result fingerprint now."""
    return list_holders(settings, pipeline, fingerprint, None, now=now)


def list_holders(
    settings: Settings, pipeline: str, fingerprint: str, number: int | None, *, now: datetime
) -> tuple[str, ...]:
    """Return who holds an epoch of one version now; None: of any version under the fingerprint."""
    held = (row for row in list_held(settings, pipeline, now=now) if row["result_fingerprint"] == fingerprint)
    return tuple(sorted({row["holder"] for row in held if number in {None, row["stream_version"]}}))


def _get_version(row: dict[str, Any]) -> tuple[str, int]:
    """Return the result fingerprint and the number of the stream version that a pin is of."""
    return row["result_fingerprint"], row["stream_version"]


def _row(version: Version, epoch: int, holder: str) -> dict[str, Any]:
    return {
        "pipeline": version.pipeline,
        "result_fingerprint": version.result_fingerprint,
        "stream_version": version.number,
        "epoch": epoch,
        "holder": holder,
    }
