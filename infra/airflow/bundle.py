"""DAG bundle of an installation, whose files are parsed again when a definition changes, and rarely otherwise.

Airflow parses a DAG file again if it was modified after the last parse. Cutover's DAG files do not change, but the
definitions that they load do. Therefore each installation has copies of the DAG files, which are touched after a
definition has changed.
"""

import time
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from cutover import files
from cutover.settings import load_settings

TOUCH_DELAYS = (0.0, 15.0, 60.0)
"""Seconds after a change at which the copies are touched. A parse that began before the change may end after a touch,
and Airflow removes a deleted DAG only if a parse misses it some time after a parse that found it."""

Fingerprint = tuple[tuple[str, int, int, int], ...]


class DefinitionsBundle(LocalDagBundle):  # type: ignore[misc]  # Airflow brings no types
    """Bundle of copied DAG files that are touched when a definition file is written, moved or removed.

    Args:
        source: Folder of the DAG files; names in its `.airflowignore` are not copied.
        path: Folder of the copies of this installation.
    """

    def __init__(self, *, source: str, path: str, **kwargs: Any) -> None:
        super().__init__(path=path, **kwargs)
        self._source = Path(source)
        self._fingerprint: Fingerprint | None = None
        self._changed_at = float("-inf")
        self._pending_touches: tuple[float, ...] = ()

    def initialize(self) -> None:
        """Copy the DAG files, which tasks load as well."""
        copy_dag_files(self._source, self.path)
        super().initialize()

    def refresh(self) -> None:
        """Copy changed DAG files, and touch the copies if a definition has changed."""
        copy_dag_files(self._source, self.path)
        current, now = compute_fingerprint(), time.monotonic()
        if self._fingerprint not in {None, current}:
            self._changed_at, self._pending_touches = now, TOUCH_DELAYS
        self._fingerprint = current
        due = tuple(delay for delay in self._pending_touches if now - self._changed_at >= delay)
        if due:
            self._pending_touches = self._pending_touches[len(due) :]
            for copy in self.path.glob("*.py"):
                copy.touch()


def copy_dag_files(source: Path, folder: Path) -> None:
    """Copy each DAG file that differs from its copy, and remove copies of deleted files."""
    ignored = set((source / ".airflowignore").read_text(encoding="utf-8").split())
    source_texts = {
        file.name: file.read_text(encoding="utf-8") for file in source.glob("*.py") if file.name not in ignored
    }
    files.make_private_folder(folder)
    for copy in folder.glob("*.py"):
        if copy.name not in source_texts:
            copy.unlink()
    for name, text in source_texts.items():
        copy = folder / name
        if not copy.is_file() or copy.read_text(encoding="utf-8") != text:
            files.write_atomically(copy, text)


def compute_fingerprint() -> Fingerprint:
    """List path, modification time, size and inode of all files that determine the DAGs, sorted by path."""
    settings = load_settings()
    candidates = [*settings.pipelines.rglob("*.py"), settings.home / "samples.json"]
    entries: list[tuple[str, int, int, int]] = []
    for file in candidates:
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue
        entries.append((str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(sorted(entries))
