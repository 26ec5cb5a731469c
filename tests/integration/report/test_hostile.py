"""Hostile keys that are made to differ: they reach the report, the sheet and the log, and stay text in all of them."""

import csv
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pydantic import SecretStr

from cutover import events
from cutover.settings import Kafka, Settings
from reconcile.run import reconcile
from tests.integration.reconcile.lake_of import PIPELINE, Sale, edited, lake_of, write

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=HYPERLINK(1)",
    "+cmd",
    "-1+1",
    "@SUM(A1)",
    "\x1b[31mred",
    "a\r\nforged=line",
    "\u202etxt.exe",
    "'; DROP TABLE batch; --",
)
CANARY = "canary-5f1d0c"


class Elements(HTMLParser):
    """Tags of a page with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(f"{tag}.{name}" for name, _ in attrs)}


def elements(path: Path) -> set[str]:
    parser = Elements()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser.found


def compared(settings: Settings, keys: tuple[str, ...]) -> Path:
    """Compare two sides whose every row differs by one, and return the page."""
    lake = lake_of([Sale(hour=i, shop=key) for i, key in enumerate(keys)])
    for place in range(len(lake.batch)):
        lake = edited(lake, place, lambda row: row | {"sales": row["sales"] + 1})
    write(settings, lake)
    result = reconcile(settings, PIPELINE)
    return settings.reports_dir / str(result.report_path)


@pytest.fixture
def guarded(settings: Settings) -> Settings:
    """Return settings with a secret that must be found nowhere."""
    return settings.model_copy(update={"kafka": Kafka(password=SecretStr(CANARY), user="reader")})


@pytest.fixture
def page(guarded: Settings) -> Path:
    return compared(guarded, HOSTILE)


def test_hostile_keys_are_among_the_differences(page: Path) -> None:
    stored = json.loads(page.with_suffix(".json").read_text())

    assert {change["key"]["shop"] for change in stored["differences"]} == set(HOSTILE)


def test_no_element_of_the_page_comes_from_data(page: Path, tmp_path: Path) -> None:
    plain = Settings(home=tmp_path / "plain")
    harmless = compared(plain, tuple(f"shop {i}" for i in range(len(HOSTILE))))

    assert elements(page) - elements(harmless) == set()


def test_no_cell_of_the_sheet_is_a_formula(page: Path) -> None:
    with page.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    shops = {row["shop"] for row in rows}
    assert {"'=HYPERLINK(1)", "'+cmd", "'-1+1", "'@SUM(A1)"} <= shops
    assert [shop for shop in shops if shop.startswith(("=", "+", "-", "@", "\t", "\r"))] == []


def test_log_of_the_run_is_one_line_without_control_characters(
    guarded: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    events.configure(pretty=False)
    compared(guarded, HOSTILE)

    said = [line for line in capsys.readouterr().err.split("\n") if '"reconciled"' in line]
    assert len(said) == 1
    assert [c for c in "\x1b\r\u202e" if c in said[0]] == []


def test_secret_of_the_settings_is_in_no_file(guarded: Settings, page: Path) -> None:
    files = [file for file in guarded.home.rglob("*") if file.is_file()]

    assert page in files
    assert [file for file in files if CANARY.encode() in file.read_bytes()] == []
