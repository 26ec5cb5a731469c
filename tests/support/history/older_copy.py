"""A folder of the lake as it was before something was written to it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutover.settings import Settings


@contextmanager
def put_back(settings: Settings, folder: str | Path) -> Iterator[None]:
    """Put a folder back as it was, once what is written inside the block is there."""
    kept = settings.home / "copy"
    shutil.copytree(folder, kept)
    yield
    shutil.rmtree(folder)
    shutil.move(kept, folder)
