"""The page in a real headless Chromium, the network off: it loads, filter and drill-down work, nothing overlaps.

Where things stand is compared everywhere; pictures where the fonts are those of the kept ones (`make report-pictures`).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutover.reconcile.report import page
from cutover.reconcile.result.finding import Difference, Verdict
from cutover.reconcile.result.report import Report
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report
from tests.support.pages import pictures
from tests.support.pages.pictures import SCALE, SHARE, WIDTHS, filter_by, flights_with_record, unfold
from tests.support.servers import browser
from tests.support.servers.browser import Page
from tests.unit.report.test_page import HOSTILE, hostile

pytestmark = pytest.mark.skipif(browser.PROGRAM is None, reason="no Chromium: apt-get install chromium")
CHECKS = Path("tests/support/pages/page_checks.js").read_text(encoding="utf-8")
VISIBLE = """
(selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
  .map(e => e.querySelector("summary .name").textContent))"""


def open_unfolded(tab: Page, file: Path, **page_options: Any) -> None:
    """Open a page with all of it unfolded, and bring the checks."""
    unfold(tab, file, **{"width": 1400, **page_options})
    tab.run(CHECKS)


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser.running_browser() as running:
        yield running


def nasty() -> Report:
    """Return the flights with a key of each hostile text, and the parts shown where a comparison went wrong."""
    keys = [*HOSTILE, None, "", "null", "a\0b", "w" * 300]
    cells = tuple(
        Difference(
            window_start="2013-05-05T05:00:00Z",
            key={"origin": text, "carrier": "UA"},
            measure="flights",
            kind="extra",
            streaming=3,
            batch=None,
            difference=3,
            cause="unexplained",
        )
        for text in keys
    )
    policy = replace(flights().finding.policy, within=False, unexplained=len(keys), reasons=("17 rows have no cause.",))
    return change_report(
        flights_with_record(),
        verdict=Verdict.DIVERGED,
        exit_code=1,
        policy=policy,
        differences=(*cells, *flights().finding.differences),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the pages that the tests open."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {
        "flights": flights_with_record(),
        "nasty": nasty(),
        "script": hostile("<img src=x onerror=document.title='bad'>"),
    }
    for name, result in pages.items():
        (folder / f"{name}.html").write_text(page.render_page(result), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.mark.parametrize("name", ["flights", "nasty", "script"])
def test_page_loads_without_network_and_without_an_error(tab: Page, files: dict[str, Path], name: str) -> None:
    tab.open(files[name])

    assert tab.errors() == []
    assert tab.requests() == [files[name].as_uri()]
    assert tab.run("document.title") != "bad"
    assert tab.run("document.querySelector('.filter').checkVisibility()") is True


def test_browser_that_is_asked_for_the_network_has_none(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["flights"])

    assert tab.run("fetch('http://127.0.0.1:9/').then(() => 'had', () => 'none')") == "none"
    assert [error for error in tab.errors() if "Content Security Policy" in error] != []


def test_filter_keeps_what_holds_every_word(tab: Page, files: dict[str, Path]) -> None:
    cells = [
        c for c in flights().finding.differences if str(c.window_start)[:7] == "2013-02" and c.key["origin"] == "EWR"
    ]
    tab.open(files["flights"])
    filter_by(tab, "2013-02 ewr")

    windows = tab.run(f"{VISIBLE}('#tree .window')")
    keys = tab.run(f"{VISIBLE}('#tree .row')")
    assert 0 < len(cells) < len(flights().finding.differences)
    assert windows == list(dict.fromkeys(str(c.window_start)[:16].replace("T", " ") for c in cells))
    assert [key for key in keys if "origin=EWR" not in key] == []
    assert len(keys) == len({(c.window_start, *c.key.items()) for c in cells})
    assert f"{len(windows)} windows" in tab.run("document.getElementById('filtered').textContent")


def test_filter_that_finds_nothing_says_so_and_the_escape_key_ends_it(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["flights"])
    filter_by(tab, "no such key")

    assert tab.run("document.getElementById('filtered').textContent") == "none of those listed"
    assert tab.run(f"{VISIBLE}('#tree .window')") == []
    tab.press("Escape", code=27)
    assert len(tab.run(f"{VISIBLE}('#tree .window')")) == 20


def test_keyboard_alone_leads_from_a_window_to_the_offset_of_a_record(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["nasty"])
    tab.press("/", code=191, text="/")
    assert tab.run("document.activeElement.id") == "filter"
    tab.enter("2013-01-01")
    tab.run("new Promise(done => setTimeout(done, 120))")
    tab.press("Tab", code=9)
    assert tab.run("document.activeElement.matches('.window > summary')") is True

    for key, code in (("ArrowLeft", 37), ("ArrowRight", 39), ("ArrowDown", 40), ("ArrowLeft", 37)):
        tab.press(key, code=code)
    assert tab.run("document.activeElement.matches('.row > summary')") is True
    assert "70707" not in tab.run("document.activeElement.parentElement.innerText")
    tab.press("Enter", code=13, text="\r")
    assert "70707" in tab.run("document.activeElement.parentElement.innerText")


def test_day_of_the_calendar_leads_to_its_windows(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["flights"])
    day = tab.run("document.querySelector('#calendar td button').textContent")
    tab.run("document.querySelector('#calendar td button').click()")

    visible_windows = tab.run(f"{VISIBLE}('#tree .window')")
    assert visible_windows != []
    assert [name for name in visible_windows if not name.startswith(day)] == []
    assert tab.run("document.activeElement.id") == "filter"


def test_hostile_keys_stay_text(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["nasty"])
    filter_by(tab, "2013-05-05 05:00")
    visible_rows = "".join(tab.run(f"{VISIBLE}('#tree .row')"))

    for text in ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "\\x1b[31mred", "a\\x00b"):
        assert text in visible_rows
    assert 'origin=null, carrier=UAorigin="", carrier=UAorigin="null"' in visible_rows
    assert tab.run("document.querySelectorAll('#tree img, #tree script, body > img').length") == 0
    filter_by(tab, "<script>alert")
    assert len(tab.run(f"{VISIBLE}('#tree .row')")) == 1
    assert tab.errors() == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["flights", "nasty"])
def test_nothing_overflows_the_page_or_overlaps(tab: Page, files: dict[str, Path], name: str, width: int) -> None:
    open_unfolded(tab, files[name], width=width)

    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run("checks.overlaps()") == []
    assert tab.run("checks.texts()") == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["flights", "nasty"])
def test_every_text_has_the_contrast_of_aa(tab: Page, files: dict[str, Path], name: str, *, dark: bool) -> None:
    open_unfolded(tab, files[name], dark=dark)
    ground = tab.run("getComputedStyle(document.body).backgroundColor")

    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) is dark
    assert tab.run("checks.contrast()") == []


@pytest.mark.parametrize("dark", [False, True])
def test_letters_and_bars_stand_out_from_what_is_behind_them(tab: Page, files: dict[str, Path], *, dark: bool) -> None:
    open_unfolded(tab, files["nasty"], dark=dark)

    assert tab.run("checks.shapes()") == []


def test_every_control_and_chart_has_a_name(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["nasty"])
    tree = tab.send("Accessibility.getFullAXTree")["nodes"]

    def names_of_role(role: str) -> list[str]:
        return [n.get("name", {}).get("value", "") for n in tree if n.get("role", {}).get("value") == role]

    assert len(names_of_role("searchbox")) == 1
    assert len(names_of_role("image")) >= 8
    for role in ("searchbox", "image", "region", "button", "link", "DisclosureTriangle"):
        assert [name for name in names_of_role(role) if not name.strip()] == []


def test_focus_can_be_seen(tab: Page, files: dict[str, Path]) -> None:
    tab.open(files["flights"])
    tab.press("Tab", code=9)

    assert tab.run("document.activeElement.className") == "skip"
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert tab.run("document.activeElement.getBoundingClientRect().top >= 0") is True


def test_page_reads_without_its_script(tab: Page, files: dict[str, Path]) -> None:
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(files["flights"])
        text = tab.send("DOM.getOuterHTML", nodeId=tab.send("DOM.getDocument")["root"]["nodeId"])["outerHTML"]
    finally:
        tab.send("Emulation.setScriptExecutionDisabled", value=False)

    assert '<div class="filter" hidden' in text


@pytest.mark.parametrize("width", WIDTHS)
def test_page_looks_as_in_the_kept_picture(tab: Page, files: dict[str, Path], width: int, tmp_path: Path) -> None:
    tab.open(files["flights"], width=width)
    if pictures.probe_fonts(tab) != pictures.kept_probe():
        pytest.skip("other fonts than those of the kept pictures")
    tab.capture(tmp_path / "now.png", whole=True, scale=SCALE)

    assert pictures.measure_difference(tab, tmp_path / "now.png", pictures.FOLDER / f"{width}.png") <= SHARE


def test_a_page_that_looks_other_is_told_from_a_kept_picture(tab: Page, files: dict[str, Path], tmp_path: Path) -> None:
    pictures_taken = []
    for dark in (False, True):
        tab.open(files["flights"], width=800, dark=dark)
        pictures_taken.append(tmp_path / f"{dark}.png")
        tab.capture(pictures_taken[-1], whole=True, scale=SCALE)

    assert pictures.measure_difference(tab, *pictures_taken) > SHARE
    assert pictures.measure_difference(tab, pictures_taken[0], pictures_taken[0]) == 0
