import json
from pathlib import Path

import pytest

from cutover.cli import app


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipelines").mkdir()
    text = 'from tests.integration.streaming import rig\n\nclicks = rig.pipeline("clicks")\n'
    (tmp_path / "pipelines" / "clicks.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path / "pipelines"))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.setenv("CUTOVER_KAFKA__TIMEOUT_SECONDS", "1")
    return tmp_path


def test_unknown_pipeline_is_named_with_the_known_ones(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["stream", "nope"]) == 2
    assert "clicks" in capsys.readouterr().err
    assert not (home / "home").exists()


def test_two_ways_to_end_are_rejected(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["stream", "clicks", "--drain", "--final"]) == 2
    assert "expected one of --drain, --final, --detach, --stop" in capsys.readouterr().err
    assert not (home / "home").exists()


def test_stop_without_a_driver_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["stream", "clicks", "--stop"]) == 0
    assert "clicks: no driver has run yet." in capsys.readouterr().out
    assert not (home / "home" / "lake").exists()


def test_broker_that_does_not_answer_ends_the_stream_with_a_heartbeat(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["stream", "clicks", "--drain"]) == 2
    assert "Kafka at 127.0.0.1:9: expected a broker, the connection was refused" in capsys.readouterr().err
    beat = json.loads((home / "home" / "run" / "clicks" / "heartbeat.json").read_text(encoding="utf-8"))
    assert (beat["state"], beat["runbook"], beat["exit_code"]) == ("FAILED", "KafkaUnreachable", 2)
    assert not (home / "home" / "lake").exists()
