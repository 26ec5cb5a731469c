import os
import signal
from collections.abc import Iterator

import pytest

from cutover.infra import installation
from cutover.infra.broker import server
from cutover.infra.processes import family
from cutover.infra.processes.supervisor import ProgramState, Supervisor
from cutover.process import identify, is_alive
from cutover.settings import Settings
from tests.support.suite.until import until


def quiet(_text: str) -> None:
    pass


@pytest.fixture
def running(settings: Settings) -> Iterator[installation.Running]:
    yield installation.start_installation(settings, broker_only=True, report_progress=quiet)
    installation.stop_installation(settings, report_progress=quiet)


def broker_state(settings: Settings) -> ProgramState:
    return next(s for s in Supervisor(settings.home).states() if s.name == "broker")


def test_broker_comes_back_when_it_is_killed_and_leaves_nothing_when_stopped(
    settings: Settings, running: installation.Running
) -> None:
    killed_broker = broker_state(settings)
    os.kill(killed_broker.pid, signal.SIGKILL)

    second = until(lambda: (s := broker_state(settings)).pid not in {0, killed_broker.pid} and s, within=60)
    assert until(lambda: server.reachable(running.bootstrap), within=90) == 1

    leader = Supervisor(settings.home).identity()
    assert leader is not None
    stopped = installation.stop_installation(settings, report_progress=quiet)

    assert stopped.programs == ("broker",)
    assert second
    assert family.session_of(leader) == []
    assert server.reachable(running.bootstrap) is None


@pytest.mark.quick
def test_a_second_start_changes_nothing(settings: Settings, running: installation.Running) -> None:
    pid = broker_state(settings).pid

    running_again = installation.start_installation(settings, broker_only=True, report_progress=quiet)

    assert running_again.bootstrap == running.bootstrap
    assert broker_state(settings).pid == pid


def test_what_a_killed_supervisor_left_is_cleared_before_the_next_start(
    settings: Settings, running: installation.Running
) -> None:
    leader = Supervisor(settings.home).identity()
    orphan = identify(broker_state(settings).pid)
    assert leader is not None
    assert orphan is not None
    os.kill(leader.pid, signal.SIGKILL)
    assert family.wait_for_end([leader], timeout=10) == []

    running_again = installation.start_installation(settings, broker_only=True, report_progress=quiet)

    assert running_again.bootstrap == running.bootstrap
    assert not is_alive(orphan)


def test_down_waits_for_a_supervisor_that_is_ending(settings: Settings, running: installation.Running) -> None:
    leader = Supervisor(settings.home).identity()
    assert leader is not None
    os.kill(leader.pid, signal.SIGTERM)

    installation.stop_installation(settings, report_progress=quiet)

    assert family.session_of(leader) == []
    assert server.reachable(running.bootstrap) is None
