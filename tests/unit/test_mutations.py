"""What the tool that breaks lines of the kernel draws."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests import mutations
from tests.mutations import Mutation, draw, find_code, find_failure, find_unnoticed, list_mutations, list_near

SOURCE = '''"""Not < this, nor 1."""
from a import b

LIMIT = 0  # not 1 < 2


def closed(end: int) -> bool:
    """At most 0."""
    return (
        end <= LIMIT
    )
TEXT = f("a < b")
'''


def test_code_is_no_docstring_no_import_no_head_and_no_comment() -> None:
    code = {number: line.rstrip() for number, line in find_code(SOURCE).items()}

    assert code == {4: "LIMIT = 0", 9: "    return (", 10: "        end <= LIMIT", 11: "    )", 12: "TEXT = f(       )"}


def test_each_mutation_changes_one_place_of_one_line() -> None:
    changed = {(found.line, found.after.strip()) for found in list_mutations("a.py", SOURCE)}

    assert changed == {(4, "LIMIT = 1  # not 1 < 2"), (10, "end < LIMIT")}


def test_a_seed_draws_the_same_lines_again_and_none_twice() -> None:
    drawn = draw(seed=7, count=40)

    assert drawn == draw(seed=7, count=40)
    assert len({(found.file, found.line) for found in drawn}) == 40
    assert drawn != draw(seed=8, count=40)


def test_tests_that_import_the_lines_module_run_first_and_then_those_of_its_room() -> None:
    unit, unit_room, integration, integration_room = list_near("reconcile/gate/approval.py")

    assert "tests/property/test_gate_machine.py" in unit
    assert unit_room == ["tests/unit/reconcile", "tests/unit/gate"]
    assert integration == ["tests/integration/gate/test_approval.py", "-n2"]
    assert integration_room == ["tests/integration/reconcile", "tests/integration/gate", "-n2"]
    assert list_near("elsewhere.py") == []


@pytest.mark.parametrize(
    ("exits", "expected"),
    [
        ([0], None),
        ([5], None),
        ([1, 1], "tests/a.py::test_a"),
        ([1, 0, 0], None),  # slow, then well
        ([1, 0, 1, 1], "tests/a.py::test_a"),
        ([1, 0, 1, 0], None),
    ],
)
def test_a_failure_is_one_that_fails_alone_too_and_what_passes_runs_once(
    monkeypatch: pytest.MonkeyPatch, exits: list[int], expected: str | None
) -> None:
    left = list(exits)

    def run(*_: object) -> CompletedProcess[str]:
        code = left.pop(0)
        return CompletedProcess([], code, "FAILED tests/a.py::test_a - assert 1 == 2" if code == 1 else "")

    monkeypatch.setattr(mutations, "run_tests", run)

    assert (find_failure(Path(), ["tests"]), left) == (expected, [])


def test_what_tests_near_a_line_do_not_notice_is_tried_with_all_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = draw(seed=7, count=3)
    by_near, by_others, by_none = drawn
    tried: list[tuple[Mutation, bool]] = []

    def attempt(_copy: Path, mutation: Mutation, kinds: object) -> str | None:
        is_last = kinds is mutations.KINDS
        tried.append((mutation, is_last))
        return "tests/a.py::test_a" if mutation is (by_others if is_last else by_near) else None

    monkeypatch.setattr(mutations, "try_mutation", attempt)

    assert find_unnoticed([mutations.ROOT], drawn) == [by_none]
    assert tried == [(by_near, False), (by_others, False), (by_none, False), (by_others, True), (by_none, True)]
    said = capsys.readouterr().out
    assert said.count("not noticed by tests near it") == 2
    assert said.count("NOT NOTICED") == 1
