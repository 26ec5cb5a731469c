import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cutover.infra.processes import family
from cutover.process import Identity, identify, is_alive

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
PARENT = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
"""


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def identity(process: subprocess.Popen[bytes]) -> Identity:
    process_identity = identify(process.pid)
    assert process_identity is not None
    return process_identity


def test_a_process_that_ignores_the_request_is_ended_by_force(stubborn: subprocess.Popen[bytes]) -> None:
    process_identity = identity(stubborn)

    assert family.stop([process_identity], timeout=0.2) == []
    assert not is_alive(process_identity)


def test_a_reused_pid_is_not_the_same_process(stubborn: subprocess.Popen[bytes]) -> None:
    earlier = replace(identity(stubborn), started=identity(stubborn).started - 60)

    assert not is_alive(earlier)
    assert family.stop([earlier], timeout=0.1) == []
    assert stubborn.poll() is None


def test_members_of_a_session_are_found_though_their_leader_died() -> None:
    leader = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, start_new_session=True)
    leader_identity = identity(leader)
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    leader.wait()
    leader.stdout.close()

    members = family.session_of(leader_identity)

    assert [member.pid for member in members] == [child]
    assert family.stop(members, timeout=5) == []


def test_a_session_of_another_boot_has_no_members() -> None:
    assert family.session_of(Identity(pid=os.getsid(0), boot="another", started=0.0)) == []
