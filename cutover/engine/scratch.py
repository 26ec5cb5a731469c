"""Where queries put what does not fit into memory: a folder for each connection, under the installation's home."""

import os
import shutil
import uuid
from pathlib import Path

from cutover import process


def folder(home: Path) -> Path:
    """Return a name that no other connection uses, below `<home>/tmp/duckdb`; drop what processes left that died.

    DuckDB makes the folder when it needs it and removes it when the connection is closed.
    """
    root = home.resolve() / "tmp" / "duckdb"
    root.mkdir(parents=True, exist_ok=True)
    for old in root.glob("*-*"):
        pid = old.name.split("-")[0]
        if pid.isdigit() and process.identify(int(pid)) is None:
            shutil.rmtree(old, ignore_errors=True)
    return root / f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
