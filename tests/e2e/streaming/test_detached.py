"""A detached driver: started once, found again, stopped by SIGTERM with its epoch finished."""

import json
from pathlib import Path

import psutil
import pytest

from cutover.cli import app
from cutover.definition.loading import catalogue
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.suite.until import until

EVENTS = [Event(id=i, minute=i / 3, partition=i % 2) for i in range(50)]


@pytest.fixture
def installed(kafka_settings: Settings, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return an installation with one definition file, which a separate process finds by its environment."""
    (tmp_path / "clicks.py").write_text(
        f"from tests.integration.streaming import rig\n\nclicks = rig.pipeline({topic_name!r}, cap=20)\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(kafka_settings.kafka.bootstrap_servers))
    monkeypatch.setenv("CUTOVER_STREAM__HEARTBEAT_SECONDS", "0.2")
    monkeypatch.setenv("AIRFLOW_HOME", "nowhere")
    rig.make_topic(kafka_settings, topic_name, partitions=2)
    rig.send(kafka_settings, topic_name, EVENTS)
    return kafka_settings.model_copy(update={"pipelines": tmp_path})


def test_detached_driver_is_found_again_and_stops_when_asked(installed: Settings) -> None:
    pipeline = catalogue.get(installed, "clicks")
    first_driver = heartbeat.ensure_driver(installed, pipeline.name)
    try:
        second_driver = heartbeat.ensure_driver(installed, pipeline.name)
        environment = psutil.Process(first_driver.pid).environ()
        until(
            lambda: (beat := heartbeat.find_heartbeat(installed, "clicks")) is not None and (beat.epoch or 0) >= 2, 60
        )
    finally:
        last_beat = heartbeat.stop_driver(installed, pipeline.name)

    assert first_driver.identity == second_driver.identity
    assert "AIRFLOW_HOME" not in environment
    assert last_beat is not None
    assert ("STOPPED", 0, first_driver.pid) == (last_beat.state, last_beat.exit_code, last_beat.pid)
    assert rig.expect_cells(EVENTS) == rig.count_by_cell(PipelineLake(installed, pipeline))
    assert not psutil.pid_exists(first_driver.pid) or psutil.Process(first_driver.pid).status() == psutil.STATUS_ZOMBIE


def test_driver_whose_definition_is_gone_is_found_watched_and_stopped_by_its_name(
    installed: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(installed.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(installed.pipelines))
    pipeline = catalogue.get(installed, "clicks")
    first_driver = heartbeat.ensure_driver(installed, "clicks")
    try:
        until(
            lambda: (beat := heartbeat.find_heartbeat(installed, "clicks")) is not None and (beat.epoch or 0) >= 2, 60
        )
        (installed.pipelines / "clicks.py").unlink()
        second_driver = heartbeat.ensure_driver(installed, "clicks")
        watched = app.main(["watch", "clicks", "--once", "--json"])
        output = capsys.readouterr()
        rows = app.main(["sql", "clicks", "SELECT sum(clicks)::bigint AS n FROM streaming", "--json"])
        answer = json.loads(capsys.readouterr().out)
    finally:
        stopped = app.main(["stream", "clicks", "--stop"])

    assert (watched, rows, stopped) == (0, 0, 0)
    assert first_driver.identity == second_driver.identity
    assert json.loads(output.out)["driver"]["alive"]
    assert "clicks: the definition does not load" in output.err
    assert 0 < answer["n"] <= len(EVENTS)
    assert rig.expect_cells(EVENTS) == rig.count_by_cell(PipelineLake(installed, pipeline))
    assert not psutil.pid_exists(first_driver.pid) or psutil.Process(first_driver.pid).status() == psutil.STATUS_ZOMBIE
