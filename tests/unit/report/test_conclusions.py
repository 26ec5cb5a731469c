"""Sentences and columns that would be false of dropped records, replays, young pipelines, tiny or empty samples."""

from dataclasses import replace

import pytest

from cutover.lake.epochs.read_speed import ReadSpeed, measure_read_speed
from cutover.log.cut import Mark
from cutover.reconcile.cost.fold import fold
from cutover.reconcile.report import page
from cutover.reconcile.report.drawings import curves
from cutover.reconcile.report.forms import exposition
from cutover.reconcile.result.cost import describe_lines
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.lateness_text import describe_early
from cutover.reconcile.result.rates import rate
from cutover.reconcile.result.timeliness import EarlyAnswers, EarlyPoint
from cutover.reconcile.verdict import series
from tests.support.history.reconciliations import SELF_TEST, flights
from tests.support.history.reports import change_report
from tests.unit.cost.test_fold import batch, epoch, make_cost

SECOND = 1_000_000
UNKNOWN = ReadSpeed(is_replay=False, speed=None)


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


def test_the_epoch_that_closes_all_windows_has_no_lag() -> None:
    live = replace(epoch(0, None), max_event={0: 100 * SECOND}, watermark_after=90 * SECOND, processing_time="")
    final = replace(live, epoch=1, watermark_after=5_000 * SECOND, final=True)

    assert [point.lag for point in series.list_epoch_points([live, final])] == [10.0, None]


def test_a_live_stream_is_no_replay() -> None:
    """Epochs take a tenth of a second every half minute, so event time advances as fast as the clock."""
    live = [
        replace(
            epoch(number, None),
            max_event={0: number * 30 * SECOND},
            seconds=0.1,
            processing_time=f"2026-03-01T00:{number // 2:02}:{number % 2 * 30:02}Z",
        )
        for number in range(100)
    ]

    logged = [replace(record, marks={0: (Mark(record.epoch, record.epoch * 30_000, ""),)}) for record in live]

    assert measure_read_speed(logged) == ReadSpeed(is_replay=False, speed=1.0)
    assert measure_read_speed(live) == UNKNOWN
    assert measure_read_speed(live[:1]) == UNKNOWN
    assert measure_read_speed([live[1], replace(live[0], max_event={0: 90 * SECOND})]) == UNKNOWN


@pytest.mark.parametrize(
    ("log_days", "expected"),
    [
        pytest.param(314, 314 * 86_400, id="log timestamps go beyond event time"),
        pytest.param(40, 40 * 86_400, id="as fast as event time"),
        pytest.param(0, None, id="those of a load"),
        pytest.param(None, None, id="not recorded"),
    ],
)
def test_speed_of_a_replay_follows_from_log_timestamps(log_days: int | None, expected: int | None) -> None:
    day = 86_400
    epochs = [
        replace(
            epoch(number, None),
            max_event={0: (1 + number * 40 * day) * SECOND},
            processing_time=f"2026-03-01T00:00:0{number}Z",
            marks={} if log_days is None else {0: (Mark(number, (1 + number * log_days * day) * 1_000, ""),)},
        )
        for number in range(2)
    ]

    assert measure_read_speed(epochs) == ReadSpeed(is_replay=True, speed=expected)


def test_a_run_without_comparison_has_no_figures_in_the_trend() -> None:
    refused = replace(flights().trend[0], verdict=Verdict.NOT_COMPARABLE.value, rows=0, late_share=0.0)

    (row,) = curves.tabulate_trend([refused]).rows

    assert row[3:] == ("none",) * 5
    assert "0 rows differ" not in curves.draw_trend([refused, flights().trend[1]], 960)


def test_prometheus_has_no_share_of_nothing() -> None:
    untested = replace(SELF_TEST, detection_rate=rate(0, 0))
    refused = change_report(flights(), verdict=Verdict.NOT_COMPARABLE, self_test=untested)

    samples = exposition.render_prometheus([refused])

    assert "cutover_reconciliation_late_ratio{" not in samples
    assert "selftest_detection_ratio{" not in samples
    assert "cutover_reconciliation_late_ratio{" in exposition.render_prometheus([flights()])


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
    assert "10 records still waiting" in dict(describe_lines(costs))["cost of batch"]


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
