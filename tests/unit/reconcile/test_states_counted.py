"""Counts of open differences: listed ones by state, and a note if there are more."""

from datetime import UTC, datetime

import pytest

from cutover.reconcile.cli.differences import count_states
from cutover.reconcile.verdict.lifecycle import BEYOND, DifferenceState, OpenDifference

AT = datetime(2026, 11, 26, tzinfo=UTC)


def make_difference(
    number: int, state: DifferenceState = DifferenceState.OPEN, kind: str = "changed"
) -> OpenDifference:
    return OpenDifference(
        window_start="2026-01-01T00:00:00Z",
        key=f'{{"k": {number}}}',
        kind=kind,
        first_seen=AT,
        first_run="r",
        last_seen=AT,
        runs=1,
        run_id="r",
        state=state,
    )


@pytest.mark.parametrize(
    ("differences", "states"),
    [
        ([], "0 open"),
        ([make_difference(1), make_difference(2), make_difference(3, DifferenceState.PENDING)], "1 pending, 2 open"),
        (
            [make_difference(1), make_difference(2), make_difference(0, kind=BEYOND)],
            "2 open, and all that the list had no room for",
        ),
        (
            [make_difference(1, DifferenceState.ACCEPTED), make_difference(0, kind=BEYOND)],
            "0 open, 1 accepted, and all that the list had no room for",
        ),
    ],
)
def test_listed_differences_are_counted(differences: list[OpenDifference], states: str) -> None:
    assert count_states("sales", differences) == f"Differences of sales without a cause: {states}"
