"""What a driver says of itself in its heartbeat, and whether the process that wrote it still lives."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cutover.process import is_alive, parse_identity
from cutover.settings import Settings

_ENDED = {"FAILED", "STOPPED"}
_TOLD = ("at", "error", "runbook", "unread_since", "silent_since")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """What the driver's heartbeat says."""

    alive: bool = False
    state: str = "STOPPED"
    error: str | None = None
    runbook: str | None = None
    at: str | None = None  # ISO 8601, UTC: when it said so, by its clock; None: no driver ever ran here
    ahead: float = 0.0  # seconds that the driver's clock is ahead of the file that tells of it
    unread_since: str | None = None  # ISO 8601, UTC, by the driver's clock, as the next two
    silent_since: str | None = None
    open_since: Mapping[str, str] = field(default_factory=dict)  # partition -> a transaction holds its end since
    skew: Mapping[str, float] = field(default_factory=dict)  # partition -> driver clock - newest log time, seconds


def read_driver_state(settings: Settings, name: str) -> DriverState:
    """Return what the heartbeat says, and whether the process that wrote it still lives."""
    file = settings.run_dir / name / "heartbeat.json"
    try:
        raw: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        alive = raw["state"] not in _ENDED and _lives(raw)
        state = raw["state"] if alive or raw["state"] in _ENDED else "DIED"
        told = {key: raw.get(key) for key in _TOLD}
        return DriverState(
            alive=alive,
            state=state,
            ahead=_measure_ahead(raw.get("at"), file.stat().st_mtime),
            open_since=raw.get("open_since") or {},
            skew=raw.get("skew") or {},
            **told,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return DriverState()


def list_living_drivers(settings: Settings) -> list[str]:
    """Return the names of pipelines whose driver lives, those of replays (`NAME.stream-N`) left out."""
    names = sorted(path.parent.name for path in settings.run_dir.glob("*/heartbeat.json"))
    return [name for name in names if "." not in name and read_driver_state(settings, name).alive]


def _measure_ahead(told: str | None, written: float) -> float:
    return 0.0 if told is None else datetime.fromisoformat(told).timestamp() - written


def _lives(raw: object) -> bool:
    identity = parse_identity(raw)
    return identity is not None and is_alive(identity)
