"""Layout of the repository: short modules, and pages whose files exist."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.support.suite.sources import parse_source

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("cutover", "streaming", "batch", "reconcile", "infra")
FILES = [
    file.relative_to(ROOT)
    for package in (*PACKAGES, "samples", "dags")
    for file in sorted((ROOT / package).rglob("*.py"))
    if file.name != "__init__.py"
]
MOST_LINES, MOST_OF_A_FUNCTION = 450, 40
MOST_ROOMS = 3
ROOM_OF_A_PACKAGE = 2  # parts of the path of a module that lies directly in its package
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "runbooks").glob("*.md")),
]
NAMED = re.compile(r"(?<![\w/.<*-])((?:cutover|streaming|batch|reconcile|infra|tests|dags)/[\w/.-]*\w/?)")
BARE = re.compile(r"`(?:[\w/]+/)?(\w+\.py)`")
MODULE = re.compile(r"`([a-z_0-9]+)`")
OF_THE_READER = {"orders.py"}  # a definition that the tutorial writes


def test_a_room_is_imported_by_its_name_under_cutover() -> None:
    rooms = "|".join(PACKAGES[1:])
    bare = re.compile(rf"^\s*(?:from|import) (?:{rooms}|samples)\b", re.MULTILINE)
    files = (
        file
        for folder in ("dags", "pipelines", "samples", "benchmarks", "tests", *PACKAGES)
        for file in (ROOT / folder).rglob("*.py")
    )

    assert [str(file) for file in files if bare.search(file.read_text(encoding="utf-8"))] == []


def test_a_module_has_at_most_450_lines() -> None:
    files = [*FILES, *(file.relative_to(ROOT) for file in (ROOT / "tests").rglob("*.py"))]
    lengths = {str(file): len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files}

    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}


def test_a_function_has_at_most_40_lines_without_its_docstring() -> None:
    lengths = {
        f"{file}:{node.name}": _count_lines(node)
        for file in (*FILES, *(file.relative_to(ROOT) for file in (ROOT / "tests").rglob("*.py")))
        for node in ast.walk(parse_source(ROOT / file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {name: lines for name, lines in lengths.items() if lines > MOST_OF_A_FUNCTION} == {}


def _count_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body if ast.get_docstring(function) is None else function.body[1:]
    return 1 + (body[-1].end_lineno or 0) - body[0].lineno if body else 0


def test_every_room_is_in_the_architecture_page() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {file.parent for file in FILES if len(file.parts) > ROOM_OF_A_PACKAGE}

    assert sorted(str(room) for room in rooms if f"`{room.name}`" not in page and f"/{room.name}/" not in page) == []


def test_no_file_name_occurs_in_more_than_three_rooms() -> None:
    rooms = defaultdict(list)
    for file in FILES:
        rooms[file.name].append(str(file.parent))

    assert {name: room for name, room in rooms.items() if len(room) > MOST_ROOMS} == {}


@cache
def list_module_names() -> frozenset[str]:
    folders = (*PACKAGES, "dags", "samples", "pipelines", "tests", "benchmarks")
    return frozenset(file.name for folder in folders for file in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_named_in_a_page_exists(page: Path) -> None:
    named_files = set(NAMED.findall(page.read_text(encoding="utf-8")))

    assert {name for name in named_files if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_named_without_its_path_exists(page: Path) -> None:
    named_modules = set(BARE.findall(page.read_text(encoding="utf-8"))) - OF_THE_READER

    assert named_modules - list_module_names() == set()


def test_modules_named_by_their_package_exist() -> None:
    unknown = []
    for package in (file for folder in (*PACKAGES, "dags") for file in sorted((ROOT / folder).rglob("__init__.py"))):
        docstring = ast.get_docstring(parse_source(package)) or ""
        modules = {path.stem for path in package.parent.iterdir()}
        unknown += [f"{package}: {name}" for name in MODULE.findall(docstring) if name not in modules]

    assert unknown == []
