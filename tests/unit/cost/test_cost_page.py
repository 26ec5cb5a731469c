"""Costs in a report: on its page, in Markdown, in the published object."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema

from cutover.reconcile.cost import fold, price
from cutover.reconcile.report import files, page
from cutover.reconcile.result.parts import AgreementPoint
from cutover.reconcile.result.report import Agreement, Report
from cutover.reconcile.result.text import THIN
from tests.support.history.reconciliations import flights
from tests.unit.cost.test_fold import batch, epoch, make_cost

SCHEMA = json.loads(Path("reconcile/report.schema.json").read_text(encoding="utf-8"))
COSTS = fold(
    [epoch(0, None, run_id="old"), epoch(1, make_cost(2.5, 10**6, 2_500))],
    [batch(1, make_cost(30.0), cut=20, scanned=20)],
    Agreement(
        rows=1000,
        different=4,
        unexplained=1,
        by_age=(
            AgreementPoint(minutes=60.0, windows=90, rows=900, different=30),
            AgreementPoint(minutes=120.0, windows=100, rows=1000, different=4),
        ),
    ),
)
WITH = replace(flights(), cost=COSTS)


def test_page_shows_both_paths_days_and_nines() -> None:
    html = page.render_page(WITH)

    assert "What both paths cost" in html
    assert f"1.00{THIN}MB" in html
    assert f"99.9{THIN}%" in html
    assert "2026-03-01" in html
    assert html.count("delay, 99 %") == 2
    assert COSTS.notes[0] in html


def test_page_names_nines_that_waiting_cannot_reach_and_rows_without_a_cause() -> None:
    text = page.render_page(WITH).split('id="cost"')[1].split("</section>")[0]

    assert text.count(f">1{THIN}h (90 windows)<") == 1  # 90 %
    assert text.count(f">2{THIN}h (100 windows)<") == 1  # 99 %
    assert text.count(">never<") == 2  # 99.9 % and 99.99 %
    assert "differ in 4 of 1,000 rows, 1 of them without a cause" in text
    assert "puts them right" not in text


def test_a_replay_yields_no_age_before_closing() -> None:
    agreement = replace(COSTS.agreement or Agreement(rows=1, different=0), is_replay=True)
    replayed = replace(COSTS, agreement=agreement, nines=price(agreement, 30.0))

    text = page.render_page(replace(flights(), cost=replayed)).split('id="cost"')[1].split("</section>")[0]

    assert text.count(f">2{THIN}h (100 windows)<") == 2  # 90 % and 99 %
    assert "replayed" in text


def test_a_report_without_costs_has_no_section_of_them() -> None:
    assert "What both paths cost" not in page.render_page(flights())
    assert "cost of batch" not in files.render_markdown(flights())


def test_markdown_has_a_line_a_path() -> None:
    lines = [line for line in files.render_markdown(WITH).splitlines() if line.startswith("| cost of")]

    assert len(lines) == 2
    assert "30 core-seconds" in lines[1]


def test_published_object_matches_its_schema_and_round_trips() -> None:
    raw = json.loads(json.dumps(WITH.to_json()))

    jsonschema.validate(raw, SCHEMA)
    assert Report.from_json(raw) == WITH


def test_prometheus_has_no_sample_for_an_unknown_cost() -> None:
    unknown = replace(flights(), cost=fold([epoch(0, None)], [batch(0, make_cost(3.5), cut=10, scanned=10)]))

    lines = [
        line
        for line in files.render_prometheus([unknown]).splitlines()
        if line.startswith("cutover_reconciliation_path")
    ]

    assert lines == [
        'cutover_reconciliation_path_core_seconds{path="batch",pipeline="flights"} 3.5',
        'cutover_reconciliation_path_written_bytes{path="batch",pipeline="flights"} 100.0',
    ]
