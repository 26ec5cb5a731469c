"""Results of open windows, compared with the log's records up to the cut; never part of the verdict."""

import json
import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from cutover.definition import AtWatermark, Every
from cutover.definition.model.triggers import Accumulation
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import run
from cutover.reconcile.report import files, page
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.lateness_text import describe_open
from cutover.reconcile.result.measurements import OpenAnswers
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    CLOSED_UNTIL,
    PIPELINE,
    START,
    Lake,
    Sale,
    lake_of,
    log_of_lake,
    reconcile,
    write,
)

CLEAN = [Sale(hour=hour) for hour in range(10)]
HOSTILE = "a|b`<script>alert(1)</script>\n\x1b[31m"


def compare_open_windows(settings: Settings, lake: Lake) -> tuple[Report, OpenAnswers]:
    write(settings, without_open_windows(lake))
    report = reconcile(PipelineLake(settings, PIPELINE))
    assert report.finding.open_answers is not None
    html = page.render_page(report)
    assert describe_open(report.finding.open_answers) in html
    assert "<script>alert" not in html
    assert "<script>alert" not in files.render_markdown(report)
    return report, report.finding.open_answers


def without_open_windows(lake: Lake) -> Lake:
    """Return the lake as batch leaves it: it computes closed windows alone."""
    border = START + timedelta(hours=CLOSED_UNTIL - 1)
    return replace(lake, batch=tuple(row for row in lake.batch if row["window_start"] < border))


def open_sales(seed: int) -> list[Sale]:
    """Return sales of windows that are open at the cut."""
    draw = random.Random(seed)  # noqa: S311 -- no secret
    return [
        Sale(
            hour=CLOSED_UNTIL - 1 + draw.randrange(4),
            shop=draw.choice(("a", HOSTILE, None)),
            amount=draw.randint(1, 50),
            epoch=draw.randrange(3),
        )
        for _ in range(60)
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_was_accepted_is_what_the_log_holds(settings: Settings, seed: int) -> None:
    sales = open_sales(seed)

    _, open_answers = compare_open_windows(settings, lake_of([*CLEAN, *sales]))

    hours = {sale.hour for sale in sales}
    assert (open_answers.unknown, open_answers.windows, open_answers.looked, open_answers.same) == (
        None,
        len(hours),
        len(hours),
        len(hours),
    )
    assert {error.largest for error in open_answers.errors} == {0.0}
    assert sum(point.windows for point in open_answers.points) == len(hours)
    ages = [CLOSED_UNTIL - hour for hour in sorted(hours, reverse=True)]
    assert open_answers.points[0].to_minutes == (0.0 if ages[0] < 0 else open_answers.points[0].to_minutes)


@pytest.mark.parametrize("seed", [4, 5])
def test_an_open_row_that_is_off_is_measured_and_changes_no_verdict(settings: Settings, seed: int) -> None:
    sales = open_sales(seed)
    lake = lake_of([*CLEAN, *sales])
    hour = max(sale.hour for sale in sales)
    start = next(row["window_start"] for row in reversed(lake.partials) if row["revenue"] is not None)
    off = next(n for n, row in enumerate(lake.partials) if row["window_start"] == start)
    row = lake.partials[off]
    spoilt = (*lake.partials[:off], row | {"revenue": row["revenue"] + 7}, *lake.partials[off + 1 :])

    result, open_answers = compare_open_windows(settings, replace(lake, partials=spoilt))

    total = sum(sale.amount for sale in sales if sale.hour == (start - START) // timedelta(hours=1))
    assert hour >= CLOSED_UNTIL
    assert result.finding.verdict is Verdict.CONSISTENT
    assert open_answers.same == open_answers.windows - 1
    errors = {error.measure: error.largest for error in open_answers.errors}
    assert errors == {name: (pytest.approx(7 / total) if name == "revenue" else 0.0) for name in PIPELINE.measures}


def test_nothing_is_said_without_an_open_window(settings: Settings) -> None:
    _, open_answers = compare_open_windows(settings, lake_of(CLEAN))

    assert describe_open(open_answers) == "Of windows open at the cut nothing is known. No window is open at the cut."


def test_records_that_have_left_the_log_are_said(settings: Settings) -> None:
    lake = lake_of([*CLEAN, Sale(hour=CLOSED_UNTIL)])
    write(settings, without_open_windows(lake))

    open_answers = run.run_reconciliation(
        PipelineLake(settings, PIPELINE), log=replace(log_of_lake(lake), begins={0: 11})
    ).finding.open_answers

    assert open_answers is not None
    assert (open_answers.looked, open_answers.windows) == (0, 1)
    assert "the log starts at 11" in str(open_answers.unknown)


def test_windows_beyond_what_is_read_are_counted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutover.reconcile.early.answers.MOST_RECORDS", 2)

    _, open_answers = compare_open_windows(
        settings, lake_of([*CLEAN, *(Sale(hour=CLOSED_UNTIL + n) for n in range(5))])
    )

    assert (open_answers.windows, open_answers.looked, open_answers.same) == (5, 2, 2)
    assert describe_open(open_answers).startswith(
        "Of the newest 2 open windows (5 in all) what was accepted so far is that"
    )


def pane(hour: int, amount: int, *, epoch: int, order: int, kind: str = "early") -> dict[str, object]:
    """Return a pane of one shop as an epoch log holds it: states, and what was noted of it."""
    at = START + timedelta(hours=hour)
    states = {"sales": 1, "revenue": Decimal(amount), "least": amount, "most": amount}
    means = {"mean__sum": Decimal(amount), "mean__count": 1, "_n": 1}
    place = {"window_start": at, "window_end": at + timedelta(hours=1), "shop": "a", "desk": 1}
    about = json.dumps({"order": order, "index": 0, "timing": "early", "processing_time": 0})
    return {"_kind": "pane", "_epoch": epoch, "_class": kind, "_record": about, **place, **states, **means}


@pytest.mark.quick("accumulating")
@pytest.mark.parametrize("way", list(Accumulation))
def test_of_panes_the_newest_is_shown_and_may_lag(settings: Settings, way: Accumulation) -> None:
    pipeline = replace(PIPELINE, trigger=AtWatermark(early=Every("1 minute")), accumulation=way)
    lake = lake_of([*CLEAN, Sale(hour=100, amount=10), Sale(hour=100, amount=30, epoch=1)], pipeline)
    panes = (
        pane(100, 10, epoch=0, order=0),
        pane(100, 99, epoch=0, order=1, kind="dropped"),
        *((pane(100, 10, epoch=1, order=0, kind="retraction"),) if way is Accumulation.RETRACTING else ()),
    )
    epochs = tuple(replace(epoch, panes="panes") for epoch in lake.epochs)
    write(settings, without_open_windows(replace(lake, partials=(*lake.partials, *panes), epochs=epochs)), pipeline)

    result = reconcile(PipelineLake(settings, pipeline))

    open_answers = result.finding.open_answers
    assert result.finding.verdict is Verdict.CONSISTENT
    assert open_answers is not None
    assert (open_answers.shown, open_answers.looked, open_answers.same) == ("panes", 1, 0)
    assert {error.measure: error.largest for error in open_answers.errors} == {
        "sales": 0.5,
        "revenue": 0.75,
        "least": 0.0,
        "most": pytest.approx(2 / 3),
        "mean": 0.5,
    }
    assert "the panes shown are that of batch" in describe_open(open_answers)
