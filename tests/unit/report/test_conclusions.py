"""Sentences and columns that would be false of dropped records, replays, young pipelines, tiny or empty samples."""

from dataclasses import replace

from cutover.reconcile.cost import fold
from cutover.reconcile.report import files, page, sections
from cutover.reconcile.report.drawings import curves
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.lateness_text import describe_early
from cutover.reconcile.result.measurements import EarlyAnswers, EarlyPoint
from cutover.reconcile.result.parts import rate
from cutover.reconcile.result.report import describe_cost_lines
from tests.support.history.reconciliations import SELF_TEST, flights
from tests.support.history.reports import change_report
from tests.unit.cost.test_fold import batch, epoch, make_cost

SECOND = 1_000_000


def early(*points: tuple[float, int, int]) -> EarlyAnswers:
    early_points = tuple(
        EarlyPoint(minutes=m, is_open=True, within=rate(hits, of), errors=()) for m, hits, of in points
    )
    return EarlyAnswers(near=0.04, windows=100, one_of=1, points=early_points, unknown=None)


def test_early_answers_are_near_from_the_age_after_which_they_stay_near() -> None:
    sentence = describe_early(early((1, 20, 20), (5, 15, 30), (15, 30, 30), (30, 40, 40)))

    assert "15" in sentence
    assert "30 of 30 windows" in sentence
    assert "before windows closed" in describe_early(early((1, 20, 20), (5, 15, 30)))


def test_early_answers_of_a_replay_are_named_as_such() -> None:
    early_answers = early((1, 20, 20), (5, 30, 30))

    sentence = describe_early(replace(early_answers, is_replay=True, read_speed=4_321.4))

    assert "4,321 times faster" in sentence
    assert "replay" in describe_early(replace(early_answers, is_replay=True, points=(), unknown="All in one epoch."))
    assert "replay" not in describe_early(early_answers)
    assert "unknown" in describe_early(replace(early_answers, is_replay=None))
    assert "were within" not in describe_early(replace(early_answers, is_replay=None))


def test_the_epoch_that_closes_all_windows_has_no_lag() -> None:
    live = replace(epoch(0, None), max_event={0: 100 * SECOND}, watermark_after=90 * SECOND, processing_time="")
    final = replace(live, epoch=1, watermark_after=5_000 * SECOND, final=True)

    assert [point.lag for point in sections.list_epoch_points([live, final])] == [10.0, None]


def test_a_run_without_comparison_has_no_figures_in_the_trend() -> None:
    refused = replace(flights().trend[0], verdict=Verdict.NOT_COMPARABLE.value, rows=0, late_share=0.0)

    (row,) = curves.tabulate_trend([refused]).rows

    assert row[3:] == ("none",) * 5
    assert "0 rows differ" not in curves.draw_trend([refused, flights().trend[1]], 960)


def test_prometheus_has_no_share_of_nothing() -> None:
    untested = replace(SELF_TEST, detection_rate=rate(0, 0))
    refused = change_report(flights(), verdict=Verdict.NOT_COMPARABLE, self_test=untested)

    samples = files.render_prometheus([refused])

    assert "cutover_reconciliation_late_ratio{" not in samples
    assert "selftest_detection_ratio{" not in samples
    assert "cutover_reconciliation_late_ratio{" in files.render_prometheus([flights()])


def test_a_rate_of_nothing_is_no_zero() -> None:
    untested = replace(SELF_TEST, right_cause_rate=rate(0, 0))

    section = page.render_page(replace(flights(), self_test=untested)).split('id="selftest"')[1].split("</section>")[0]

    assert ">none</td>" in section
    assert "settled" not in curves.draw_rates("causes named right", rate(0, 0))


def test_delays_name_excluded_records() -> None:
    epochs = [
        epoch(0, make_cost(1.0), waited=90_000),
        epoch(1, make_cost(2.0), waited=5),
        epoch(2, make_cost(3.0), waited=5),
    ]

    costs = fold(epochs, [batch(1, make_cost(4.0), cut=20, scanned=20)])

    notes = " ".join(costs.notes)
    assert "10 records were older than a day" in notes
    assert "10 records wait for a batch run" in notes
    assert "10 records still waiting" in dict(describe_cost_lines(costs))["cost of batch"]


def test_core_seconds_of_few_records_are_no_forecast() -> None:
    few, many = epoch(0, make_cost(1.0), records=20), epoch(0, make_cost(1.0), records=200_000)

    assert "streaming has read 20 records" in " ".join(fold([few], []).notes)
    assert "no forecast" not in " ".join(fold([many], []).notes)


def test_late_share_of_the_head_names_its_windows_and_records_theirs() -> None:
    result = change_report(flights(), lateness_histogram=())

    text = page.render_page(result)

    assert "of the records in compared windows, limit" in text
    assert f"{result.finding.events.late:,} records up to the cut" in text
    assert "No record was late." not in text
    assert "No record was late." in page.render_page(
        change_report(result, events=replace(result.finding.events, late=0))
    )
