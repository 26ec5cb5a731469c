"""Pipelines whose definition no longer loads can still be shown and stopped by name."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cutover.cli import app
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.lake.recorded_definitions import find_recorded, list_recorded_definitions, list_shown, record_definition
from cutover.lake.shown_definition import resolve_definition
from cutover.pipeline_lake import PipelineLake
from cutover.process import identify
from cutover.settings import Settings
from tests.support.history import recorded
from tests.support.history.reconciliations import flights as comparison
from tests.unit.definition.checks.test_check import text, write

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an installation in which the driver of `flights` has run once and one comparison is recorded."""
    folder = tmp_path_factory.mktemp("installation")
    settings = Settings(home=folder / "home", pipelines=folder / "pipelines")
    write(settings.pipelines, "flights.py", text("flights"))
    write(settings.pipelines, "other.py", text("other"))
    pipeline = catalogue.get(settings, "flights")
    lake = PipelineLake(settings, pipeline)
    versions.open_or_create(lake, CLOCK)
    recorded.record(lake, comparison())
    return folder


@pytest.fixture
def settings(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    installation = Settings(home=tmp_path / "home", pipelines=tmp_path / "pipelines")
    record_definition(PipelineLake(installation, catalogue.get(installation, "flights")), CLOCK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTOVER_HOME", str(installation.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(installation.pipelines))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.setenv("CUTOVER_KAFKA__TIMEOUT_SECONDS", "1")
    return installation


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def beat(settings: Settings, process: "subprocess.Popen[bytes]") -> Path:
    """Register a process as the living driver of `flights`, and return the folder of its files."""
    identity = identify(process.pid)
    assert identity is not None
    folder = settings.run_dir / "flights"
    folder.mkdir(parents=True)
    value = {**asdict(identity), "run_id": "r", "epoch": 41, "at": "2026-01-01T00:00:00Z", "state": "RUNNING"}
    (folder / "heartbeat.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def break_syntax(folder: Path) -> None:
    (folder / "flights.py").write_text("def (:", encoding="utf-8")


def remove(folder: Path) -> None:
    (folder / "flights.py").unlink()


def rename(folder: Path) -> None:
    write(folder, "flights.py", text("renamed"))


def copy(folder: Path) -> None:
    write(folder, "copy.py", text("flights"))


def exit_early(folder: Path) -> None:
    (folder / "flights.py").write_text("raise SystemExit(0)", encoding="utf-8")


WAYS: dict[str, Callable[[Path], None]] = {
    "syntax": break_syntax,
    "removed": remove,
    "renamed": rename,
    "twice": copy,
    "exit": exit_early,
}


@pytest.mark.parametrize("way", WAYS)
def test_recorded_definition_replaces_one_that_does_not_load(way: str, settings: Settings) -> None:
    original = catalogue.get(settings, "flights")
    WAYS[way](settings.pipelines)

    definition = resolve_definition(settings, "flights")

    assert (definition.pipeline, definition.pipeline.file) == (original, original.file)
    assert definition.note is not None
    assert "does not load" in definition.note
    assert "`cutover lint flights`" in definition.note


def test_definition_that_loads_is_used_without_a_note(settings: Settings) -> None:
    definition = resolve_definition(settings, "flights")

    assert (definition.pipeline, definition.note) == (catalogue.get(settings, "flights"), None)


def change(settings: Settings) -> Pipeline:
    """Change the result that the file defines, and load the new definition."""
    file = settings.pipelines / "flights.py"
    file.write_text(file.read_text(encoding="utf-8").replace("hours=1", "hours=2"), encoding="utf-8")
    return catalogue.get(settings, "flights")


def test_changed_definition_is_shown_once_something_was_computed_under_it(settings: Settings) -> None:
    original, modified = catalogue.get(settings, "flights"), change(settings)

    definition = resolve_definition(settings, "flights")
    versions.open_or_create(PipelineLake(settings, modified), CLOCK)

    assert definition.pipeline == original
    assert "`window`" in str(definition.note)
    assert resolve_definition(settings, "flights").pipeline == modified


def test_definition_of_a_living_driver_is_shown_for_running_pipelines(
    settings: Settings, process: "subprocess.Popen[bytes]"
) -> None:
    original, modified = catalogue.get(settings, "flights"), change(settings)
    versions.open_or_create(PipelineLake(settings, modified), CLOCK)
    beat(settings, process)

    assert resolve_definition(settings, "flights").pipeline == modified
    assert resolve_definition(settings, "flights", running=True).pipeline == original


def test_change_that_affects_no_result_is_used_immediately(settings: Settings) -> None:
    file = settings.pipelines / "flights.py"
    file.write_text(file.read_text(encoding="utf-8").replace('key=("k",)', 'schedule="@daily", key=("k",)'))

    definition = resolve_definition(settings, "flights")

    assert (definition.pipeline.schedule, definition.note) == ("@daily", None)


@pytest.mark.parametrize("name", ["flihgts", "../flights", "flights/../other", "", "flights\n"])
def test_name_without_any_run_is_rejected(name: str, settings: Settings) -> None:
    with pytest.raises(DefinitionError, match="Unknown pipeline"):
        resolve_definition(settings, name)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"at": "soon", "definition": {}}', "\x00"])
def test_unreadable_record_is_ignored(content: str, settings: Settings) -> None:
    (settings.home / "lake" / "flights" / "definition.json").write_text(content, encoding="utf-8")

    assert find_recorded(settings, "flights") is None
    assert list_recorded_definitions(settings) == {}


def test_unwritable_record_stops_nothing(settings: Settings) -> None:
    pipeline = replace(catalogue.get(settings, "flights"), name="blocked")
    (settings.home / "lake" / "blocked").write_text("a file where the folder should be", encoding="utf-8")

    record_definition(PipelineLake(settings, pipeline), CLOCK)

    assert find_recorded(settings, "blocked") is None


COMMANDS: dict[str, tuple[str, ...]] = {
    "history": ("history", "flights", "--json"),
    "differences": ("differences", "flights", "--json"),
    "report": ("report", "flights", "--format", "json"),
    "gate show": ("gate", "flights", "show", "--json"),
    "savepoint list": ("savepoint", "flights", "list", "--json"),
    "sql": ("sql", "flights", "SELECT count(*) AS n FROM batch", "--json"),
    "unserved": ("unserved", "flights"),
    "vacuum": ("vacuum", "flights", "--dry-run"),
    "cost": ("cost", "flights", "--json"),
    "verify": ("verify", "flights", "--json"),
    "verify files": ("verify", "flights", "--files", "--json"),
    "repair list": ("repair", "flights", "--json"),
    "watch": ("watch", "flights", "--once", "--json"),
    "runbook": ("runbook", "StreamNotRunning", "-p", "flights"),
    "explain": ("explain", "flights", "2013-05-05T05:00:00Z", "UA"),
    "serve-view": ("serve-view", "flights", "--json"),
}


def run(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = app.main(command)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_read_only_command_answers_as_before(
    command: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    intact_output = run(COMMANDS[command], capsys)
    break_syntax(settings.pipelines)
    broken_output = run(COMMANDS[command], capsys)

    assert "does not load" not in intact_output[2]
    assert "flights: the definition does not load" in broken_output[2]
    assert broken_output[0] == intact_output[0]
    assert len(broken_output[1].splitlines()) == len(intact_output[1].splitlines())


def test_gate_rolls_back_by_name(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    break_syntax(settings.pipelines)

    code, stdout, _ = run(("gate", "flights", "rollback", "--why", "an incident"), capsys)

    assert (code, stdout.splitlines()[0].partition(".")[0]) == (0, "flights: stays in LAMBDA")


def test_stop_reaches_a_driver_without_a_definition(
    settings: Settings, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = beat(settings, process)
    remove(settings.pipelines)
    touch = Path.touch

    def touch_and_end(path: Path) -> None:
        touch(path)
        process.kill()
        process.wait()

    monkeypatch.setattr(Path, "touch", touch_and_end)

    assert app.main(["stream", "flights", "--stop"]) == 0
    assert (folder / "stop").exists()


def test_stop_of_an_unknown_name_suggests_existing_ones(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert settings.home.exists()

    code, _, stderr = run(("stream", "flihgts", "--stop"), capsys)

    assert code == 2
    assert "did you mean `flights`?" in stderr


def test_reports_of_all_pipelines_are_listed_despite_a_broken_file(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    break_syntax(settings.pipelines)

    code, stdout, problems = run(("report",), capsys)

    assert code == 0
    assert "20261121T040212Z-8f31" in stdout
    assert "flights.py" in problems


def test_broken_file_and_living_driver_stay_listed_and_a_removed_one_does_not(
    settings: Settings, process: "subprocess.Popen[bytes]"
) -> None:
    def names() -> set[str]:
        return set(list_shown(settings, catalogue.read_catalogue(settings)))

    assert names() == set()
    break_syntax(settings.pipelines)
    assert names() == {"flights"}
    remove(settings.pipelines)
    assert names() == set()
    beat(settings, process)
    assert names() == {"flights"}


def test_status_names_problems_of_a_definition(
    settings: Settings, process: "subprocess.Popen[bytes]", capsys: pytest.CaptureFixture[str]
) -> None:
    break_syntax(settings.pipelines)
    code, broken, _ = run(("status",), capsys)
    write(settings.pipelines, "flights.py", text("flights"))
    change(settings)
    beat(settings, process)
    notes = json.loads(run(("status", "--json"), capsys)[1])["definitions"]

    assert code == 0
    assert str(settings.pipelines / "flights.py") in broken.replace("\n", "")
    assert "`cutover lint`" in broken
    assert [note.partition(" (")[0] for note in notes] == [
        "flights: the definition has changed since its driver started"
    ]
