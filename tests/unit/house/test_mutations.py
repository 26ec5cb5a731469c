"""Mutations drawn by the mutation tool, and the tests it runs for each."""

import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from coverage import CoverageData

from tests.mutations import __main__ as tool
from tests.mutations import copies
from tests.mutations.__main__ import find_unnoticed, plan_steps
from tests.mutations.changes import ROOT, Mutation, draw, find_code, list_mutations
from tests.mutations.copies import find_failure
from tests.mutations.runners import Runners, find_statement, list_importers

SOURCE = '''"""Not < this, nor 1."""
from a import b

LIMIT = 0  # not 1 < 2


def closed(end: int) -> bool:
    """At most 0."""
    return (
        end <= LIMIT
    )
TEXT = f("a < b", strict=True)
'''


def test_code_is_no_docstring_no_import_no_head_and_no_comment() -> None:
    code = {number: line.rstrip() for number, line in find_code(SOURCE).items()}

    text = "TEXT = f(       , strict=True)"
    assert code == {4: "LIMIT = 0", 9: "    return (", 10: "        end <= LIMIT", 11: "    )", 12: text}


def test_each_mutation_changes_one_place_of_one_line() -> None:
    mutated_lines = {(mutation.line, mutation.mutated.strip()) for mutation in list_mutations("a.py", SOURCE)}

    assert mutated_lines == {(4, "LIMIT = 1  # not 1 < 2"), (10, "end < LIMIT")}


def test_a_seed_determines_distinct_lines(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "reconcile" / "verdict", tmp_path / "reconcile" / "verdict")
    mutations = draw(seed=7, count=40, root=tmp_path)

    assert mutations == draw(seed=7, count=40, root=tmp_path)
    assert len({(mutation.file, mutation.line) for mutation in mutations}) == 40
    assert mutations != draw(seed=8, count=40, root=tmp_path)


def test_unit_tests_that_import_the_module_run_first() -> None:
    assert "tests/unit/gate/test_hazards.py" in list_importers("reconcile/gate/hazards.py")
    assert list_importers("elsewhere.py") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (1, None),  # when the module is read
        (3, None),  # the head of a function too
        (5, range(5, 6)),  # a head of a statement, without its body
        (7, range(6, 9)),
        (10, range(10, 11)),
        (12, range(12, 13)),  # a statement that stands alone on its line
    ],
)
def test_a_statement_is_all_its_lines_and_a_head_is_none_of_its_body(line: int, expected: range | None) -> None:
    source = """\
LIMIT = 1

def f(a):
    g()
    if a:
        return (
            a + 1
        )
    match a:
        case 2:
            pass
    return LIMIT
"""
    assert find_statement(source, line) == expected


def measure(tests: dict[str, dict[int, list[str]]], tmp_path: Path) -> CoverageData:
    """Return what coverage writes: of each file the tests by the line that they ran."""
    data = CoverageData(str(tmp_path / "data"))
    for file, lines in tests.items():
        for line, names in lines.items():
            for name in names:
                data.set_context(name)
                data.add_lines({f"/copy/{file}": [line]})
    return data


def test_tests_of_a_statement_are_planned_quickest_first_in_growing_steps(tmp_path: Path) -> None:
    file = "reconcile/gate/hazards.py"
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.startswith("    return "))
    ran = ["a.py", "", "slow.py", "slower.py::test_a[1|2] (call)", "gone.py", "b.py", "slowest.py"]
    data = measure({file: {line: ran, line - 1: ["elsewhere.py"]}, "other/hazards.py": {line: ["other.py"]}}, tmp_path)
    root = tmp_path / "copy"
    for name in (file, "reconcile/gate/stage.py", "a.py", "b.py", "slow.py", "slower.py", "slowest.py", "elsewhere.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text((ROOT / file).read_text(encoding="utf-8"))
    runners = Runners(data, {"slow.py": 30.0, "slower.py": 50.0, "slowest.py": 60.0}, root)

    assert runners.plan(file, line) == [["a.py", "b.py", "slow.py"], ["slower.py"], ["slowest.py"]]
    assert runners.plan(file, 1) == [["a.py", "b.py", "elsewhere.py", "slow.py"], ["slower.py"], ["slowest.py"]]
    assert runners.plan("reconcile/gate/stage.py", 1) == []


def test_all_tests_run_if_no_covering_test_fails(tmp_path: Path) -> None:
    mutation = Mutation(file="reconcile/gate/__init__.py", line=1, original="", mutated="")

    assert plan_steps(mutation, Runners(measure({}, tmp_path), {}), ROOT) == [[*copies.ALL, "-n2"]]


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
def test_a_failure_is_confirmed_alone_and_a_pass_runs_once(
    monkeypatch: pytest.MonkeyPatch, exits: list[int], expected: str | None
) -> None:
    exit_codes = list(exits)

    def run(*_: object) -> CompletedProcess[str]:
        code = exit_codes.pop(0)
        return CompletedProcess([], code, "FAILED tests/a.py::test_a - assert 1 == 2" if code == 1 else "")

    monkeypatch.setattr(copies, "run_tests", run)

    assert (find_failure(Path(), ["tests"]), exit_codes) == (expected, [])


def test_each_mutation_is_tried_and_unnoticed_ones_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mutations = draw(seed=7, count=3)

    def attempt(_copy: Path, mutation: Mutation, _steps: object) -> str | None:
        return None if mutation is mutations[1] else "tests/a.py::test_a"

    monkeypatch.setattr(tool, "try_mutation", attempt)

    assert find_unnoticed([ROOT], mutations, Runners(measure({}, tmp_path), {})) == [mutations[1]]
    output = capsys.readouterr().out
    assert output.count("NOT NOTICED") == 1
    assert output.count("tests/a.py::test_a") == 2
