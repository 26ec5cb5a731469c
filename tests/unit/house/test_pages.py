"""Links and reference tables of the documentation: every link has its target, every field its row."""

import re
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from cutover.definition.measures.kinds import Measure
from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.definition.model.policy import Policy
from cutover.definition.model.topic import Topic
from cutover.definition.windows.kinds import KINDS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"(?<!`)\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
REFERENCE = DOCS / "definition-reference.md"
IDENTIFIER = re.compile(r"`(_?[A-Za-z]\w{3,})`")
SOURCES = ("cutover", "streaming", "batch", "reconcile", "dags", "infra", "tests", "benchmarks", "samples")


PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^from (cutover[\w.]*) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(page.read_text(encoding="utf-8")))
    return {title.strip().replace(" ", "-") for title in plain}


def can_import(module: str, name: str) -> bool:
    """Return whether a module has a name, or a package a module of that name."""
    return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_has_a_target(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if ":" not in link and (not target.exists() or (anchor and anchor not in anchors(target))):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("part", [Pipeline, Topic, Lateness, Policy])
def test_every_field_of_a_definition_has_a_row_in_the_reference(part: type) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {field.name for field in fields(part)} - {"file"} - set(rows) == set()


def test_every_import_in_an_example_works() -> None:
    imports = [
        (str(page.relative_to(ROOT)), module, name.strip())
        for page in PAGES
        for block in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8"))
        for module, in_parentheses, on_line in IMPORT.findall(block)
        for name in (in_parentheses or on_line).partition("#")[0].split(",")
        if name.strip()
    ]

    assert len(imports) > 10
    assert [place for place in imports if not can_import(place[1], place[2])] == []


def test_every_measure_and_window_is_in_the_reference() -> None:
    page = REFERENCE.read_text(encoding="utf-8")

    names = [*(kind.__name__ for kind in get_args(Measure)), *(kind.example.partition("(")[0] for kind in KINDS)]
    assert [name for name in names if f"`{name}(" not in page] == []


def test_every_name_in_the_architecture_is_in_the_code() -> None:
    files = [file for folder in SOURCES for file in (ROOT / folder).rglob("*") if file.suffix in {".py", ".j2"}]
    words = set(re.findall(r"\w+", " ".join(file.read_text(encoding="utf-8") for file in files)))
    words |= {part for file in files for part in file.relative_to(ROOT).with_suffix("").parts}

    names = set(IDENTIFIER.findall((DOCS / "architecture.md").read_text(encoding="utf-8")))
    assert sorted(names - words) == []


NAME_IN_FILE = re.compile(r"`([A-Za-z_]+)` in `([^`]+[.]py)`")


def test_a_name_in_the_architecture_is_in_the_file_named_beside_it() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    files = {str(file.relative_to(ROOT)): file for folder in SOURCES for file in (ROOT / folder).rglob("*.py")}

    pairs = NAME_IN_FILE.findall(page)
    missing = [
        (name, path)
        for name, path in pairs
        if not any(
            re.search(rf"^ *(?:class|def) {name}\b|^ *{name}\b.*=", file.read_text(encoding="utf-8"), re.MULTILINE)
            for known, file in files.items()
            if known == path or known.endswith(f"/{path}")
        )
    ]
    assert len(pairs) > 20
    assert missing == []
