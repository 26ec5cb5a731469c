"""Hostile keys whose rows differ: they reach page, sheet, log and terminal, and stay text in all of them."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pydantic import SecretStr

from cutover import events
from cutover.cli import app
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import KafkaSettings
from tests.faults.catalogue.evidence.findings import LAKE_ALONE, OLD_BATCH, nothing, sales
from tests.faults.fault import Fault
from tests.faults.running.rig import Rig
from tests.integration.reconcile.lake_of import START, Sale, edit_batch_row, lake_of, write
from tests.integration.reconcile.test_commands import DEFINITION

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
    "[bold red]markup[/]",
)
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
CONTROL = "\x1b\r\u202e"
CANARY = "canary-5f1d0c"


class Elements(HTMLParser):
    """Tags of a page with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.found |= {tag, *(f"{tag}.{name}" for name, _ in attrs)}


def elements(page: Path) -> set[str]:
    """Return the elements of a page."""
    parser = Elements()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.found


def make_hostile_keys_differ(rig: Rig) -> None:
    """Compare two sides whose every row differs by one; print the rows by every command; keep the output."""
    rig.make = sales
    secret = KafkaSettings(
        bootstrap_servers="127.0.0.1:1", password=SecretStr(CANARY), user="reader", timeout_seconds=0.2
    )
    rig.settings = rig.settings.model_copy(update={"kafka": secret})
    events.configure(pretty=False)
    log = io.StringIO()
    with redirect_stderr(log):
        result = _differing(rig, HOSTILE)
    rig.note("log", (log.getvalue(),))  # not for the results: a tuple
    rig.note("page", rig.settings.reports_dir / str(result.run.report_path))
    rig.note("keys", {change.key["shop"] for change in result.finding.differences})
    rig.note("sheets", list(rig.settings.reports_dir.rglob("*.csv")))
    rig.exit_code = result.finding.exit_code
    rig.note("terminal", (_terminal(rig),))


def _differing(rig: Rig, keys: tuple[str, ...]) -> Report:
    lake = lake_of([Sale(hour=i, shop=key) for i, key in enumerate(keys)])
    for place in range(len(lake.batch)):
        lake = edit_batch_row(lake, place, lambda row: row | {"sales": row["sales"] + 1})
    write(rig.settings, lake)
    return rig.reconcile()


def _terminal(rig: Rig) -> str:
    """Return what `cutover sql` and `cutover explain` print of the hostile keys, as people and as programs read it."""
    output = io.StringIO()
    with _installed(rig), redirect_stdout(output), redirect_stderr(output):
        app.main(["sql", "sales", "SELECT * FROM serving"])
        app.main(["sql", "sales", "SELECT * FROM serving", "--json"])
        for i, key in enumerate(HOSTILE):
            at = (START + timedelta(hours=i)).isoformat()
            app.main(["explain", "sales", at, f"{json.dumps(key)},1"])
        app.main(["reconcile", "sales"])
        app.main(["gate", "sales"])
    return output.getvalue()


@contextmanager
def _installed(rig: Rig) -> Iterator[None]:
    """Make the rig's installation the one that commands find."""
    pipelines = rig.settings.home / "pipelines"
    pipelines.mkdir(exist_ok=True)
    (pipelines / "sales.py").write_text(DEFINITION, encoding="utf-8")
    variables = {"CUTOVER_HOME": str(rig.settings.home), "CUTOVER_PIPELINES": str(pipelines)}
    variables |= {"CUTOVER_KAFKA__PASSWORD": CANARY, "CUTOVER_KAFKA__USER": "reader"}
    variables |= {"CUTOVER_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1", "CUTOVER_KAFKA__TIMEOUT_SECONDS": "0.2"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def hostile_keys_are_among_the_findings(rig: Rig) -> bool:
    """All of them, as they were sent."""
    return bool(rig.evidence["keys"] == set(HOSTILE))


def no_element_comes_from_data(rig: Rig) -> Iterator[str]:
    """The page has the elements of one with harmless keys."""
    plain = rig.add_installation("plain")
    plain.make = sales
    harmless = _differing(plain, tuple(f"shop {i}" for i in range(len(HOSTILE))))
    page = plain.settings.reports_dir / str(harmless.run.report_path)
    for element in sorted(elements(rig.evidence["page"]) - elements(page)):
        yield f"the page has <{element}>"


def no_cell_is_a_formula(rig: Rig) -> Iterator[str]:
    """Text cells that look like one begin with an apostrophe."""
    sheets = rig.evidence["sheets"]
    if not sheets:
        yield "there is no sheet"
    for sheet in sheets:
        with sheet.open(newline="", encoding="utf-8") as file:
            shops = [row["shop"] for row in csv.DictReader(file)]
        yield from (f"cell `{shop}`" for shop in shops if shop.startswith(FORMULAS))
        if "'=HYPERLINK(1)" not in shops:
            yield f"{sheet.name} does not hold the formula as text"


def log_lines_stay_lines(rig: Rig) -> Iterator[str]:
    """One JSON object a line, without a control character."""
    lines = [line for line in rig.evidence["log"][0].split("\n") if line]
    if not any('"reconciled"' in line for line in lines):
        yield "the run is not in the log"
    for line in lines:
        if not isinstance(json.loads(line), dict) or any(c in line for c in CONTROL):
            yield f"log line {line[:80]!r}"


def terminal_shows_no_control_character(rig: Rig) -> Iterator[str]:
    """Tables and objects on the terminal; a spreadsheet's CSV of `sql` is the data as it is, quoted."""
    output = rig.evidence["terminal"][0]
    control_lines = [line for line in output.split("\n") if "\u202e" in line or "\x1b" in line]
    yield from (f"terminal line {line[:80]!r}" for line in control_lines)
    if "HYPERLINK" not in output:
        yield "the hostile keys were not shown"


def secret_is_nowhere(rig: Rig) -> Iterator[str]:
    """Not in a file of the installation, not in what was logged or shown."""
    files = [file for file in rig.settings.home.rglob("*") if file.is_file()]
    yield from (f"in {file.name}" for file in files if CANARY.encode() in file.read_bytes())
    yield from (f"in the {name}" for name in ("log", "terminal") if CANARY in rig.evidence[name][0])
    if rig.evidence["page"] not in files:
        yield "the page was not checked"


FAULTS = (
    Fault(
        id="F32",
        family="findings",
        title="hostile values",
        inject=make_hostile_keys_differ,
        happened=hostile_keys_are_among_the_findings,
        needs=LAKE_ALONE,
        limits=OLD_BATCH,
        settle=nothing,
        checks=(),
        verdicts=frozenset({Verdict.DIVERGED}),
        holds=(
            no_element_comes_from_data,
            no_cell_is_a_formula,
            log_lines_stay_lines,
            terminal_shows_no_control_character,
            secret_is_nowhere,
        ),
        alert="DivergenceUnexplained",
        stays=True,
        exit_code=1,
    ),
)
