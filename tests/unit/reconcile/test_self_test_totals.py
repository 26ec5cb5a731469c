"""Totals of self-test trials: every planted row is in a denominator, and rows not compared are counted separately."""

from dataclasses import replace

from cutover.reconcile.report import files
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.parts import list_uncounted, rate
from cutover.reconcile.result.text import THIN
from cutover.reconcile.selftest.trials import PlantResult, TrialResult, compute_trial_totals
from tests.support.history.reconciliations import SELF_TEST
from tests.support.history.reports import make_report

DROPPED = PlantResult(kind="dropped rows", planted=10, detected=9, identified=8, not_compared=2)
DELAYED = PlantResult(kind="delayed rows", planted=5, detected=5, refused=5, not_compared=1)
COMPARED = TrialResult(plants=(DROPPED,), clean_windows=100, false_alarms=1, untouched=4, unchanged=3, drawn_in=6)
BESIDE = TrialResult(
    plants=(replace(DROPPED, detected=10, identified=10), replace(DELAYED, refused=0)), clean_windows=50
)
REFUSED = TrialResult(plants=(DELAYED,))


def test_every_planted_row_counts_and_a_rejected_trial_names_none() -> None:
    totals = compute_trial_totals([COMPARED, BESIDE, REFUSED])

    assert totals.detection_rate == rate(29, 30)
    assert totals.right_cause_rate == rate(18 + 3, 29 - 5 + 4)
    assert totals.false_alarm_rate == rate(1, 150)
    assert (totals.refused, totals.not_compared, totals.drawn_in) == (5, 6, 6)


def test_each_kind_has_its_own_rates_with_its_clean_windows() -> None:
    kinds = compute_trial_totals([COMPARED, BESIDE, REFUSED]).by_kind

    assert kinds["dropped rows"].detection_rate == rate(19, 20)
    assert (kinds["dropped rows"].false_alarm_rate, kinds["delayed rows"].false_alarm_rate) == (
        rate(1, 150),
        rate(0, 50),
    )
    assert (kinds["delayed rows"].right_cause_rate, kinds["delayed rows"].refused) == (rate(0, 5), 5)
    assert kinds["delayed rows"].not_compared == 2


def test_markdown_has_each_kind_with_bounds_and_what_is_not_counted() -> None:
    result = make_report(
        pipeline="p", run_id="r", at="", verdict=Verdict.CONSISTENT, exit_code=0, sentence="s", self_test=SELF_TEST
    )

    text = files.render_markdown(result).replace(THIN, " ")

    assert "| dropped rows | 400 of 400 | 99.08 % to 100 % |" in text
    assert "| truncated table | 12 of 12 |" in text
    assert "| 0 of 0 | - |" in text
    assert all(f"- {count} {reason}" in text for count, reason in list_uncounted(SELF_TEST))
