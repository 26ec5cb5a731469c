"""Commands in a child process: what comes back, and that nothing outlives its caller."""

import subprocess
import sys
from pathlib import Path

from cutover.infra.processes.family import ChildEnd, run_child
from tests.support.suite.until import until

PYTHON = (sys.executable, "-c")
CALLER = """
import os, sys
from cutover.infra.processes.family import run_child
wait = "import os, time; open(" + repr(sys.argv[1]) + ", 'w').write(str(os.getpid())); time.sleep(600)"
run_child([wait], on_line=print, program=(sys.executable, "-c"))
"""


def run(script: str, lines: list[str] | None = None) -> ChildEnd:
    return run_child([script], on_line=(lines if lines is not None else []).append, program=PYTHON)


def test_printed_json_comes_back_as_a_value() -> None:
    assert run("print('{\"epoch\": 41}')") == ChildEnd(exit_code=0, value={"epoch": 41}, message="")


def test_event_becomes_a_readable_line() -> None:
    lines: list[str] = []

    run("""import sys; print('{"event": "batch_read", "level": "info", "rows": 7}', file=sys.stderr)""", lines)

    assert lines == ["batch_read rows=7"]


def test_message_is_the_text_after_the_last_event() -> None:
    script = (
        """import sys; print('noise\\n{"event": "x"}\\nTopic is gone.\\nHint: look.', file=sys.stderr); sys.exit(2)"""
    )

    assert run(script) == ChildEnd(exit_code=2, value=None, message="Topic is gone.\nHint: look.")


def test_killed_child_shows_its_signal() -> None:
    assert run("import os; os.kill(os.getpid(), 9)").exit_code == -9


def test_unknown_command_of_cutover_is_rejected() -> None:
    end = run_child(["no-such-command"], on_line=print)

    assert (end.exit_code, "no-such-command" in end.message) == (2, True)


def test_child_ends_with_a_caller_that_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", CALLER, str(note)]) as caller:
        pid = int(until(lambda: note.exists() and note.read_text()) or 0)
        caller.kill()

    assert until(lambda: not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text())
