"""Scenarios on the streaming path: the panes of the paper's figures, the examples, and what the reference says."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutover.cli import app
from cutover.log.kafka import LogClient
from cutover.panes import reference
from cutover.scenarios.reading.parse import parse_cases, parse_file
from cutover.settings import Settings
from cutover.streaming.simulation.runner import run_with
from tests.support.pages import figures
from tests.support.pages.capabilities import note_feature, note_setting
from tests.support.pages.figures import FIGURES, read_figure, scenario

TRIGGERS_OF_THE_BOOK = {3, 10, 14}  # a delay; on time always, empty and unchanged
EXAMPLES = [
    (file, case.case)
    for file in figures.EXAMPLES
    if file != figures.FILE
    for case in parse_cases(file)
    if case.case is None or case.case in TRIGGERS_OF_THE_BOOK
]


@pytest.fixture
def installed(kafka_settings: Settings, spark: SparkSession) -> Settings:  # noqa: ARG001 -- the session that runs share
    """Return settings with a broker and a Spark that runs."""
    return kafka_settings


@pytest.mark.parametrize("number", sorted(FIGURES))
def test_stream_emits_the_panes_of_a_figure(installed: Settings, number: int) -> None:
    setting = scenario(number).setting

    assert reference.run(setting) == run_with(installed, setting)
    note_feature(f"figure {number:02} of The Dataflow Model", "streaming")
    note_setting(setting, "reference", "streaming")


@pytest.mark.quick("viewing-sessions-None")
@pytest.mark.parametrize(("example", "case"), EXAMPLES, ids=lambda example: getattr(example, "stem", example))
def test_stream_gives_the_examples_of_the_documentation(installed: Settings, example: Path, case: int | None) -> None:
    setting = parse_file(example, case=case).setting

    assert reference.run(setting) == run_with(installed, setting)


def topics_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the topics of this process: other tests create topics at the same broker."""
    topics: list[str] = []
    create = LogClient.create_topic

    def create_and_note(client: LogClient, topic: str, **options: Any) -> None:
        topics.append(topic)
        create(client, topic, **options)

    monkeypatch.setattr(LogClient, "create_topic", create_and_note)
    return topics


def test_command_prints_what_the_reference_prints_and_leaves_nothing_behind(
    installed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(installed.home))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(installed.kafka.bootstrap_servers))
    (tmp_path / "figure.json").write_text(json.dumps(read_figure(14)), encoding="utf-8")
    topics = topics_made(monkeypatch)
    printed = {}

    for runner in ("reference", "streaming"):
        assert app.main(["simulate", str(tmp_path / "figure.json"), "--runner", runner, "--json"]) == 0
        printed[runner] = json.loads(capsys.readouterr().out)

    assert printed["streaming"] == printed["reference"] | {"runner": "streaming"}
    assert len(topics) == 1
    assert not set(topics) & set(LogClient(installed).topics())
    assert list((installed.home / "tmp").glob("simulate-*")) == []
