import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from cutover import driver_state, files
from cutover.infra import installation
from cutover.infra.processes import family
from cutover.process import Identity, identify, is_alive
from cutover.settings import Settings

DRIVER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def driver() -> Iterator[Identity]:
    process = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    identity = identify(process.pid)
    assert identity is not None
    yield identity
    family.stop(family.session_of(identity), timeout=1)
    process.wait()
    process.stdout.close()


def record(settings: Settings, identity: Identity) -> None:
    files.write_json(settings.run_dir / "flights" / "driver.json", asdict(identity))


@pytest.mark.quick
def test_down_ends_a_driver_and_what_it_started(settings: Settings, driver: Identity) -> None:
    record(settings, driver)

    stopped = installation.stop_installation(settings, report_progress=lambda _text: None)

    assert stopped.drivers == ("flights",)
    assert family.session_of(driver) == []


def test_down_leaves_a_process_alone_that_was_given_the_drivers_pid(settings: Settings, driver: Identity) -> None:
    record(settings, replace(driver, started=driver.started - 60))

    stopped = installation.stop_installation(settings, report_progress=lambda _text: None)

    assert stopped.drivers == ()
    assert is_alive(driver)


def test_a_driver_is_listed_with_its_heartbeat(settings: Settings, driver: Identity) -> None:
    record(settings, driver)
    files.write_json(settings.run_dir / "flights" / "heartbeat.json", {"epoch": 41})

    listed_drivers = driver_state.list_drivers(settings.run_dir)

    assert [(d.pipeline, d.alive, d.heartbeat) for d in listed_drivers] == [("flights", True, {"epoch": 41})]
