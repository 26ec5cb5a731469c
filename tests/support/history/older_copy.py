"""A folder of the lake as it was before something was written to it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutover.settings import Settings


@contextmanager
def restored_after(settings: Settings, folder: str | Path) -> Iterator[None]:
    """Restore a folder to its state before the block, after the block has written to it."""
    copy = settings.home / "copy"
    shutil.copytree(folder, copy)
    yield
    shutil.rmtree(folder)
    shutil.move(copy, folder)
