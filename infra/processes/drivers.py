"""Streaming drivers of this installation, read from their files in `<home>/run/<pipeline>/`."""

from dataclasses import dataclass
from pathlib import Path

from cutover import files
from cutover.errors import CutoverError
from cutover.process import Identity, is_alive, parse_identity


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
