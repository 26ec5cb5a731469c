"""`cutover simulate`: one JSON object, a table, exit code 2 with a message, and the examples of the documentation."""

import json
from pathlib import Path
from typing import Any

import pytest

from cutover import cli
from tests.support.figures import given

EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "scenarios").glob("*.json"))


@pytest.fixture
def figure(tmp_path: Path) -> Path:
    """Return figures 6 and 14 in one file."""
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"cases": [given(6), given(14)]}), encoding="utf-8")
    return file


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main(["simulate", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def retraction(start: str, end: str, value: int) -> dict[str, Any]:
    """Return a retraction in the on-time firing of 12:07:37, as printed."""
    return pane(start, end, -value) | {"kind": "retraction", "retracts": value, "with_pane": "on_time"}


def pane(start: str, end: str, value: int) -> dict[str, Any]:
    """Return a pane of the on-time firing of 12:07:37, as printed."""
    return {
        "window_start": start,
        "window_end": end,
        "key": None,
        "value": value,
        "kind": "on_time",
        "timing": "on_time",
        "index": 1,
        "processing_time": "12:07:37",
    }


def test_json_is_one_object_with_the_panes_in_order(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, str(figure), "--case", "14")

    assert found["panes"][3:6] == [
        retraction("12:02:26", "12:03:26", 7),
        retraction("12:03:39", "12:05:19", 10),
        pane("12:02:26", "12:05:19", 25),
    ]
    assert {name: found[name] for name in ("schema", "figure", "runner", "dropped", "waiting")} == {
        "schema": 1,
        "figure": 14,
        "runner": "reference",
        "dropped": [],
        "waiting": [],
    }


def test_retraction_of_what_cannot_be_added_has_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "max.json"
    file.write_text(json.dumps({**given(14), "measure": "max"}), encoding="utf-8")
    found = simulated(capsys, str(file))

    retractions = [(pane["value"], pane["retracts"]) for pane in found["panes"] if pane["kind"] == "retraction"]
    assert retractions == [(None, 7), (None, 4), (None, 5), (None, 8), (None, 3)]


def test_rows_that_no_pane_shows_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "three.json"
    file.write_text(json.dumps({**given(9), "trigger": "AtCount(3)", "window": "FixedWindows.of(2 MINUTES)"}))
    found = simulated(capsys, str(file))

    assert found["waiting"][0] == {"window_start": "12:00:00", "window_end": "12:02:00", "key": None, "rows": 2}
    assert found["dropped"] == [
        {
            "event_time": "12:03:06",
            "processing_time": "12:07:06",
            "key": None,
            "window_start": "12:02:00",
            "window_end": "12:04:00",
            "reason": "trigger_ended",
        }
    ]


def test_batch_is_a_runner(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, str(figure), "--case", "6", "--runner", "batch")

    assert [(pane["value"], pane["kind"]) for pane in found["panes"]] == [(51, "on_time")]


def test_kind_of_micro_batches_means_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figure.json"
    file.write_text(json.dumps(given(11)), encoding="utf-8")

    assert simulated(capsys, str(file))["kind_is_meaningful"] is False


def test_table_is_for_people(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", str(figure), "--case", "14"]) == 0

    shown = capsys.readouterr().out
    assert "12 panes" in shown
    assert "12:07:37  [12:02:26, 12:05:19)          25  on_time" in shown


def test_text_of_the_file_does_not_reach_the_terminal_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figure.json"
    file.write_text(json.dumps({**given(6), "title": "[red]x[/]\u001b[2J\ud800"}), encoding="utf-8")

    assert cli.main(["simulate", str(file)]) == 0
    assert capsys.readouterr().out.startswith("[red]x[/]\ufffd[2J\ufffd, reference: 1 panes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--case", "7"], "Scenario `figures.json`: --case: expected the `figure` of one of 2 cases (6, 14), got `7`."),
        (["--case", "6", "--runner", "flink"], "--runner: expected one of batch, reference, streaming"),
    ],
)
def test_what_cannot_be_run_is_one_message_and_exit_code_2(
    figure: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli.main(["simulate", str(figure), *arguments, "--json"]) == 2

    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_of_the_documentation_gives_the_panes_that_it_names(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = json.loads(example.read_text(encoding="utf-8"))["panes"]
    found = simulated(capsys, str(example))["panes"]

    assert [{name: pane[name] for name in expected[0]} for pane in found] == expected


def test_streaming_runner_without_a_broker_says_how_to_start_one(
    figure: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))

    assert cli.main(["simulate", str(figure), "--case", "14", "--runner", "streaming"]) == 2
    assert "\nHint: `cutover up` starts a broker.\n" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()
