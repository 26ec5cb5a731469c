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
    heartbeat: dict[str, object] | None  # None: there is none yet, or it cannot be read
    problem: str | None = None  # why a file of it cannot be read

    @property
    def alive(self) -> bool:
        """Return whether this very process runs."""
        return is_alive(self.identity)


def list_drivers(run_dir: Path) -> list[DetachedDriver]:
    """Return the drivers that were started, living or not, by name.

    Both files of a driver name its process, so that one that cannot be read hides no driver.
    """
    drivers = []
    for path in sorted(run_dir.glob("*/driver.json")):
        started, first_error = _read(path)
        heartbeat, second = _read(path.parent / "heartbeat.json")
        identity = parse_identity(started) or parse_identity(heartbeat)
        if identity is not None:
            name, problem = path.parent.name, first_error or second
            drivers.append(DetachedDriver(pipeline=name, identity=identity, heartbeat=heartbeat, problem=problem))
    return drivers


def _read(path: Path) -> tuple[dict[str, object] | None, str | None]:
    """Return what a file holds, and why it cannot be read."""
    try:
        return files.read_json(path), None
    except (CutoverError, OSError):
        return None, f"{path.name} cannot be read"
