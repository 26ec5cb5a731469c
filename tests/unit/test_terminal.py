"""Output of engines goes to a log file, and the terminal shows only the output of the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cutover.output import terminal

ENGINE = """
import os, subprocess, sys, threading, warnings, logging, atexit
from pathlib import Path
from cutover.output import terminal

terminal.take_over_output("stream")
print("meant, before")
terminal.redirect_output(Path(sys.argv[1]))
os.write(1, b"an engine on 1\\n")
os.write(2, b"an engine on 2\\n")
subprocess.run(["sh", "-c", "echo a child; echo a child that warns >&2"], check=True)
warnings.warn("a library warns", stacklevel=1)
logging.getLogger("py4j").error("a library's logger")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()

class Leaked:
    def __del__(self):
        raise ValueError("unraisable")

Leaked()
terminal.redirect_output(Path(sys.argv[1]))
print("meant, behind")
print(terminal.engine_log(), file=sys.stderr)
atexit.register(os.write, 2, b"nanobind: leaked\\n")
"""
SAID = (
    "an engine on 1",
    "an engine on 2",
    "a child",
    "a child that warns",
    "a library warns",
    "a library's logger",
    "ZeroDivisionError",
    "ValueError: unraisable",
    "nanobind: leaked",
)


def run(home: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", ENGINE, str(home)], capture_output=True, text=True, check=True)


def test_engines_write_to_the_file_that_the_last_line_names(tmp_path: Path) -> None:
    process = run(tmp_path)

    (file,) = (tmp_path / "logs" / "engine").iterdir()
    assert process.stdout == "meant, before\nmeant, behind\n"
    assert process.stderr == f"Engine log in {tmp_path}: logs/engine/{file.name}\n"
    text = file.read_text(encoding="utf-8")
    assert [line for line in SAID if line not in text] == []


@pytest.mark.parametrize(("columns", "width"), [(None, terminal.WIDE), ("70", 70)])
def test_output_without_a_terminal_is_wide_unless_columns_is_set(columns: str | None, width: int) -> None:
    program = (
        "from cutover.output import terminal; terminal.take_over_output('x'); "
        "import rich; print(rich.get_console().width)"
    )
    variables = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment = variables if columns is None else variables | {"COLUMNS": columns}

    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )

    assert process.stdout == f"{width}\n"


def test_an_unwritable_home_leaves_the_terminal_unchanged(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file in the way", encoding="utf-8")

    process = run(tmp_path)

    assert "an engine on 1" in process.stdout
    assert process.stderr.splitlines()[-2:] == ["None", "nanobind: leaked"]


MUCH = """
import logging, os, subprocess, sys
from pathlib import Path
from cutover.output import terminal

terminal.MAX_LOG_BYTES = 2000
terminal.take_over_output("driver-clicks")
terminal.redirect_output(Path(sys.argv[1]))
for number in range(500):
    logging.getLogger("py4j").warning("line %d", number)
    if number % 10 == 0:
        os.write(2, b"raw %d\\n" % number)
subprocess.run(["sh", "-c", "echo a child that came later"], check=True)
print(terminal.engine_log())
"""


def test_a_log_rolls_at_its_limit_and_the_named_file_has_the_newest_lines(tmp_path: Path) -> None:
    process = subprocess.run([sys.executable, "-c", MUCH, str(tmp_path)], capture_output=True, text=True, check=True)

    log_file = tmp_path / process.stdout.strip().rpartition(": ")[2]
    files = sorted(log_file.parent.iterdir())
    assert [file.name for file in files] == [log_file.name, f"{log_file.name}.1", f"{log_file.name}.2"]
    assert all(file.stat().st_size <= 2100 for file in files)
    lines = log_file.read_text(encoding="utf-8").splitlines()
    assert lines[-2:] == ["line 499", "a child that came later"]
    assert "raw 490" in lines


def test_old_logs_of_ended_processes_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "RETAINED_PROCESSES", 2)
    ended = subprocess.Popen(["true"])
    ended.wait()
    for number in range(4):
        for ending in ("log", "log.1", "spark.log", "spark.log.1"):
            (tmp_path / f"stream-{number}-{ended.pid}.{ending}").touch()
            os.utime(tmp_path / f"stream-{number}-{ended.pid}.{ending}", (number, number))
    own_log = tmp_path / f"stream-0-{os.getpid()}.log"
    own_log.touch()
    os.utime(own_log, (0, 0))

    terminal._remove_old_logs(tmp_path)

    remaining = {file.name.partition(".")[0] for file in tmp_path.iterdir()}
    assert remaining == {f"stream-3-{ended.pid}", f"stream-2-{ended.pid}", own_log.stem}
    assert len(list(tmp_path.iterdir())) == 2 * 4 + 1


TABLES = """
import sys
from dataclasses import replace
from rich.console import Console
from rich.progress import Progress
from cutover.output import terminal
from cutover.output.console import Output, render
from cutover.reconcile.cli import reconcile
from tests.support.history.reconciliations import flights

terminal.take_over_output("report")
report = flights()
cell = replace(report.finding.differences[0], key={"city": "Łódź", "sign": "\\u22125 日本…"}, streaming=-5, batch=1e-9)
finding = replace(report.finding, differences=(cell,), sentence="49 % \\u2212 “quoted” ≠ \\ud800")
result = replace(report, finding=finding)
render(iter([Output(lines=reconcile.list_comparison_lines(result, None))]))
for line in reconcile.list_comparison_lines(result, None):
    Console(force_terminal=True, width=40).print(line)
with Progress(console=Console(stderr=True, force_terminal=True)) as shown:
    shown.add_task("é")
print("• é ✓ ✗ \\u202f日本", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(name, marks=pytest.mark.long) for name in ("latin-1", "utf-8", "cp437"))]
)
def test_unsupported_characters_are_replaced_on_the_terminal(encoding: str) -> None:
    environment = os.environ | {"PYTHONIOENCODING": encoding}

    process = subprocess.run([sys.executable, "-c", TABLES], env=environment, capture_output=True, check=True)

    output = process.stdout.decode(encoding)
    assert "DIVERGED" in output or "EXPLAINED" in output
    assert "\\ud800" in output
    if encoding == "ascii":
        assert r"\u0141\xf3d\u017a" in output
        assert "49 % - " in output
        assert "!=" in output
        assert r"* \xe9 v x  \u65e5\u672c" in process.stderr.decode("ascii")


@pytest.mark.parametrize(
    "environment",
    [
        *(
            pytest.param(environment, marks=pytest.mark.long)
            for environment in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C"})
        ),
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=str,
)
def test_verdict_and_files_are_the_same_on_a_terminal_without_the_characters(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "l.csv").write_text("city,n\nŁódź,1\n日本,2\n", encoding="utf-8")
    (tmp_path / "r.csv").write_text("city,n\nŁódź,1\n日本,3\n", encoding="utf-8")
    command = [sys.executable, "-m", "cutover.cli.app", "diff", "l.csv", "r.csv", "--key", "city"]

    command += ["--report", "page.html"]
    process = subprocess.run(command, env=os.environ | environment, cwd=tmp_path, capture_output=True, check=False)

    assert process.returncode == 1, process.stderr
    assert b"Traceback" not in process.stderr
    assert b"DIVERGED" in process.stdout
    assert "日本" in (tmp_path / "page.html").read_text(encoding="utf-8")
