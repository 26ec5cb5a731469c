"""A report in other forms: Markdown, Prometheus' text, JSON; and served on loopback."""

import json
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from cutover.cli import app
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.cli import history
from cutover.reconcile.report import files
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import SCHEMA, Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import CLOSED_UNTIL, PIPELINE, Sale, edit_batch_row, lake_of, reconcile, write
from tests.integration.reconcile.test_commands import DEFINITION

HOSTILE = "a|b`<script>alert(1)</script>[x](http://e)\n# @all *b* \x1b[31m"
SALES = [Sale(hour=hour, shop=shop) for hour in range(6) for shop in ("a", HOSTILE)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "sales.py").write_text(DEFINITION, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path / "pipelines"))
    return Settings(home=tmp_path / "home", pipelines=tmp_path / "pipelines")


@pytest.fixture
def diverged(home: Settings) -> Report:
    lake = lake_of(SALES)
    at = next(number for number, row in enumerate(lake.batch) if row["shop"] == HOSTILE)
    write(home, edit_batch_row(lake, at, lambda row: row | {"revenue": 99}))
    return reconcile(PipelineLake(home, PIPELINE))


def test_markdown_says_what_the_page_says_and_nothing_of_data_becomes_markup(diverged: Report) -> None:
    text = files.render_markdown(diverged)

    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    assert diverged.finding.verdict is Verdict.DIVERGED
    assert html.count("<table>") == 3
    assert "<script" not in html
    assert "<a " not in html
    assert "<em>" not in html
    assert [line for line in text.splitlines() if "99" in line and line.count("|") == 8] != []
    assert "\x1b" not in text


def test_prometheus_reads_every_sample(diverged: Report) -> None:
    cells = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(files.render_prometheus([diverged]))
        for sample in family.samples
    }

    name = "cutover_reconciliation"
    ours = ("pipeline", "sales")
    assert cells[f"{name}_verdict", ours, ("verdict", "DIVERGED")] == 1
    assert cells[f"{name}_verdict", ours, ("verdict", "CONSISTENT")] == 0
    assert cells[f"{name}_windows", ours, ("state", "different")] == diverged.finding.windows.different == 1
    assert cells[f"{name}_cause_rows", ("cause", "unexplained"), ours] == 1
    assert cells[f"{name}_within_policy", ours] == 0


def test_a_report_is_there_when_the_tables_of_its_run_are_gone(
    home: Settings, diverged: Report, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.rmtree(home.home / "lake" / "sales")
    copy = tmp_path / "differences.parquet"

    assert app.main(["report", "sales", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("## DIVERGED: sales")
    assert app.main(["report", "sales", "--differences", str(copy)]) == 0
    assert pq.read_table(copy).num_rows == diverged.finding.rows.changed


@pytest.mark.usefixtures("diverged")
@pytest.mark.parametrize(
    ("form", "begins"),
    [("markdown", "## DIVERGED: sales"), ("prometheus", "# HELP cutover_"), ("json", f'{{"schema": {SCHEMA}')],
)
def test_the_command_prints_the_newest_report(
    home: Settings, form: str, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["report", "sales", "--format", form]) == 0

    output = capsys.readouterr().out
    assert output.startswith(begins)
    assert (home.reports_dir / "sales").is_dir()
    if form == "json":
        assert json.loads(output)["verdict"] == "DIVERGED"


def test_a_pipeline_without_a_report_is_told_so(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["report", "sales", "--format", "markdown"]) == 2
    assert f"expected one in {home.reports_dir}, found none" in capsys.readouterr().err


def test_every_row_that_differs_is_in_the_parquet(
    home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = [Sale(epoch=1, hour=hour, shop=HOSTILE, desk=None, amount=hour, kind="late") for hour in range(6)]
    lake = lake_of([*SALES, *late])
    at = next(number for number, row in enumerate(lake.batch) if row["shop"] == "a")
    write(home, edit_batch_row(lake, at, lambda row: row | {"revenue": 99}))
    result = reconcile(PipelineLake(home, PIPELINE))
    file = tmp_path / "all 'of' them.parquet"

    capsys.readouterr()
    assert app.main(["report", "sales", "--differences", str(file)]) == 0
    assert capsys.readouterr().out.startswith("7 differing rows of `sales` in ")
    rows = pq.read_table(file).to_pylist()
    assert [(row["row"], row["cause"]) for row in rows if row["key"]["shop"] == "a"] == [("changed", "unexplained")]
    assert [row["batch"]["revenue"] for row in rows if row["key"]["shop"] == "a"] == [99]
    missing = [row for row in rows if row["key"] == {"shop": HOSTILE, "desk": None}]
    assert [(row["row"], row["cause"], row["batch"]["revenue"], row["streaming"]["revenue"]) for row in missing] == [
        ("missing", "late", hour, None) for hour in range(6)
    ]
    listed_ranges = {
        (difference.window_start, difference.key["shop"], difference.key["desk"], difference.kind, difference.cause)
        for difference in result.finding.differences
    }
    assert listed_ranges == {
        (f"{row['window_start']:%Y-%m-%dT%H:%M:%SZ}", *row["key"].values(), row["row"], row["cause"]) for row in rows
    }
    assert not list((home.reports_dir / "sales").glob(".*.tmp"))


def test_a_repeat_and_a_refusal_leave_no_further_parquet(home: Settings, diverged: Report) -> None:
    lake = PipelineLake(home, PIPELINE)
    second_report = reconcile(lake)
    refused = reconcile(lake, start=datetime(2031, 1, 1, tzinfo=UTC))

    assert second_report.run.run_id == diverged.run.run_id
    assert (refused.finding.verdict, refused.run.parquet) == (Verdict.NOT_COMPARABLE, None)
    assert [file.name for file in (home.reports_dir / "sales").glob("*.parquet")] == [f"{diverged.run.run_id}.parquet"]


def test_a_report_without_a_parquet_says_so(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    report = reconcile_nothing(home)

    assert app.main(["report", "sales", "--differences", "x.parquet"]) == 2
    assert f"Report `{report.run.run_id}` of `sales` (NOT_COMPARABLE): expected a Parquet" in capsys.readouterr().err
    assert app.main(["report", "--differences", "x.parquet"]) == 2


def reconcile_nothing(home: Settings) -> Report:
    write(home, lake_of([Sale(hour=CLOSED_UNTIL + 5)]))
    return reconcile(PipelineLake(home, PIPELINE))


@pytest.fixture
def address(home: Settings, diverged: Report) -> Iterator[str]:
    assert diverged.run.page is not None
    with history.open_server(home.reports_dir, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://{history.HOST}:{running.server_port}"
        running.shutdown()
        thread.join()


def test_reports_are_served_on_loopback(address: str) -> None:
    with urllib.request.urlopen(f"{address}/sales/latest.html") as answer:  # noqa: S310 -- our own server
        assert "Diverged" in answer.read().decode()
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["/", "/sales/", "/../home", "/%2e%2e/%2e%2e/etc/passwd", "/sales/none.html", "/sales/outside.html"]
)
def test_nothing_else_is_served(home: Settings, address: str, path: str) -> None:
    (home.reports_dir / "sales" / "outside.html").symlink_to("/etc/passwd")

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address + path)  # noqa: S310 -- our own server

    assert refused.value.code == 404
