"""Streaming drivers of this installation, as they record themselves in `<home>/run/<pipeline>/`."""

from dataclasses import dataclass
from pathlib import Path

from cutover import files
from cutover.errors import CutoverError
from cutover.process import Identity, is_alive, parse_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedDriver:
    """A detached driver: who it is, and what it said last."""

    pipeline: str
    identity: Identity
    heartbeat: dict[str, object] | None

    @property
    def alive(self) -> bool:
        """Return whether this very process runs."""
        return is_alive(self.identity)


def list_drivers(run_dir: Path) -> list[DetachedDriver]:
    """Return the drivers that were started, living or not, by name."""
    drivers = []
    for path in sorted(run_dir.glob("*/driver.json")):
        identity = parse_identity(_read(path))
        if identity is not None:
            heartbeat = _read(path.parent / "heartbeat.json")
            drivers.append(DetachedDriver(pipeline=path.parent.name, identity=identity, heartbeat=heartbeat))
    return drivers


def _read(path: Path) -> dict[str, object] | None:
    try:
        return files.read_json(path)
    except CutoverError:  # half of a file is as good as none: the process tells by itself whether it lives
        return None
