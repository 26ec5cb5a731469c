"""`cutover simulate`: one JSON object, a table, exit code 2 with a message, and the examples of the documentation."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cutover.cli import app
from tests.support.pages.figures import DOCS, EXAMPLES, read_figure

WITHOUT_PANES = ("case", "points", "window", "trigger", "accumulation", "watermark")


@pytest.fixture
def figure(tmp_path: Path) -> Path:
    """Write figures 6 and 14 to one file."""
    return written(tmp_path / "figures.json", {"cases": [read_figure(6), read_figure(14)]})


def written(file: Path, value: object) -> Path:
    file.write_text(json.dumps(value), encoding="utf-8")
    return file


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert app.main(["simulate", *arguments, "--json"]) == 0
    output: dict[str, Any] = json.loads(capsys.readouterr().out)
    return output


def retraction(start: str, end: str, value: int) -> dict[str, Any]:
    """Build a retraction in the on-time firing of 12:07:37, as printed."""
    return pane(start, end, -value) | {"kind": "retraction", "retracts": value, "with_pane": "on_time"}


def pane(start: str, end: str, value: int) -> dict[str, Any]:
    """Build a pane of the on-time firing of 12:07:37, as printed."""
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
    output = simulated(capsys, str(figure), "--case", "14")

    assert output["panes"][3:6] == [
        retraction("12:02:26", "12:03:26", 7),
        retraction("12:03:39", "12:05:19", 10),
        pane("12:02:26", "12:05:19", 25),
    ]
    assert {name: output[name] for name in ("schema", "case", "runner", "dropped", "waiting")} == {
        "schema": 2,
        "case": 14,
        "runner": "reference",
        "dropped": [],
        "waiting": [],
    }


def test_retraction_of_a_non_additive_measure_has_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "max.json"
    file.write_text(json.dumps({**read_figure(14), "measure": "max"}), encoding="utf-8")
    output = simulated(capsys, str(file))

    retractions = [(pane["value"], pane["retracts"]) for pane in output["panes"] if pane["kind"] == "retraction"]
    assert retractions == [(None, 7), (None, 4), (None, 5), (None, 8), (None, 3)]


def test_rows_without_a_pane_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trigger, window = {"type": "after_count", "rows": 3}, {"type": "fixed", "size": "2 minutes"}
    file = written(tmp_path / "three.json", {**read_figure(9), "trigger": trigger, "window": window})
    output = simulated(capsys, str(file))

    assert output["waiting"][0] == {"window_start": "12:00:00", "window_end": "12:02:00", "key": None, "rows": 2}
    assert output["dropped"] == [
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
    output = simulated(capsys, str(figure), "--case", "6", "--runner", "batch")

    assert [(pane["value"], pane["kind"]) for pane in output["panes"]] == [(51, "on_time")]


def test_table_is_readable(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["simulate", str(figure), "--case", "14"]) == 0

    output = capsys.readouterr().out
    assert "12 panes" in output
    assert "12:07:37  [12:02:26, 12:05:19)          25  on_time" in output


def test_text_of_the_file_is_escaped_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "figure.json", {**read_figure(6), "title": "[red]x[/]\u001b[2J"})

    assert app.main(["simulate", str(file)]) == 0
    assert capsys.readouterr().out.startswith("[red]x[/]\\x1b[2J, reference: 1 pane")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--case", "7"], "Scenario `figures.json`: --case: expected one of 2 cases (6, 14), got `7`."),
        ([], "Scenario `figures.json`: expected --case, since it has 2 cases (6, 14), got none."),
        (["--case", "6", "--runner", "flink"], "--runner: expected one of batch, reference, streaming"),
    ],
)
def test_invalid_run_is_one_message_and_exit_code_2(
    figure: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert app.main(["simulate", str(figure), *arguments, "--json"]) == 2

    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_there_are_examples() -> None:
    names = {file.stem for file in EXAMPLES}

    assert {"dataflow-figures", "late-orders", "short-day", "viewing-sessions"} <= names


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_of_the_documentation_gives_its_panes(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["simulate", str(example), "--check"]) == 0
    assert "difference" not in capsys.readouterr().out


def test_check_runs_all_cases_or_the_requested_one(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["simulate", str(figure), "--check"]) == 0
    assert capsys.readouterr().out.count("as the file says") == 2

    assert app.main(["simulate", str(figure), "--check", "--case", "14", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["check"] == {"is_equal": True, "differences": []}


def test_check_of_several_cases_is_one_object(figure: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["simulate", str(figure), "--check", "--json"]) == 0

    output = json.loads(capsys.readouterr().out)
    assert [(case["case"], case["check"]["is_equal"]) for case in output["cases"]] == [(6, True), (14, True)]


def test_check_names_what_differs_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # no cell is wrapped
    figure_data = read_figure(14)
    figure_data["panes"] = [*figure_data["panes"][1:], {**figure_data["panes"][-1], "value": 13}]
    file = written(tmp_path / "figure.json", figure_data)

    assert app.main(["simulate", str(file), "--check"]) == 1
    output = " ".join(capsys.readouterr().out.split())
    assert "reference: 2 differences from the file of place expected got" in output
    assert "pane 1 nothing at 12:05:50" in output
    assert "pane 12 at 12:09:00 [12:06:39, 12:08:46) 13 early nothing" in output


def test_check_without_expected_panes_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(
        tmp_path / "figure.json", {name: value for name, value in read_figure(12).items() if name in WITHOUT_PANES}
    )

    assert app.main(["simulate", str(file), "--check"]) == 2
    captured = capsys.readouterr()
    assert "Scenario `figure.json`: case 12: panes: expected a list to compare with, since --check" in captured.err
    assert captured.out == ""


def test_picture_is_one_file_without_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "out.svg"

    assert app.main(["simulate", str(DOCS / "late-orders.json"), "--plot", str(picture)]) == 0
    assert "5 panes" in capsys.readouterr().out
    root = ET.parse(picture).getroot()  # noqa: S314 -- ours
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {value for element in root.iter() for name, value in element.items() if "href" in name} == set()


def test_picture_and_check_go_together(tmp_path: Path) -> None:
    file = written(tmp_path / "figure.json", {**read_figure(12), "panes": []})

    assert app.main(["simulate", str(file), "--check", "--plot", str(tmp_path / "out.svg")]) == 1
    assert (tmp_path / "out.svg").exists()


def test_streaming_runner_without_a_broker_names_the_command_to_start_one(
    figure: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))

    assert app.main(["simulate", str(figure), "--case", "14", "--runner", "streaming"]) == 2
    assert "\nHint: `cutover up` starts a broker.\n" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()
