"""SIGKILL inside named points: just before a commit, just after it, and of the JVM alone; then the books balance."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from cutover.settings import Settings
from streaming import driver, heartbeat
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.until import until

CAP = 20
EVENTS = [Event(id=i, minute=i / 3, key="ab"[i % 2], partition=i % 2) for i in range(100)]
MORE = [Event(id=1000 + i, minute=40, partition=i % 2) for i in range(10)]
MORE += [Event(id=2000 + i, minute=0, logged=40, partition=i % 2) for i in range(5)]
WITHIN = 120.0


@pytest.fixture
def place(kafka_settings: Settings, topic_name: str, spark: SparkSession) -> tuple[Settings, str]:  # noqa: ARG001 -- drives on
    """Return settings and a topic with a hundred records."""
    settings = rig.fast(kafka_settings)
    rig.make_topic(settings, topic_name, partitions=2)
    rig.send(settings, topic_name, EVENTS)
    return settings, topic_name


@contextmanager
def blocked(
    settings: Settings, topic: str, point: str, epoch: int, cap: int = CAP
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """Run a driver in a process group of its own that blocks at a point; end the group at the end."""
    marker = settings.home / "marker"
    marker.unlink(missing_ok=True)
    told = {
        "home": str(settings.home),
        "bootstrap": settings.kafka.bootstrap_servers,
        "topic": topic,
        "cap": cap,
        "point": point,
        "epoch": epoch,
        "marker": str(marker),
    }
    with (settings.home / "blocked.log").open("wb") as out:
        command = [sys.executable, "-m", "tests.e2e.streaming.blocked_driver", json.dumps(told)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            yield process, marker
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def jvm_of(process: "subprocess.Popen[bytes]") -> psutil.Process:
    """Return the driver's JVM."""
    return next(p for p in psutil.Process(process.pid).children(recursive=True) if "java" in p.name())


def read_marker(marker: Path) -> list[str]:
    """Return the marker's words, empty until it is complete."""
    text = marker.read_text(encoding="utf-8") if marker.exists() else ""
    return text.split() if text.endswith("\n") else []


def test_killed_before_the_commit_redoes_the_epoch_with_another_end(place: tuple[Settings, str]) -> None:
    settings, topic = place
    pipeline = rig.pipeline(topic, cap=200)
    with blocked(settings, topic, "epoch.aggregated", 2) as (process, marker):
        found = until(lambda: read_marker(marker), WITHIN)
        jvm = jvm_of(process)
        committed = rig.records(settings, pipeline)
        os.kill(process.pid, signal.SIGKILL)  # the Python parent alone
        assert process.wait() == -signal.SIGKILL
        until(lambda: not heartbeat.is_alive(jvm.pid, jvm.create_time()) if jvm.is_running() else True, 30)

    assert ["epoch.aggregated", "2", str(process.pid)] == found
    assert [e.epoch for e in committed] == [0, 1]
    rig.send(settings, topic, MORE)
    driver.run(settings, pipeline, until="drain")  # a larger cap: the epoch has another end now
    after = rig.records(settings, pipeline)

    assert committed == after[:2]
    assert 100 - sum(committed[1].end.values()) + len(MORE) == after[2].records
    assert rig.gaps(after) == []
    assert rig.expected([*EVENTS, *MORE]) == rig.counted(settings, pipeline)


def test_killed_after_the_commit_reads_nothing_again(place: tuple[Settings, str]) -> None:
    settings, topic = place
    pipeline = rig.pipeline(topic, cap=CAP)
    with blocked(settings, topic, "epoch.committed", 2) as (process, marker):
        found = until(lambda: read_marker(marker), WITHIN)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    before = rig.records(settings, pipeline)

    driver.run(settings, pipeline, until="drain")
    after = rig.records(settings, pipeline)

    assert ["epoch.committed", "2", str(process.pid)] == found
    assert [e.epoch for e in before] == [0, 1, 2]
    assert before == after[:3]
    assert before[2].end == after[3].start
    assert rig.expected(EVENTS) == rig.counted(settings, pipeline)


def test_driver_whose_jvm_died_ends_with_a_clear_line(place: tuple[Settings, str]) -> None:
    settings, topic = place
    pipeline = rig.pipeline(topic, cap=CAP)
    with blocked(settings, topic, "epoch.committed", -1) as (process, _):  # blocks nowhere

        def epoch() -> int | None:
            beat = heartbeat.read(settings, pipeline.name)
            return None if beat is None else beat.epoch

        until(lambda: (epoch() or 0) >= 3, WITHIN)
        jvm_of(process).kill()
        code = process.wait(30)
    last = heartbeat.read(settings, pipeline.name)

    assert code == 2
    assert last is not None
    assert (last.state, last.runbook) == ("FAILED", "StreamNotRunning")
    assert last.error == "Stream of clicks: expected Spark's JVM, it ended."
