"""Drivers of an installation, as the files in `<home>/run/<pipeline>/` describe them.

`read_driver_state` reads a heartbeat and checks that the process that wrote it is still running; `list_drivers` lists
all drivers that were started detached.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cutover import files
from cutover.errors import CutoverError, LakeError
from cutover.process import Identity, is_alive, parse_identity
from cutover.settings import Settings

_ENDED = {"FAILED", "STOPPED"}
_OPTIONAL_FIELDS = (
    "run_id",
    "epoch",
    "at",
    "error",
    "runbook",
    "losses_seen",
    "unread_since",
    "silent_since",
    "quiet_since",
    "job_unread_since",
    "job_silence",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """State of a driver in its heartbeat."""

    alive: bool = False
    state: str = "STOPPED"
    run_id: str | None = None
    epoch: int | None = None  # its latest epoch, or the one after which it started
    error: str | None = None
    runbook: str | None = None
    losses_seen: int | None = None  # sequence of the first recorded loss that was not known when it started
    at: str | None = None  # time of the heartbeat by the driver's clock, ISO 8601, UTC; None: no driver ever ran here
    ahead: float = 0.0  # seconds by which the driver's clock is ahead of the clock of the file system
    unread_since: str | None = None  # ISO 8601, UTC, by the driver's clock, like the next four
    silent_since: str | None = None
    quiet_since: str | None = None  # last growth of any partition
    job_unread_since: str | None = None  # a followed job has made no batch since, although it has unread records
    job_silence: float | None = None  # seconds for which a followed job may make no batch, by its earlier ones
    open_since: Mapping[str, str] = field(default_factory=dict)  # partition -> start of an open transaction at its end
    skew: Mapping[str, float] = field(default_factory=dict)  # partition -> driver clock - latest log time, seconds


def read_driver_state(settings: Settings, name: str) -> DriverState:
    """Read the heartbeat, and check that the process that wrote it is still running.

    Raises:
        LakeError: The heartbeat exists and cannot be read, so it is unknown whether a driver is running.
    """
    file = settings.run_dir / name / "heartbeat.json"
    try:
        raw: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(raw["state"], str):
            msg = f"a state that is not a string: {raw['state']!r:.40}"
            raise TypeError(msg)  # noqa: TRY301 -- handled like any other invalid heartbeat
        alive = raw["state"] not in _ENDED and _is_process_alive(raw)
        state = raw["state"] if alive or raw["state"] in _ENDED else "DIED"
        optional_fields = {key: raw.get(key) for key in _OPTIONAL_FIELDS}
        return DriverState(
            alive=alive,
            state=state,
            ahead=_measure_ahead(raw.get("at"), file.stat().st_mtime),
            open_since=raw.get("open_since") or {},
            skew=raw.get("skew") or {},
            **optional_fields,
        )
    except FileNotFoundError:
        return DriverState()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise make_unreadable_error(file, name, error) from error


def make_unreadable_error(file: Path, name: str, error: Exception) -> LakeError:
    """Build the error of a heartbeat that exists and cannot be read."""
    actual = str(error).splitlines()[0] if str(error) else type(error).__name__
    msg = f"File `{file}`, the heartbeat of `{name}`: expected the JSON object that a driver writes, got: {actual}."
    hint = "\nHint: a running driver rewrites it within seconds; if none is running, remove the file."
    return LakeError(msg + hint, runbook="TableUnreadable")


def list_running_drivers(settings: Settings) -> list[str]:
    """List the pipelines whose driver may be running, without those of replays (`NAME.stream-N`)."""
    names = sorted(path.parent.name for path in settings.run_dir.glob("*/heartbeat.json"))
    return [name for name in names if "." not in name and may_be_running(settings, name)]


def may_be_running(settings: Settings, name: str) -> bool:
    """Return whether a driver is running; also true if its heartbeat cannot be read."""
    try:
        return read_driver_state(settings, name).alive
    except LakeError:
        return True


def _measure_ahead(at: str | None, modified: float) -> float:
    return 0.0 if at is None else datetime.fromisoformat(at).timestamp() - modified


def _is_process_alive(raw: object) -> bool:
    identity = parse_identity(raw)
    return identity is not None and is_alive(identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedDriver:
    """Detached driver: the identity of its process, and its last heartbeat."""

    pipeline: str
    identity: Identity
    heartbeat: dict[str, object] | None  # None: missing or unreadable
    problem: str | None = None  # reason why one of its files cannot be read

    @property
    def alive(self) -> bool:
        """True if this process is running, and no other one with its pid."""
        return is_alive(self.identity)


def list_drivers(run_dir: Path) -> list[DetachedDriver]:
    """List all drivers that were started, alive or not, by name.

    Both files of a driver have the identity of its process, so that one unreadable file does not hide the driver.
    """
    drivers = []
    for path in sorted(run_dir.glob("*/driver.json")):
        start_record, start_error = _read(path)
        heartbeat, heartbeat_error = _read(path.parent / "heartbeat.json")
        identity = parse_identity(start_record) or parse_identity(heartbeat)
        if identity is not None:
            name, problem = path.parent.name, start_error or heartbeat_error
            drivers.append(DetachedDriver(pipeline=name, identity=identity, heartbeat=heartbeat, problem=problem))
    return drivers


def _read(path: Path) -> tuple[dict[str, object] | None, str | None]:
    """Read a JSON file; return its content or None, and the reason why it cannot be read."""
    try:
        return files.read_json_file(path), None
    except (CutoverError, OSError):
        return None, f"{path.name} cannot be read"
