"""Attaching to a driver: all concurrent requests get the one living driver."""

from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from cutover import files
from cutover.clock import SystemClock
from cutover.errors import LakeError
from cutover.settings import KafkaSettings, Settings
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import first_beat, only_driver


@pytest.fixture
def installation(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    text = 'from tests.integration.streaming import rig\n\nclicks = rig.pipeline("clicks")\n'
    (tmp_path / "clicks.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_KAFKA__TIMEOUT_SECONDS", "1")
    return settings.model_copy(update={"pipelines": tmp_path, "kafka": KafkaSettings()})


def test_the_slower_of_two_starts_attaches_to_the_faster_one(
    installation: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = heartbeat._start
    own_beat = first_beat("pid-1-one", SystemClock())

    def start_after_another_one(settings: Settings, name: str) -> psutil.Popen:
        files.write_json(heartbeat.run_folder(settings, name) / "heartbeat.json", asdict(own_beat))
        return start(settings, name)

    monkeypatch.setattr(heartbeat, "_start", start_after_another_one)
    with only_driver(heartbeat.run_folder(installation, "clicks"), "clicks"):
        assert heartbeat.ensure_driver(installation, "clicks").pid == own_beat.pid


def test_a_driver_without_a_log_reports_it_in_its_heartbeat(installation: Settings) -> None:
    with pytest.raises(LakeError, match=r"expected `kafka\.bootstrap_servers` or a broker") as refused:
        heartbeat.ensure_driver(installation, "clicks")

    last_beat = heartbeat.find_heartbeat(installation, "clicks")
    assert refused.value.runbook == "KafkaUnreachable"
    assert last_beat is not None
    assert (last_beat.state, last_beat.runbook, last_beat.exit_code) == ("FAILED", "KafkaUnreachable", 2)
