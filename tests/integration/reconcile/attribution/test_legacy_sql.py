"""A team's SQL as the batch: its own measures alone are compared; it may count classes that the stream leaves out."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from cutover.definition import Pipeline, Sql
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Raw, Sale, lake_of, reconcile, write

CLEAN = tuple(Sale(epoch=i % 2, hour=i % 4, amount=i) for i in range(20))
LATE = Sale(epoch=1, hour=1, amount=100, kind="late")
FUTURE = Sale(epoch=1, hour=1, amount=1000, kind="future")


@pytest.fixture
def legacy(tmp_path: Path) -> Pipeline:
    (tmp_path / "legacy.sql").write_text("SELECT ...", encoding="utf-8")
    return replace(PIPELINE, batch=Sql("legacy.sql"), file=tmp_path / "sales.py")


def write_and_compare(pipeline_lake: PipelineLake, lake: Lake) -> Report:
    write(pipeline_lake.settings, lake, pipeline_lake.pipeline)
    return reconcile(pipeline_lake)


def counting(lake: Lake, *further: int) -> Lake:
    """Return the lake whose batch counts further amounts in the hour that has late records."""
    return replace(
        lake, batch=tuple(_more(row, further) if row["window_start"].hour == 1 else row for row in lake.batch)
    )


def _more(row: Raw, amounts: tuple[int, ...]) -> Raw:
    count, total = row["sales"] + len(amounts), row["revenue"] + Decimal(sum(amounts))
    changes = {"sales": count, "revenue": total, "most": max(row["most"], *amounts), "mean": float(total) / count}
    return row | changes


def test_late_records_explain_the_difference(settings: Settings, legacy: Pipeline) -> None:
    result = write_and_compare(PipelineLake(settings, legacy), lake_of((*CLEAN, LATE, FUTURE), legacy))

    outcome = (result.finding.verdict, result.finding.causes["late"].events, result.finding.causes["future"].rows)
    assert outcome == (Verdict.EXPLAINED, 1, 0)


def test_future_records_that_the_sql_counts_are_a_cause(settings: Settings, legacy: Pipeline) -> None:
    result = write_and_compare(PipelineLake(settings, legacy), counting(lake_of((*CLEAN, LATE, FUTURE), legacy), 1000))

    steps = [(s.cause, s.amount) for fall in result.finding.waterfall if fall.measure == "revenue" for s in fall.steps]
    assert (result.finding.verdict, result.finding.causes["future"].events, steps) == (
        Verdict.EXPLAINED,
        1,
        [("late", -100), ("future", -1000)],
    )


def test_a_class_is_no_cause_where_its_rows_do_not_make_the_difference_go_away(
    settings: Settings, legacy: Pipeline
) -> None:
    result = write_and_compare(
        PipelineLake(settings, legacy), counting(lake_of((*CLEAN, LATE, FUTURE), legacy), 1000, 1)
    )

    outcome = (result.finding.verdict, result.finding.causes["unexplained"].rows, result.finding.causes["late"].rows)
    assert outcome == (Verdict.DIVERGED, 1, 0)


def test_sql_that_leaves_late_records_out_as_well_is_consistent(settings: Settings, legacy: Pipeline) -> None:
    lake = replace(lake_of((*CLEAN, LATE), legacy), batch=lake_of(CLEAN, legacy).batch)

    assert write_and_compare(PipelineLake(settings, legacy), lake).finding.verdict is Verdict.CONSISTENT
