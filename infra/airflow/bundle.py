"""DAG files of an installation: parsed again when a definition changes, and seldom otherwise.

Airflow parses a DAG file again once it is newer than its last parse. Ours never change; the definitions that they read
do. Therefore an installation has copies of them in a folder of its own, whose times follow the definitions.
"""

import time
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from cutover import files
from cutover.settings import load_settings

PARSED_AGAIN = (0.0, 15.0, 60.0)
"""Seconds after a change at which files are touched: a parse that began before the change may end after a touch, and
Airflow removes a DAG that has gone only when a parse finds it missing some time after one that found it."""

Fingerprint = tuple[tuple[str, int, int, int], ...]


class DefinitionsBundle(LocalDagBundle):  # type: ignore[misc]  # Airflow brings no types
    """Copies of DAG files that are touched when a file of definitions is written, moved or removed.

    Args:
        source: Folder of the DAG files; names in its `.airflowignore` are not copied.
        path: Folder of the copies, of this installation alone.
    """

    def __init__(self, *, source: str, path: str, **kwargs: Any) -> None:
        super().__init__(path=path, **kwargs)
        self._source = Path(source)
        self._seen: Fingerprint | None = None
        self._changed_at = float("-inf")
        self._touches_due: tuple[float, ...] = ()

    def initialize(self) -> None:
        """Make the copies, which tasks load too."""
        copy_dag_files(self._source, self.path)
        super().initialize()

    def refresh(self) -> None:
        """Copy what has changed of the DAG files, and touch the copies if a definition has."""
        copy_dag_files(self._source, self.path)
        current, now = take_fingerprint(), time.monotonic()
        if self._seen not in {None, current}:
            self._changed_at, self._touches_due = now, PARSED_AGAIN
        self._seen = current
        due = tuple(wait for wait in self._touches_due if now - self._changed_at >= wait)
        if due:
            self._touches_due = self._touches_due[len(due) :]
            for copy in self.path.glob("*.py"):
                copy.touch()


def copy_dag_files(source: Path, folder: Path) -> None:
    """Write each DAG file whose copy differs, and remove copies of files that have gone."""
    ignored = set((source / ".airflowignore").read_text(encoding="utf-8").split())
    source_texts = {
        file.name: file.read_text(encoding="utf-8") for file in source.glob("*.py") if file.name not in ignored
    }
    files.private_folder(folder)
    for copy in folder.glob("*.py"):
        if copy.name not in source_texts:
            copy.unlink()
    for name, text in source_texts.items():
        copy = folder / name
        if not copy.is_file() or copy.read_text(encoding="utf-8") != text:
            files.write(copy, text)


def take_fingerprint() -> Fingerprint:
    """Return path, time, size and inode of every file that decides which DAGs there are, sorted by path."""
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
