"""A drain from a shell: the terminal has what the command says and nothing of its engines; the last line says where."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutover.settings import Settings
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

EVENTS = [Event(id=i, minute=i / 3, partition=i % 2) for i in range(50)]


@pytest.fixture
def drained(kafka_settings: Settings, topic_name: str, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    """Drain a log of 50 records in a separate process."""
    (tmp_path / "clicks.py").write_text(
        f"from tests.integration.streaming import rig\n\nclicks = rig.pipeline({topic_name!r})\n", encoding="utf-8"
    )
    rig.make_topic(kafka_settings, topic_name, partitions=2)
    rig.send(kafka_settings, topic_name, EVENTS)
    variables = {
        "CUTOVER_HOME": str(tmp_path / "home"),
        "CUTOVER_PIPELINES": str(tmp_path),
        "CUTOVER_KAFKA__BOOTSTRAP_SERVERS": str(kafka_settings.kafka.bootstrap_servers),
        "PYTHONPATH": str(Path(rig.__file__).parents[3]),
    }
    return subprocess.run(
        [sys.executable, "-m", "cutover.cli.app", "stream", "clicks", "--drain"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_drain_says_what_was_meant_and_its_last_line_names_the_log_of_its_engines(
    drained: "subprocess.CompletedProcess[str]", tmp_path: Path
) -> None:
    *events, last_line = drained.stderr.splitlines()

    assert drained.returncode == 0
    assert re.fullmatch(r"clicks: stopped, epoch 0, watermark \S+, 0 unread \(pid \d+\)\n", drained.stdout)
    assert [json.loads(line)["event"] for line in events] == [
        "version_created",
        "stream_begins",
        "epoch_committed",
        "stream_stopped",
    ]
    home, _, files = last_line.removeprefix("Engine log in ").partition(": ")
    engine, jvm = [Path(home) / file for file in files.split(", ")]
    assert (engine.parent, jvm.name) == (tmp_path / "home" / "logs" / "engine", f"{engine.stem}.spark.log")
    assert " WARN " in jvm.read_text(encoding="utf-8")
    assert [file.stat().st_mode & 0o777 for file in (engine, jvm)] == [0o600, 0o600]
