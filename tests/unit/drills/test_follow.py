"""A drill runs the commands of a page exactly, and stops at the first one whose exit code or output differs."""

from pathlib import Path

import pytest

from cutover.errors import CutoverError
from cutover.infra.drills.perform import follow
from cutover.infra.drills.stack import CommandEnd, Stack
from cutover.runbooks import Page, parse_page
from tests.unit.runbooks.test_parse import text

FIX = """```console
$ cutover status
Kafka  127.0.0.1:29092  (answers)
```
```console changes when=batch
$ cutover batch flights
```
```console example
$ cutover down
```"""


class Answers(Stack):
    """Fake stack whose commands immediately return configured answers."""

    def __init__(self, root: Path, code: int = 0, printed: str = "Kafka  127.0.0.1:1  (answers)") -> None:
        super().__init__(root)
        self.code, self.printed, self.lines = code, printed, list[str]()

    def run(self, line: str, **_: str) -> CommandEnd:
        self.lines.append(line)
        return CommandEnd(line=line, exit_code=self.code, printed=self.printed, errors="", seconds=0.1)


def page(fix: str = FIX) -> Page:
    return parse_page("NoInput", text(fix=fix))


def run(stack: Stack, page: Page, section: str = "Fix", case: str | None = None) -> None:
    list(follow(stack, page, section, case=case, report_progress=lambda _: None))


@pytest.mark.parametrize(
    ("case", "lines"), [(None, ["cutover status"]), ("batch", ["cutover status", "cutover batch flights"])]
)
def test_blocks_of_the_case_are_run_in_order_and_examples_are_not(
    case: str | None, lines: list[str], tmp_path: Path
) -> None:
    stack = Answers(tmp_path)
    run(stack, page(), case=case)

    assert stack.lines == lines


def test_command_with_different_output_is_named(tmp_path: Path) -> None:
    with pytest.raises(CutoverError, match=r"NoInput.md, line \d+: `cutover status`: expected the line `Kafka"):
        run(Answers(tmp_path, printed="Kafka  (does not answer)"), page())


def test_command_of_a_fix_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(CutoverError, match="expected exit code 0, got 2"):
        run(Answers(tmp_path, code=2), page())


def test_diagnostic_command_may_fail_during_an_incident(tmp_path: Path) -> None:
    diagnose = page().sections["Fix"]
    diagnose_page = parse_page("NoInput", text().replace("## Diagnose\nWords.", f"## Diagnose\n{diagnose}"))
    stack = Answers(tmp_path, code=1)

    run(stack, diagnose_page, "Diagnose")

    assert stack.lines == ["cutover status"]


def test_foreign_program_is_never_run(tmp_path: Path) -> None:
    stack = Answers(tmp_path)

    with pytest.raises(CutoverError, match="expected a command of Cutover"):
        run(stack, page("```console\n$ rm -rf lake\n```"))

    assert stack.lines == []
