"""What a driver says of itself in its heartbeat, and whether the process that wrote it still lives."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cutover.errors import LakeError
from cutover.process import is_alive, parse_identity
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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """What the driver's heartbeat says."""

    alive: bool = False
    state: str = "STOPPED"
    run_id: str | None = None
    epoch: int | None = None  # newest that it knew: its own, or the one that it started after
    error: str | None = None
    runbook: str | None = None
    losses_seen: int | None = None  # sequence of the first recorded loss that it knew nothing of as it started
    at: str | None = None  # ISO 8601, UTC: when it said so, by its clock; None: no driver ever ran here
    ahead: float = 0.0  # seconds that the driver's clock is ahead of that of the file
    unread_since: str | None = None  # ISO 8601, UTC, by the driver's clock, as the next three
    silent_since: str | None = None
    quiet_since: str | None = None  # no partition has grown since
    open_since: Mapping[str, str] = field(default_factory=dict)  # partition -> a transaction holds its end since
    skew: Mapping[str, float] = field(default_factory=dict)  # partition -> driver clock - newest log time, seconds


def read_driver_state(settings: Settings, name: str) -> DriverState:
    """Return what the heartbeat says, and whether the process that wrote it still lives.

    Raises:
        LakeError: The heartbeat exists and cannot be read, so it is unknown whether a driver runs.
    """
    file = settings.run_dir / name / "heartbeat.json"
    try:
        raw: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(raw["state"], str):
            msg = f"a state that is no text: {raw['state']!r:.40}"
            raise TypeError(msg)  # noqa: TRY301 -- as any other heartbeat that is none
        alive = raw["state"] not in _ENDED and _is_process_alive(raw)
        state = raw["state"] if alive or raw["state"] in _ENDED else "DIED"
        driver_state = {key: raw.get(key) for key in _OPTIONAL_FIELDS}
        return DriverState(
            alive=alive,
            state=state,
            ahead=_measure_ahead(raw.get("at"), file.stat().st_mtime),
            open_since=raw.get("open_since") or {},
            skew=raw.get("skew") or {},
            **driver_state,
        )
    except FileNotFoundError:
        return DriverState()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise make_unreadable_error(file, name, error) from error


def make_unreadable_error(file: Path, name: str, error: Exception) -> LakeError:
    """Return the error of a heartbeat that exists and cannot be read."""
    actual = str(error).splitlines()[0] if str(error) else type(error).__name__
    msg = f"File `{file}`, the heartbeat of `{name}`: expected the JSON object that a driver writes, got: {actual}."
    hint = "\nHint: a driver that lives writes it again within seconds; without one, remove the file."
    return LakeError(msg + hint, runbook="TableUnreadable")


def list_running_drivers(settings: Settings) -> list[str]:
    """Return the names of pipelines whose driver may live, those of replays (`NAME.stream-N`) left out."""
    names = sorted(path.parent.name for path in settings.run_dir.glob("*/heartbeat.json"))
    return [name for name in names if "." not in name and may_be_running(settings, name)]


def may_be_running(settings: Settings, name: str) -> bool:
    """Return whether a driver lives, or its heartbeat cannot be read, so that no one knows."""
    try:
        return read_driver_state(settings, name).alive
    except LakeError:
        return True


def _measure_ahead(at: str | None, modified: float) -> float:
    return 0.0 if at is None else datetime.fromisoformat(at).timestamp() - modified


def _is_process_alive(raw: object) -> bool:
    identity = parse_identity(raw)
    return identity is not None and is_alive(identity)
