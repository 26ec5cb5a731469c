"""The trigger without a triggerer: real heartbeat files, real processes."""

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string  # noqa: F401 -- Airflow must be importable before our trigger is
from heartbeat_trigger import DriverEnd, HeartbeatTrigger, stop_or_kill_driver

from cutover.process import identify

DEADLINE = 60


@pytest.fixture
def process(tmp_path: Path) -> "Any":
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as started:
        yield started
        started.kill()


def write_beat(home: Path, process: "subprocess.Popen[bytes]", **more: object) -> None:
    folder = home / "run" / "flights"
    folder.mkdir(parents=True, exist_ok=True)
    identity = identify(process.pid)
    assert identity is not None
    value = {**asdict(identity), "run_id": "r", "epoch": 41}
    value |= {"at": "2026-01-01T00:00:00Z", "state": "RUNNING", **more}
    (folder / "heartbeat.json").write_text(json.dumps(value))


async def first_event(trigger: HeartbeatTrigger) -> DriverEnd:
    async for event in trigger.run():
        return DriverEnd.from_event(event.payload)
    raise AssertionError


def test_another_triggerer_can_rebuild_it() -> None:
    path, arguments = HeartbeatTrigger("flights", 41, 2).serialize()

    assert path == "heartbeat_trigger.HeartbeatTrigger"
    assert HeartbeatTrigger(**arguments).serialize() == (path, arguments)


def test_killed_driver_fires_it(
    home: Path, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heartbeat_trigger.POLL", 0.05)
    monkeypatch.setattr("heartbeat_trigger.FIRST_DELAY", 0.05)
    write_beat(home, process, epoch=57)

    async def kill_while_watched() -> DriverEnd:
        watch = asyncio.create_task(first_event(HeartbeatTrigger("flights", 41, 0)))
        await asyncio.sleep(0.2)
        assert not watch.done()
        process.kill()
        return await asyncio.wait_for(watch, DEADLINE)

    end = asyncio.run(kill_while_watched())

    assert (end.outcome, end.epoch, end.failures) == ("gone", 57, 1)


def test_refusal_fires_it_without_a_wait(home: Path, process: "subprocess.Popen[bytes]") -> None:
    write_beat(home, process, state="FAILED", exit_code=2, error="the log is another one", runbook="LogDataLost")

    end = asyncio.run(first_event(HeartbeatTrigger("flights", 41, 0)))

    assert (end.outcome, end.delay) == ("refused", 0)


def test_stop_by_hand_goes_on_when_airflow_cancels_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_ended = home / "done"

    def slow_stop(_: HeartbeatTrigger) -> None:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)"], check=True)
        stop_ended.touch()

    monkeypatch.setattr(HeartbeatTrigger, "_stop", slow_stop)

    async def cancelled() -> None:
        kill = asyncio.create_task(HeartbeatTrigger("flights", 41, 0).on_kill())
        await asyncio.sleep(0.1)
        kill.cancel()
        with pytest.raises(asyncio.CancelledError):
            await kill
        async with asyncio.timeout(DEADLINE):
            while not stop_ended.exists():  # noqa: ASYNC110 -- a file, polled to a deadline
                await asyncio.sleep(0.05)

    asyncio.run(cancelled())

    assert stop_ended.exists()


def test_restart_of_the_triggerer_leaves_the_driver_alone(home: Path, process: "subprocess.Popen[bytes]") -> None:
    write_beat(home, process)

    asyncio.run(HeartbeatTrigger("flights", 41, 0).cleanup())

    assert process.poll() is None
    assert not (home / "run" / "flights" / "stop").exists()


def test_stop_by_hand_ends_a_driver_whose_definition_is_gone_at_its_own_pace(
    home: Path, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTOVER_PIPELINES", str(home / "nowhere"))
    write_beat(home, process)
    killed: list[int] = []
    monkeypatch.setattr("psutil.Process.kill", lambda process_killed: killed.append(process_killed.pid))
    touch = Path.touch

    def touch_and_end(path: Path) -> None:
        touch(path)
        process.communicate()

    monkeypatch.setattr(Path, "touch", touch_and_end)
    stop_or_kill_driver("flights")

    assert (home / "run" / "flights" / "stop").exists()
    assert killed == []
