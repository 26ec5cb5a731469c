"""What late records are worth: the sentence on each additive measure."""

import pytest

from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Waterfall, WaterfallStep
from cutover.reconcile.result.lateness_text import describe_late_amounts
from cutover.reconcile.result.text import THIN


def make_waterfall(measure: str, batch: Scalar, late: Scalar, *, cause: str = "late") -> Waterfall:
    return Waterfall(measure=measure, batch=batch, steps=(WaterfallStep(cause=cause, amount=late),), streaming=None)


@pytest.mark.parametrize(
    ("batch", "late", "sentence"),
    [
        (2943, -137, f"Late records are worth 137 of n (4.66{THIN}% of 2,943)."),
        ("72402.48", "-3465.02", f"Late records are worth 3,465.02 of n (4.79{THIN}% of 72,402.48)."),
        (100, 20, "Late records are worth -20 of n."),  # refunds: no share
        (0, -5, "Late records are worth 5 of n."),
        (100, 0, None),
        (None, None, None),
        ("NaN", "NaN", None),
    ],
)
def test_late_records_are_worth_their_part_of_the_total(batch: Scalar, late: Scalar, sentence: str | None) -> None:
    assert describe_late_amounts([make_waterfall("n", batch, late)]) == sentence


def test_other_causes_and_measures_without_a_total_are_left_out() -> None:
    waterfalls = [make_waterfall("n", 10, -1), make_waterfall("m", 10, -1, cause="future")]

    assert describe_late_amounts(waterfalls) == f"Late records are worth 1 of n (10{THIN}% of 10)."
    assert describe_late_amounts([]) is None
