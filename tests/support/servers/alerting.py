"""Prometheus and Alertmanager as Debian has them: their own process group, loopback, free ports; and a web hook."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.support.suite.until import until


def find_program(*names: str) -> str:
    """Return the first program that is installed; else the test is skipped, but in CI, where it must run."""
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        reason = f"{names[0]} is not installed (apt install prometheus prometheus-alertmanager)"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return str(program)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    """Run a program in a separate process group while the block runs; its log is written to a file."""
    with log.open("wb") as log_file:
        child = subprocess.Popen(
            command, stdout=log_file, stderr=log_file, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait(20)


def fetch(url: str, body: object = None) -> Any:
    """Return the JSON that a server answers with; None where it does not answer."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data=data, headers={"Content-Type": "application/json"}), timeout=5) as answer:  # noqa: S310 -- loopback
            text = answer.read().decode()
    except (URLError, ConnectionError, TimeoutError):
        return None
    return json.loads(text) if text.startswith(("{", "[")) else text or "empty"


@contextmanager
def prometheus(folder: Path, config: str) -> Iterator[str]:
    """Run Prometheus with a configuration; yields its address."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [find_program("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with running(command, folder / "prometheus.log"):
        until(lambda: fetch(f"http://{address}/-/ready"), within=60)
        yield f"http://{address}"


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[str]:
    """Run Alertmanager with a configuration; yields its address. It searches for no peers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "alertmanager.yml").write_text(config, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [find_program("prometheus-alertmanager", "alertmanager")]
    command += [f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'data'}"]
    command += [f"--web.listen-address={address}", "--cluster.listen-address="]
    with running(command, folder / "alertmanager.log"):
        until(lambda: fetch(f"http://{address}/-/ready"), within=60)
        yield f"http://{address}"


class Hook:
    """Requests sent to a web hook: the path and the notification, in order."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Any]] = []

    def alerts(self, path: str) -> list[list[str]]:
        """Return the names of the alerts of each notification to a path."""
        notifications = [body for target, body in self.got if target == path]
        return [sorted(alert["labels"]["alertname"] for alert in body["alerts"]) for body in notifications]


@contextmanager
def listening(status: int = 200, *, parse: Callable[[bytes], Any] = json.loads) -> Iterator[tuple[str, Hook]]:
    """Serve a web hook on loopback, which answers with a status; yields its address and what comes, parsed."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.got.append((self.path, parse(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", hook
    finally:
        server.shutdown()
        server.server_close()
