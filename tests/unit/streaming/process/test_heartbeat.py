import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cutover import files
from cutover.clock import SystemClock
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat
from tests.support.suite.until import until


def test_own_process_is_alive() -> None:
    me = first_beat("run", SystemClock())

    assert me.alive


def test_process_with_another_start_time_is_another_one() -> None:
    me = first_beat("run", SystemClock())

    assert not replace(me, started=me.started - 60).alive


def test_ended_driver_is_not_alive() -> None:
    assert not replace(first_beat("run", SystemClock()), state="STOPPED").alive


def test_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    me = first_beat("run", SystemClock())
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)

    assert not replace(me, pid=child.pid).alive
    child.wait()


def test_last_beat_has_the_outcome(settings: Settings) -> None:
    path = heartbeat.run_folder(settings, "clicks") / "heartbeat.json"
    beat = HeartbeatWriter(path, first_beat("run", SystemClock()), seconds=60, clock=SystemClock())
    beat.start()
    beat.update(epoch=41, lag=3)
    beat.end(state="FAILED", error="no", runbook="StreamFenced", exit_code=2)
    last_beat = heartbeat.find_heartbeat(settings, "clicks")

    assert last_beat is not None
    assert (last_beat.state, last_beat.epoch, last_beat.error, last_beat.runbook, last_beat.exit_code) == (
        "FAILED",
        41,
        "no",
        "StreamFenced",
        2,
    )


def test_end_during_a_beat_is_the_last_beat(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    path = heartbeat.run_folder(settings, "p") / "heartbeat.json"
    writing, proceed, write = threading.Event(), threading.Event(), files.write_json

    def slow(file: Path, value: object) -> None:
        if threading.current_thread().name == "heartbeat" and not writing.is_set():
            writing.set()
            proceed.wait(10)
        write(file, value)

    monkeypatch.setattr(files, "write_json", slow)
    beat = HeartbeatWriter(path, first_beat("run", SystemClock()), seconds=0.01, clock=SystemClock())
    beat.start()
    assert writing.wait(10)
    threading.Timer(0.2, proceed.set).start()
    beat.end(state="FAILED", exit_code=2)

    last_beat = heartbeat.find_heartbeat(settings, "p")
    assert last_beat is not None
    assert (last_beat.state, last_beat.exit_code) == ("FAILED", 2)


def test_change_of_state_is_written_at_once(settings: Settings) -> None:
    path = heartbeat.run_folder(settings, "clicks") / "heartbeat.json"
    beat = HeartbeatWriter(path, first_beat("run", SystemClock()), seconds=3600, clock=SystemClock())
    beat.start()
    beat.update(state="BACKPRESSURED")
    until(lambda: json.loads(path.read_text(encoding="utf-8"))["state"] == "BACKPRESSURED")
    beat.end(state="STOPPED")


def test_pipeline_without_a_driver_has_no_heartbeat(settings: Settings) -> None:
    assert heartbeat.find_heartbeat(settings, "clicks") is None


def test_damaged_heartbeat_reads_as_none(settings: Settings) -> None:
    place = heartbeat.run_folder(settings, "clicks")
    place.mkdir(parents=True)
    (place / "heartbeat.json").write_text("{", encoding="utf-8")

    assert heartbeat.find_heartbeat(settings, "clicks") is None


def test_replaced_file_leaves_no_other_file(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"pid": 1})

    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
