"""Command line entry point: exit codes, and messages instead of tracebacks for errors that users can fix."""

import errno
import os
from importlib.metadata import EntryPoint, EntryPoints, entry_points

import pytest
import typer

from cutover.cli import app
from cutover.errors import LakeError


def test_no_arguments_show_the_help_and_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([]) == 2
    assert "reconcile" in capsys.readouterr().out


def test_unknown_command_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_every_command_is_in_the_room_that_its_entry_names() -> None:
    for entry in entry_points(group="cutover.commands"):
        commands = vars(typer.main.get_command(app.build_app(entry.name)))["commands"]
        assert entry.name in commands


def test_the_list_of_commands_has_the_help_of_each_command() -> None:
    commands = vars(typer.main.get_command(app.build_app()))["commands"]

    for entry in entry_points(group="cutover.commands"):
        itself = vars(typer.main.get_command(app.build_app(entry.name)))["commands"][entry.name]
        assert (itself.help or "").splitlines()[0] == commands[entry.name].help


def test_a_command_behind_two_dashes_is_no_silent_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--", "status"]) == 2
    assert "name first" in capsys.readouterr().err


def test_an_expected_failure_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build_app(_: str | None) -> object:
        def run(**_: object) -> int:
            message = "Table `x` is gone.\nHint: look."
            raise LakeError(message, runbook="TableUnreadable")

        return run

    monkeypatch.setattr(app, "build_app", build_app)

    assert app.main(["anything"]) == 2
    assert capsys.readouterr().err == "Table `x` is gone.\nHint: look.\nRunbook: docs/runbooks/TableUnreadable.md\n"


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_app(_: str | None) -> object:
        def run(**_: object) -> int:
            raise KeyboardInterrupt

        return run

    monkeypatch.setattr(app, "build_app", build_app)

    assert app.main(["anything"]) == 130


def test_a_defect_has_no_verdict_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def build_app(_: str | None) -> object:
        def run(**_: object) -> int:
            message = "unforeseen"
            raise ValueError(message)

        return run

    monkeypatch.setattr(app, "build_app", build_app)

    assert app.main(["anything"]) == 2
    assert "ValueError: unforeseen" in capsys.readouterr().err


def test_an_error_of_the_operating_system_is_no_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build_app(_: str | None) -> object:
        def run(**_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device", "/reports/x.html")

        return run

    monkeypatch.setattr(app, "build_app", build_app)

    assert app.main(["anything"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("`/reports/x.html`: expected it to be usable, got: No space left on device.\nHint: ")
    assert "Traceback" not in err
    assert "defect" not in err


@pytest.mark.parametrize("command", sorted(entry_points(group="cutover.commands").names))
@pytest.mark.parametrize("place", ["argument", "option"])
def test_an_argument_that_is_no_text_is_rejected_by_every_command(
    command: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = os.fsdecode(b"a\xff")

    assert app.main([command, text if place == "argument" else f"--from={text}"]) == 2
    err = capsys.readouterr().err
    assert r"a\udcff`: expected text in UTF-8" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("place", ["cutover.cli.moved.gate", "cutover.cli.moved", "cutover.cli.app"])
@pytest.mark.parametrize("arguments", [["--help"], ["gate", "show"]])
def test_an_installation_that_is_older_than_the_code_says_so(
    place: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = EntryPoint(name="gate", value=f"{place}:COMMANDS", group=app.GROUP)
    monkeypatch.setattr(app, "_entries", lambda: EntryPoints([entry]))

    assert app.main(arguments) == app.USAGE

    output = capsys.readouterr()
    assert f"expected it in the module `{place}`, as installed, got none." in output.err
    assert "make setup" in output.err
    assert "Traceback" not in output.err
