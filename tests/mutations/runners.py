"""Test files that run a line: those are tried first.

They are not all: what is cached in a process, made once for several files, or made while tests are collected runs for
the first file alone, and a process that is killed reports nothing. So where none of these notices, all tests are tried.
"""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from coverage import CoverageData

from tests.mutations.changes import KERNEL, ROOT, list_sources
from tests.mutations.copies import ALL, list_failed, passes, run_tests

_CONFIG = Path(__file__).with_name("coverage.ini")
_FIRST_STEP = 20.0  # seconds of test files that are tried together; of each further step twice as many


class Runners:
    """Test files by the line of the kernel that they run."""

    def __init__(self, data: CoverageData, took: Mapping[str, float], root: Path = ROOT) -> None:
        """Read what one run of all tests left.

        Args:
            data: Lines by file, of a copy of the repository, each with the tests that ran it.
            took: Seconds of test files; those that are not there are quick.
            root: Of the repository, or of a copy.
        """
        self._data = data
        self._took = took
        self._root = root

    def plan(self, file: str, line: int) -> list[list[str]]:
        """Return the test files that run a line's statement, the quickest first, in steps of which each takes longer.

        Args:
            file: The module's path in the repository.
            line: From 1.
        """
        limit = _FIRST_STEP
        steps: list[list[str]] = [[]]
        for test in self._list_tests(file, line):
            if sum(self._took.get(step, 0.0) for step in steps[-1]) > limit:
                steps.append([])
                limit *= 2
            steps[-1].append(test)
        return [step for step in steps if step]

    def _list_tests(self, file: str, line: int) -> list[str]:
        """Return the test files that run a line's statement, of a module's own lines any line: the quickest first."""
        measured = (path for path in self._data.measured_files() if path.endswith(f"/{file}"))
        contexts = self._data.contexts_by_lineno(next(measured, file))
        lines = find_statement((self._root / file).read_text(encoding="utf-8"), line)
        names = {name for at in lines or contexts for name in contexts.get(at, ())}
        tests = {test for name in names if (test := name.partition("::")[0]) and (self._root / test).exists()}
        return sorted(tests, key=lambda test: (self._took.get(test, 0.0), test))


def list_importers(file: str, root: Path = ROOT) -> list[str]:
    """Return the files of quick tests that import a module by its name.

    Args:
        file: The module's path in the repository.
        root: Of the repository, or of a copy.
    """
    *parents, name = Path(file).with_suffix("").parts
    parent = ".".join(["cutover", *parents[parents[:1] == ["cutover"] :]])
    imports = re.compile(rf"from {re.escape(parent)}(\.{name} import|\b import .*\b{name}\b)")
    test_files = (path for room in ("unit", "spec") for path in sorted((root / "tests" / room).rglob("test_*.py")))
    return [str(path.relative_to(root)) for path in test_files if imports.search(path.read_text(encoding="utf-8"))]


def find_statement(source: str, line: int) -> range | None:
    """Return the lines of the innermost statement of a function at a line; None: it runs when the module is read.

    Of a statement with a body, the lines of its head.
    """
    innermost = None
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            for node in (part for statement in function.body for part in ast.walk(statement)):
                lines = _lines_of(node) if isinstance(node, ast.stmt | ast.match_case | ast.ExceptHandler) else range(0)
                if line in lines and (innermost is None or len(lines) <= len(innermost)):
                    innermost = lines
    return innermost


def _lines_of(node: ast.stmt | ast.match_case | ast.ExceptHandler) -> range:
    first_line = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
    body = getattr(node, "body", None)
    if body:
        return range(first_line, max(first_line + 1, body[0].lineno))
    return range(first_line, (getattr(node, "end_lineno", None) or first_line) + 1)


def find_runners(copy: Path) -> Runners:
    """Return which tests run which lines, from a run of all of them that is kept until a line of the kernel changes."""
    digest = hashlib.sha256(json.dumps(list_sources(copy), sort_keys=True).encode()).hexdigest()[:16]
    coverage_file = ROOT / "build" / "mutations" / f"{digest}.coverage"
    if not coverage_file.exists():
        shutil.move(_measure(copy), coverage_file)
    data = CoverageData(str(coverage_file))
    data.read()
    return Runners(data, _read_durations(), copy)


def _measure(copy: Path) -> Path:
    """Let all tests run once in a copy, and return which lines each file of them runs.

    Raises:
        RuntimeError: Tests fail though no line is broken.
    """
    folder = copy / "build" / "coverage"
    folder.mkdir(parents=True)
    config = folder / "coverage.ini"
    rooms = "\n".join(f"    {copy}/{room}/*" for room in KERNEL)
    places = f"data_file = {folder}/data\ninclude =\n{rooms}\n"
    config.write_text(_CONFIG.read_text(encoding="utf-8") + places, encoding="utf-8")
    environment = {**os.environ, "COVERAGE_PROCESS_START": str(config)}
    plugin = ("-p", "tests.mutations.contexts")
    ended = run_tests(copy, *plugin, "-n", "auto", *ALL, env=environment)
    failed = [test for test in list_failed(ended) if not passes(copy, test)]
    if failed:
        msg = f"expected tests that pass before a line is broken, got: {', '.join(failed)}"
        raise RuntimeError(msg)
    tool = [str(ROOT / ".venv/bin/coverage"), "combine", f"--rcfile={config}", str(folder)]
    subprocess.run(tool, cwd=copy, check=True, capture_output=True)
    (ROOT / "build" / "mutations").mkdir(parents=True, exist_ok=True)
    return folder / "data"


def _read_durations() -> Mapping[str, float]:
    """Return the seconds of each test file, added up where its tests are handed out one by one."""
    took: dict[str, float] = defaultdict(float)
    for unit, seconds in json.loads((ROOT / "tests" / "durations.json").read_text(encoding="utf-8")).items():
        took[unit.partition("::")[0]] += seconds
    return took
