"""Identity of a process, stable across changes of the wall clock and reuse of its pid."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from cutover import process
from cutover.process import identify, identify_current, is_alive, parse_identity
from tests.support.suite.until import until


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    started = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield started
    started.kill()
    started.communicate()


def test_process_stays_itself_while_the_wall_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    identity, began = identify_current(), psutil.Process().create_time()
    boot_time = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot_time + 2)

    assert psutil.Process().create_time() == began + 2
    assert is_alive(identity)


def test_process_of_another_boot_or_start_is_another_one() -> None:
    me = identify_current()

    assert not is_alive(replace(me, boot="another"))
    assert not is_alive(replace(me, started=me.started - 0.01))


def test_zombie_is_not_alive(child: "subprocess.Popen[bytes]") -> None:
    identity = identify(child.pid)
    child.kill()
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)

    assert identity is not None
    assert (is_alive(identity), identify(child.pid)) == (False, None)


def test_start_is_counted_from_the_boot(child: "subprocess.Popen[bytes]") -> None:
    identity = identify(child.pid)

    assert identity is not None
    assert 0 <= time.clock_gettime(time.CLOCK_BOOTTIME) - identity.started < 60


def test_unused_pid_is_not_alive() -> None:
    assert identify(2**22 + 1) is None


def test_without_an_id_of_the_boot_the_start_is_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_BOOT", Path("/nowhere"))
    identity = identify(os.getpid())

    assert identity is not None
    assert (identity.boot, identity.started) == ("", psutil.Process().create_time())


def test_identity_round_trips_through_json() -> None:
    assert parse_identity(asdict(identify_current())) == identify_current()


@pytest.mark.parametrize("raw", [None, [], {}, {"pid": "1", "boot": "b", "started": 1.0}, {"pid": 1, "started": 1.0}])
def test_a_record_without_pid_boot_and_start_is_not_alive(raw: object) -> None:
    assert parse_identity(raw) is None
