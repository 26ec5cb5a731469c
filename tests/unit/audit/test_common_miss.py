"""Joint probability that the recent audits of a policy missed a fault."""

import pytest

from cutover.definition import Audit
from cutover.reconcile.verdict.history import find_common_miss_chance
from tests.support.history.audits import make_audit

DAY = 86_400_000_000
NOW = 100 * DAY
POLICY = Audit(within_days=7)
FIRST = NOW - 7 * DAY


def test_chances_of_several_audits_multiply() -> None:
    audits = [make_audit("p", audit=POLICY, since=NOW - n * DAY, missed=0.5) for n in (1, 2, 3)]

    assert find_common_miss_chance(audits, NOW, POLICY) == pytest.approx(0.125)
    assert find_common_miss_chance([], NOW, POLICY) == 1.0


@pytest.mark.parametrize(
    ("audited_from", "policy", "expected"),
    [
        pytest.param(FIRST, POLICY, 0.5, id="within"),
        pytest.param(FIRST - DAY, POLICY, 0.5, id="one day more"),
        pytest.param(FIRST - DAY - 1, POLICY, 1.0, id="before"),
        pytest.param(NOW - DAY, Audit(within_days=8), 1.0, id="another policy"),
    ],
)
def test_audits_of_the_same_policy_count_within_its_days(audited_from: int, policy: Audit, expected: float) -> None:
    audits = [make_audit("p", audit=policy, since=audited_from, missed=0.5)]

    assert find_common_miss_chance(audits, NOW, POLICY) == expected


def test_days_are_those_of_the_policy() -> None:
    policy = Audit(within_days=1)
    audits = [make_audit("p", audit=policy, since=NOW - 3 * DAY, missed=0.5)]

    assert find_common_miss_chance(audits, NOW, policy) == 1.0
