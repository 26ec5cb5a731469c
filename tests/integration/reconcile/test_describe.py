"""Parts of a report other than its verdict: days, records behind rows, earlier comparisons, measurements."""

from dataclasses import replace

import jsonschema
import pytest

from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import journal_rows
from cutover.reconcile.audit import noise
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, edit_batch_row, lake_of, reconcile, replace_batch, write
from tests.integration.reconcile.test_run import CLEAN, LATE, SCHEMA, run
from tests.unit.audit.test_noise import NOISE
from tests.unit.report.test_advice import advised


def test_a_report_lists_days_with_their_causes_and_records_behind_its_rows(settings: Settings) -> None:
    lake = lake_of((*CLEAN, *LATE, Sale(epoch=2, hour=30, shop="b", amount=7, kind="late")))
    at = next(i for i, row in enumerate(lake.batch) if row["shop"] == "b")
    result = run(settings, edit_batch_row(lake, at, lambda row: row | {"revenue": row["revenue"] + 1}))

    assert [(day.day, day.windows, dict(day.causes)) for day in result.finding.days] == [
        ("2026-01-01", 7, {"late": 2, "unexplained": 1}),
        ("2026-01-02", 1, {"late": 1}),
    ]
    assert sum(day.different for day in result.finding.days) == result.finding.windows.different
    late = [offset for offset, record in enumerate(lake.log) if offset >= len(CLEAN) or record is None]
    assert sorted(record.offset for record in result.finding.behind) == late
    assert {record.cause for record in result.finding.behind} == {"late"}
    places = {(record.window_start, record.key["shop"]) for record in result.finding.behind}
    assert places <= {(cell.window_start, cell.key["shop"]) for cell in result.finding.differences}


def test_a_report_shows_the_comparisons_before_it(settings: Settings) -> None:
    first_report = run(settings, lake_of((*CLEAN, *LATE)))
    replace_batch(settings, edit_batch_row(lake_of((*CLEAN, *LATE)), 0, lambda row: row | {"revenue": 99}))
    second = reconcile(PipelineLake(settings, PIPELINE))

    assert [run_of_trend.run_id for run_of_trend in first_report.trend] == [first_report.run.run_id]
    assert [(run_of_trend.run_id, run_of_trend.verdict, run_of_trend.unexplained) for run_of_trend in second.trend] == [
        (first_report.run.run_id, "EXPLAINED", 0),
        (second.run.run_id, "DIVERGED", 1),
    ]
    assert [run_of_trend.rows for run_of_trend in second.trend] == [
        2,
        second.finding.rows.missing + second.finding.rows.changed,
    ]


def test_a_report_says_since_which_comparison_its_differences_are_known(settings: Settings) -> None:
    spoilt = edit_batch_row(lake_of(CLEAN), 0, lambda row: row | {"most": 4711})
    first_report = run(settings, spoilt)
    worse = edit_batch_row(spoilt, 1, lambda row: row | {"most": 4712})
    replace_batch(settings, replace(worse, run=replace(worse.run, run_id="batch-2", finished="2026-01-06T00:00:00Z")))

    lake = PipelineLake(settings, PIPELINE)
    second, third = reconcile(lake), reconcile(lake)

    assert [(life.state, life.first_run, life.runs) for life in first_report.lives] == [
        ("open", first_report.run.run_id, 1)
    ]
    assert [(life.first_run, life.runs) for life in second.lives] == [
        (first_report.run.run_id, 2),
        (second.run.run_id, 1),
    ]
    assert (third.run.run_id, third.run.repeats) == (second.run.run_id, 1)
    assert [(life.first_run, life.runs) for life in third.lives] == [
        (first_report.run.run_id, 3),
        (second.run.run_id, 2),
    ]
    page = (settings.reports_dir / (third.run.page or "")).read_text(encoding="utf-8")
    assert f"(run {first_report.run.run_id}), found by 3 comparisons" in page
    assert "2 rows of these without a cause, the oldest known since" in page


@pytest.mark.quick
def test_what_was_measured_beside_comparisons_is_in_the_next_report(settings: Settings) -> None:
    write(settings, lake_of(CLEAN))
    lake = PipelineLake(settings, PIPELINE)
    report_before = reconcile(lake)
    fingerprint = result_fingerprint(PIPELINE)
    advice = replace(advised(), pipeline=PIPELINE.name, result_fingerprint=fingerprint)
    unproven = replace(advice, at="2026-11-24T13:00:00Z", proven=(), proven_at=None)
    for example in (advice, unproven):
        journal_rows.record_advice(settings, example, SystemClock())
    noise.record_noise(settings, replace(NOISE, pipeline=PIPELINE.name, result_fingerprint=fingerprint), SystemClock())

    report_after = reconcile(lake)

    assert (report_before.advice, report_before.noise) == (None, None)
    assert report_after.advice == replace(unproven, proven=advice.proven, proven_at=advice.proven_at)
    assert report_after.noise is not None
    assert report_after.noise.sentence == noise.describe_noise(NOISE)
    assert (report_after.run.run_id, report_after.run.repeats) == (report_before.run.run_id, 1)
    jsonschema.validate(report_after.to_json(), SCHEMA)
