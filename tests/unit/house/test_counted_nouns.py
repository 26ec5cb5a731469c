"""Sentences inflect their nouns: no text writes a plural after a number that may be one."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cutover.reconcile.report import files, page
from cutover.reconcile.result.finding import Events, Rows, Windows
from tests.support.history.reconciliations import flights
from tests.support.suite.sources import parse_source

ROOMS = ("reconcile", "streaming", "batch", "cutover", "dags", "infra")
NOUN = (
    "row|record|offset|window|epoch|file|commit|key|cell|position|pair|portion|event|check|reason|range|fold|value|pane"
    "|stream|warning|comparison|argument|alarm|partition"
)
PLURAL = re.compile(
    rf"^ (?:(?:more|closed|final|late|other|older|newest|compared) )*(?:\(window, key\) )?(?:{NOUN})s\b"
)
IN_TEMPLATE = re.compile(rf"\| number }}}} (?:[a-z]+ ){{0,2}}(?:{NOUN})s\b")
ONE_OF_MANY = re.compile(rf"(?<![\d,.\N{{MINUS SIGN}}/-])1 (?:[a-z]+ ){{0,2}}?(?:{NOUN})s\b|\w\(e?s\)|\ball 1 ")


def _list_places(path: Path) -> Iterator[str]:
    """Yield each count, formatted with `,`, that a plural follows; a constant is never one."""
    for node in ast.walk(parse_source(path.resolve())):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, following in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(following, ast.Constant)):
                continue
            name = ast.unparse(value.value)
            is_count = value.format_spec is not None and ast.unparse(value.format_spec) in {"f','", "','"}
            is_constant = name.rpartition(".")[2].strip("_").isupper() or " // 2" in name
            if is_count and not is_constant and PLURAL.match(str(following.value)):
                yield f"{path}:{value.lineno}: {{{name}}}{following.value!s}"


def test_no_sentence_writes_a_plural_after_a_count() -> None:
    files = (path for room in ROOMS for path in Path(room).rglob("*.py") if not path.is_symlink())

    assert [place for path in files for place in _list_places(path)] == []


def test_no_template_writes_a_plural_after_a_count() -> None:
    templates = list(Path("reconcile").rglob("*.j2"))

    assert templates
    assert [(path.name, m[0]) for path in templates for m in IN_TEMPLATE.finditer(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_report_of_few_rows_is_inflected(count: int) -> None:
    report = flights()
    finding = replace(
        report.finding,
        windows=replace(report.finding.windows, compared=count, different=count, open=count, incomplete=count),
        rows=Rows(compared=count, missing=0, extra=0, changed=count),
        events=replace(report.finding.events, late=count),
        differences=report.finding.differences[:count],
        differences_total=count,
    )
    texts = [render(replace(report, finding=finding)) for render in (page.render_page, files.render_markdown)]
    assert isinstance(finding.windows, Windows)
    assert isinstance(finding.events, Events)

    for text in texts:
        visible = re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
        assert [visible[max(0, m.start() - 60) : m.end() + 20] for m in ONE_OF_MANY.finditer(visible)] == []
