"""Measured ages: round ones, and four for each doubling beyond 30 days."""

from cutover.reconcile.verdict.settlement import AGES, MINUTE, list_ages

DAY = 1440 * MINUTE


def test_ages_extend_to_the_requested_limit() -> None:
    beyond = [age / DAY for age in list_ages(240 * DAY) if age > AGES[-1]]

    assert beyond == [37.5, 45, 52.5, 60, 75, 90, 105, 120, 150, 180, 210]
    assert list(list_ages(2 * MINUTE)) == [MINUTE]
    assert list(list_ages(-(1 << 62))) == []
