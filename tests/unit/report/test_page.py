"""Report page: its text, and no markup, formula or control sequence from data."""

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cutover.errors import DefinitionError, LakeError
from cutover.reconcile.report import files, page
from cutover.reconcile.result.finding import (
    Cause,
    Difference,
    Expectation,
    LostRange,
    PolicyResult,
    SampleRecord,
    Seal,
    SealBreach,
    SideNames,
    Verdict,
    WaterfallStep,
    WorstKey,
)
from cutover.reconcile.result.report import SCHEMA, Report
from cutover.settings import Settings
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report, make_report

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><style>*{display:none}",
    "{{ 7 * 7 }}{% raw %}",
    "=HYPERLINK(1)",
    "+cmd|'/C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\x1b[31mred\x1b[0m",
    "a\r\nb",
    "\u202etxt.exe",
    "javascript:alert(1)",
)
ALLOWED = {"style", "class", "id", "href"}


class Outline(HTMLParser):
    """All elements and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def outline(html: str) -> Outline:
    parser = Outline()
    parser.feed(html)
    return parser


def lost(text: str) -> LostRange:
    return LostRange(
        topic=text,
        topic_id=text,
        partition=0,
        first=40,
        next=60,
        windows_from="2026-03-01T12:30:00Z",
        windows_to="2026-03-01T14:10:00Z",
        stream_version=0,
        epoch=4,
        kind=text,
        who=text,
        why=text,
        at="2026-03-01T15:00:00Z",
    )


def hostile(text: str) -> Report:
    """Build a comparison with a text in every field that data can fill."""
    result = flights()
    key = {text: text, "other": None}
    change = Difference(
        window_start=text, key=key, measure=text, kind=text, streaming=text, batch=text, difference=text, cause=text
    )
    sample = SampleRecord(class_=text, partition=0, offset=1, event_time=text, window_start=text, key=key, reason=text)
    step = WaterfallStep(cause=text, amount=1)
    return change_report(
        result,
        sentence=text,
        sides=SideNames(expected=text, actual=text),
        seal=replace(result.finding.seal, breaches=(SealBreach(code=text, message=text, file=text),), isolation=text),
        causes={text: Cause(rows=1, events=1)},
        policy=PolicyResult(reasons=(text,)),
        waterfall=(replace(result.finding.waterfall[0], measure=text, steps=(step,)),),
        worst_keys=(WorstKey(key=key, rows=1, measure=text, difference=text),),
        samples=(sample,),
        differences=(change,),
        contract=(Expectation(expectation=text, severity=text, success=False, observed=text),),
        losses=(lost(text),),
        loss=text,
        notes=(text,),
        runbook=text,
    )


@cache
def render_hostile(text: str) -> str:
    """Render the page of a comparison with a text in every field, once for all tests."""
    return page.render_page(hostile(text))


@cache
def render_flights() -> str:
    """Render the page of a comparison of flights, once for all tests that only read it."""
    return page.render_page(flights())


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_data_adds_no_element_and_no_attribute(text: str) -> None:
    harmless = outline(render_hostile("harmless"))
    page_outline = outline(render_hostile(text))

    assert set(page_outline.tags) <= set(harmless.tags)
    assert {name for name, _ in page_outline.attributes} <= {name for name, _ in harmless.attributes}


@pytest.mark.parametrize("text", HOSTILE)
def test_page_has_no_control_character_from_data(text: str) -> None:
    html = render_hostile(text)

    assert [c for c in "\x1b\r\u202e" if c in html] == []


def test_template_syntax_in_data_is_not_evaluated() -> None:
    assert "{{ 7 * 7 }}" in "".join(outline(render_hostile("{{ 7 * 7 }}")).said)


def test_page_has_one_own_script_and_no_remote_asset() -> None:
    html = render_hostile("<script>alert(1)</script>")
    page_outline = outline(html)
    addresses = [
        value for name, value in page_outline.attributes if name in {"src", "href", "srcset", "action", "data"}
    ]

    assert re.findall("<script[^>]*>(.*?)</script>", html, re.DOTALL) == [page.read_script()]
    assert page_outline.tags.count("script") == 1
    assert [address for address in addresses if not address.startswith("#")] == []
    assert [name for name, _ in page_outline.attributes if name.startswith("on")] == []


def test_page_allows_only_its_own_script() -> None:
    contents = [value for name, value in outline(render_flights()).attributes if name == "content"]
    digest = base64.b64encode(hashlib.sha256(page.read_script().encode()).digest()).decode()
    policy = next(content for content in contents if "default-src 'none'" in content)

    assert re.findall("script-src ([^;]*);", policy) == [f"'sha256-{digest}'"]


def test_script_writes_no_markup_and_makes_no_request() -> None:
    banned = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "fetch", "XMLHttp")

    assert [word for word in banned if word in page.read_script()] == []


def test_links_inside_the_page_have_targets() -> None:
    page_outline = outline(page.render_page(change_report(flights(), verdict=Verdict.DIVERGED)))
    ids = {value for name, value in page_outline.attributes if name == "id"}

    assert {value[1:] for name, value in page_outline.attributes if name == "href"} - ids == set()


@pytest.mark.parametrize(
    ("verdict", "is_within", "word", "book"),
    [
        (Verdict.CONSISTENT, True, "Consistent", None),
        (Verdict.EXPLAINED, True, "Explained, within policy", None),
        (Verdict.EXPLAINED, False, "Explained, beyond policy", "LateRateHigh"),
        (Verdict.DIVERGED, False, "Diverged", "DivergenceUnexplained"),
        (Verdict.NOT_COMPARABLE, False, "Not comparable", "NotComparable"),
    ],
)
def test_verdict_is_a_word_and_names_its_runbook(
    verdict: Verdict, is_within: bool, word: str, book: str | None
) -> None:
    result = change_report(flights(), verdict=verdict, policy=PolicyResult(within=is_within))
    page_text = " ".join(outline(page.render_page(result)).said)

    assert word in page_text
    assert ("What to do" in page_text) is (book is not None)
    assert book is None or book in page_text


def test_empty_comparison_is_described_in_words() -> None:
    result = make_report(
        pipeline="p", run_id="r", at="2026-01-01T00:00:00Z", verdict=Verdict.CONSISTENT, exit_code=0, sentence="Equal."
    )
    page_text = " ".join(outline(page.render_page(result)).said)

    assert "No record was late." in page_text
    assert "No key differs." in page_text
    assert "No epoch is committed yet." in page_text


def test_tables_of_another_origin_have_no_seal() -> None:
    html = page.render_page(
        change_report(flights(), kind="tables", sides=SideNames(expected="left", actual="right"), seal=Seal())
    )

    assert 'id="seal"' not in html
    assert 'id="differences"' in html


def test_same_comparison_gives_the_same_page() -> None:
    assert page.render_page(flights()) == render_flights()


def test_page_holds_twenty_windows_before_the_fold() -> None:
    page_text = " ".join(outline(render_flights()).said)
    windows = {cell.window_start for cell in flights().finding.differences}

    assert "100 of 230 cells, some of each kind, in which the sides differ" in page_text
    assert f"{len(windows) - 20} more windows" in page_text


def test_differences_without_a_window_are_one_table() -> None:
    flat = tuple(replace(cell, window_start=None) for cell in flights().finding.differences)
    html = page.render_page(change_report(flights(), kind="tables", differences=flat, days=(), window_series=()))

    assert (html.count('<tr class="row">'), html.count('class="window"'), "80 more" in html) == (100, 0, True)


@pytest.mark.parametrize("text", HOSTILE)
def test_sheet_of_hostile_values_holds_no_formula_and_no_line_break(text: str) -> None:
    rows = list(csv.reader(io.StringIO(files.format_csv(hostile(text)))))

    assert len(rows) == 3  # the last one says that more differ
    assert [c for row in rows for c in row if c.startswith(("=", "+", "-", "@", "\t", "\r"))] == []


def test_report_is_written_whole(settings: Settings) -> None:
    files.write_report(settings, flights())
    folder = settings.reports_dir / "flights"

    names = {file.name for file in folder.iterdir()}
    assert names == {f"{flights().run.run_id}{end}" for end in (".html", ".json", ".csv")}


def test_temporary_files_of_ended_processes_are_deleted(settings: Settings) -> None:
    folder = settings.reports_dir / "flights"
    folder.mkdir(parents=True)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    abandoned, working = folder / f".a.html.{ended.pid}.x1.tmp", folder / f".b.html.{os.getpid()}.x2.tmp"
    for file in (abandoned, working):
        file.write_text("half")

    files.write_report(settings, flights())

    assert (abandoned.exists(), working.exists()) == (False, True)


def test_stored_report_reads_back(settings: Settings) -> None:
    files.write_report(settings, flights())
    loaded = files.read_report(settings, "flights", flights().run.run_id)

    stem = f"flights/{flights().run.run_id}"
    assert loaded == change_report(flights(), report=f"{stem}.json", page=f"{stem}.html")


def test_json_file_of_the_page_is_the_published_object(settings: Settings) -> None:
    path = files.write_report(settings, flights()).with_suffix(".json")

    assert json.loads(path.read_text())["schema"] == SCHEMA


def test_failed_write_leaves_the_old_page_and_no_part(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    previous_page = files.write_report(settings, flights())

    def full(descriptor: int) -> None:
        raise OSError(28, f"No space left on device ({descriptor})")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LakeError, match="No space left") as refused:
        files.write_report(settings, change_report(flights(), run_id="next", sentence="another", differences=()))

    folder: Path = settings.reports_dir / "flights"
    assert refused.value.runbook == "DiskHeadroomLow"
    assert [file.name for file in folder.iterdir() if file.name.startswith("next")] == []
    assert previous_page.read_text().endswith("</html>")
    assert [file.name for file in folder.iterdir() if file.name.endswith(".tmp")] == []


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a\0b", ".hidden", "x" * 200])
def test_name_outside_the_folder_is_rejected(settings: Settings, name: str) -> None:
    with pytest.raises(DefinitionError, match="expected a pipeline and a run id"):
        files.write_report(settings, change_report(flights(), pipeline=name))


def test_losses_are_at_the_top_and_in_their_section() -> None:
    result = flights()
    windows = replace(result.finding.windows, incomplete=4, incomplete_because={"lost": 3, "stale": 1})
    html = page.render_page(
        change_report(result, windows=windows, losses=(lost("a disk"),), loss="The log lost records.")
    )

    assert html.index("The log lost records.") < html.index("Windows compared")
    assert "4 incomplete (3 lost, 1 stale)" in html
    section = html[html.index('id="lost"') : html.index('id="seal"')]
    assert all(part in section for part in ("a disk", "40", "59", "2026-03-01 12:30", "stream-0, epoch 4"))


def test_comparison_without_losses_does_not_mention_them() -> None:
    assert "lost" not in render_flights().split("<main>")[0].lower().replace("lost+found", "").split("</style>")[1]


def test_hint_of_a_message_is_rendered_as_text() -> None:
    result = flights()
    breach = SealBreach(code="foreign", message="Table `t`: got an UPDATE.\nHint: `RESTORE` undoes it.")

    html = page.render_page(change_report(result, seal=replace(result.finding.seal, breaches=(breach,))))

    assert "got an UPDATE. Hint: `RESTORE` undoes it." in html
