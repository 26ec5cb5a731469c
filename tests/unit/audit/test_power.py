"""Number of windows that an audit needs: the arithmetic, and its power in 2,000 simulated pipelines."""

import math
import random
from collections.abc import Callable, Sequence

import pytest

from cutover.definition import Audit
from cutover.reconcile.result.text import share
from cutover.reconcile.verdict.statistics import SamplePlan, find_sample_miss_chance, plan_sample

CELLS = Audit(faults="cells", share=0.01, within_days=7, power=0.95)
WHOLE = Audit(faults="windows", share=0.01, within_days=7, power=0.95)
PIPELINES = 2_000
NOISE = 0.015
"""Three standard errors of a share of 0.95 among 2,000."""

Faulty = Callable[[random.Random, int], bool]


def test_windows_of_one_row_need_as_many_windows_as_rows() -> None:
    plan = plan_sample(CELLS, [1] * 1_000, available=700)

    assert (plan.windows, plan.count_draws(1), plan.count_draws(7)) == (299, math.ceil(299 / 7), 299)
    assert plan.refusal is None


def test_rows_of_a_window_count_each_on_its_own() -> None:
    plan = plan_sample(CELLS, [43] * 240, available=168)

    assert (plan.windows, plan.count_draws(1)) == (7, 1)


def test_whole_window_faults_ignore_the_number_of_rows() -> None:
    assert plan_sample(WHOLE, [1_000] * 1_000, available=700).windows == 299


@pytest.mark.parametrize("audit", [WHOLE, CELLS])
def test_too_few_windows_are_rejected_with_their_power(audit: Audit) -> None:
    plan = plan_sample(audit, [1] * 168, available=168)

    assert plan.refusal is not None
    assert "expected 299 final windows in 7 days" in plan.refusal
    assert "got 168" in plan.refusal
    assert share(1 - 0.99**168) in plan.refusal


def test_windows_longer_than_a_day_are_counted_over_all_the_days() -> None:
    year = Audit(share=0.01, within_days=366, power=0.95)
    months, week = plan_sample(year, [1_000] * 12, available=11), plan_sample(CELLS, [1_000], available=0)

    assert (months.windows, months.count_draws(30), months.refusal) == (1, 1, None)
    assert week.refusal is not None
    assert "got 0: with all of them the chance is 0\N{NARROW NO-BREAK SPACE}%" in week.refusal


def test_windows_without_rows_find_nothing() -> None:
    plan = plan_sample(CELLS, [0] * 240, available=168)

    assert (plan.windows, plan.power) == (None, 0.0)
    assert "final windows have no rows" in (plan.refusal or "")


def test_a_share_of_one_is_in_every_row() -> None:
    assert plan_sample(Audit(share=1.0), [1, 2], available=2).windows == 1


def test_audited_windows_give_the_probability_of_a_miss() -> None:
    assert find_sample_miss_chance(CELLS, [2, 3]) == pytest.approx(0.99**5)
    assert find_sample_miss_chance(WHOLE, [2, 3]) == pytest.approx(0.99**2)
    assert find_sample_miss_chance(CELLS, []) == 1.0


def independent(rng: random.Random, rows: int) -> bool:
    return any(rng.random() < CELLS.share for _ in range(rows))


def whole(rng: random.Random, _: int) -> bool:
    return rng.random() < WHOLE.share


def finds(rng: random.Random, plan: SamplePlan, day: Sequence[int], faulty: Faulty) -> bool:
    """Check whether audits with a plan's samples detect an active fault in time."""
    assert plan.windows is not None
    for _ in range(plan.audit.within_days):
        wrong = [faulty(rng, rows) for rows in day]
        if any(wrong[window] for window in rng.sample(range(len(day)), plan.count_draws(1))):
            return True
    return False


@pytest.mark.parametrize(
    ("audit", "faulty", "day"),
    [
        pytest.param(CELLS, independent, [1, 2, 3, 40] * 12, id="cells, uneven windows"),
        pytest.param(CELLS, independent, [0] * 20 + [5] * 28, id="cells, empty windows"),
        pytest.param(WHOLE, whole, [1] * 48, id="whole windows"),
    ],
)
def test_faults_are_detected_with_the_planned_power(audit: Audit, faulty: Faulty, day: list[int]) -> None:
    rng, plan = random.Random("audit"), plan_sample(audit, day * 7, available=7 * len(day))  # noqa: S311 -- a seeded simulation
    assert plan.refusal is None

    detected = sum(finds(rng, plan, day, faulty) for _ in range(PIPELINES))

    assert detected / PIPELINES >= audit.power - NOISE


def test_half_the_planned_windows_miss_the_planned_power() -> None:
    """Drawing every window would reach any power; half the planned windows must miss this one."""
    day = [1] * 48
    rng, plan = random.Random("audit"), plan_sample(WHOLE, day * 7, available=7 * len(day))  # noqa: S311 -- a seeded simulation
    assert plan.windows is not None
    half = SamplePlan(audit=WHOLE, available=plan.available, hides=plan.hides, windows=plan.windows // 2)

    detected = sum(finds(rng, half, day, whole) for _ in range(PIPELINES))

    assert detected / PIPELINES < WHOLE.power - 2 * NOISE
