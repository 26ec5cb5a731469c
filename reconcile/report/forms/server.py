"""Reports served on loopback, for a browser on this machine: files of the reports folder, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cutover.reconcile.report import script

HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Files below a folder, links followed nowhere, folders not listed; nothing on the terminal."""

    def send_head(self) -> Any:
        """Serve a file that lies inside the folder; anything else is not found."""
        root, path = Path(self.directory).resolve(), Path(self.translate_path(self.path))
        if not path.is_file() or path.name.startswith(".") or not path.resolve().is_relative_to(root):
            self.send_error(404)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """Forbid other scripts than the report's own, and requests elsewhere."""
        self.send_header("Content-Security-Policy", script.make_report_policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base's name
        """Say nothing."""


@contextmanager
def open_server(folder: Path, port: int) -> Iterator[ThreadingHTTPServer]:
    """Yield a server of a folder on loopback; `serve_forever` runs it.

    Args:
        folder: The reports.
        port: 0: any that is free.

    Raises:
        OSError: The port is in use.
    """
    with ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(folder))) as server:
        yield server
