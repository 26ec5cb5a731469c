"""A PostgreSQL server of a test's own, as Debian has it: loopback, a free port, no socket file, a process group."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.servers.alerting import free_port, running
from tests.support.suite.until import until

_SERVER = (
    ("fsync", "off"),
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("shared_buffers", "16MB"),
)


def find_programs() -> Path:
    """Return the folder of `initdb` and `postgres`; without them the test is skipped and says so."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders or not (folders[-1] / "postgres").exists():
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    return folders[-1]


@contextmanager
def running_server(**settings: str) -> Iterator[str]:
    """Give the address of a new, empty server while the block runs; root starts it as a user, as it demands."""
    programs = find_programs()
    with tempfile.TemporaryDirectory(prefix="cutover-postgres-", ignore_cleanup_errors=True) as place:
        start: list[str] = []
        if os.getuid() == 0:
            owner = _find_user("postgres", "nobody")
            os.chown(place, owner.pw_uid, owner.pw_gid)
            start = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        data, port = Path(place) / "data", free_port()
        make = [*start, str(programs / "initdb"), "-D", str(data), "-U", "cutover", "-A", "trust", "-N", "-E", "UTF8"]
        subprocess.run([*make, "--locale=C"], check=True, capture_output=True, cwd=place)
        words = [word for name, value in (*_SERVER, *settings.items()) for word in ("-c", f"{name}={value}")]
        with running(
            [*start, str(programs / "postgres"), "-D", str(data), "-p", str(port), *words], Path(place) / "log"
        ):
            address = f"postgresql://cutover@127.0.0.1:{port}/postgres"
            until(lambda: _answers(address))
            yield address


def _find_user(*names: str) -> pwd.struct_passwd:
    """Return the first user that the system has."""
    users = {user.pw_name: user for user in pwd.getpwall()}
    return next(users[name] for name in names if name in users)


def _answers(address: str) -> bool:
    try:
        with psycopg.connect(address, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


def fetch_rows(address: str, query: str) -> list[tuple[Any, ...]]:
    """Run a query and return its rows."""
    with psycopg.connect(address) as connection:
        return connection.execute(query.encode()).fetchall()
