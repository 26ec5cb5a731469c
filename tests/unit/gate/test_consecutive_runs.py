"""Runs that are eligible as gate evidence: consecutive runs, blocks of windows, and their expiry."""

from datetime import datetime

import pytest

from cutover.reconcile.gate.decide import (
    EXPIRES_AFTER,
    EvidenceRun,
    list_blocks,
    select_consecutive_runs,
)
from tests.support.history.gate_evidence import (
    DAY,
    HOUR,
    NOW,
    make_run,
)
from tests.unit.gate.test_decide import advance


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([make_run(1), make_run(2), make_run(3)], [1, 2, 3], id="three cuts"),
        pytest.param([make_run(1), make_run(1), make_run(2)], [1, 2], id="same cut counts once"),
        pytest.param([make_run(2), make_run(1), make_run(3)], [2, 3], id="older cut is no news"),
        pytest.param(
            [make_run(2, first_sequence=1), make_run(1, first_sequence=0)],
            [1, 2],
            id="an older cut compared again takes nothing away",
        ),
        pytest.param(
            [make_run(2, first_sequence=0), make_run(1, first_sequence=1)],
            [2],
            id="an older cut compared late is no evidence",
        ),
        pytest.param(
            [make_run(5, is_within_policy=False), make_run(3), make_run(4)],
            [],
            id="older cuts after a bad run at a newer one",
        ),
        pytest.param(
            [make_run(5, is_within_policy=False), make_run(3), make_run(6)], [6], id="a newer cut after it counts"
        ),
        pytest.param(
            [make_run(4), make_run(5, is_within_policy=False), make_run(5)],
            [5],
            id="the same cut compared again counts",
        ),
        pytest.param(
            [make_run(5), make_run(5, is_within_policy=False)], [], id="a contradiction at the same cut breaks"
        ),
        pytest.param(
            [make_run(4), make_run(5), make_run(3, is_within_policy=False)], [4, 5], id="a bad run at an older cut"
        ),
        pytest.param(
            [
                make_run(5),
                make_run(5, is_within_policy=False, covers_all_windows=False),
                make_run(5, covers_all_windows=False),
            ],
            [],
            id="a range heals nothing",
        ),
        pytest.param(
            [make_run(1), make_run(2, is_within_policy=False, outcome="DIVERGED"), make_run(3)],
            [3],
            id="divergence breaks",
        ),
        pytest.param(
            [make_run(1), make_run(1, is_within_policy=False, outcome="NOT_COMPARABLE"), make_run(3)],
            [3],
            id="not comparable breaks",
        ),
        pytest.param(
            [make_run(1), make_run(2, covers_all_windows=False), make_run(3)], [1, 3], id="a range is no evidence"
        ),
        pytest.param(
            [
                make_run(1),
                make_run(2, covers_all_windows=False, is_within_policy=False, outcome="DIVERGED"),
                make_run(3),
            ],
            [3],
            id="divergence in a range breaks",
        ),
        pytest.param(
            [make_run(1, end=70), make_run(2, end=70), make_run(3, end=71)],
            [1, 3],
            id="an epoch without records is no newer cut",
        ),
        pytest.param([make_run(1, age=EXPIRES_AFTER + HOUR), make_run(2), make_run(3)], [2, 3], id="expired"),
        pytest.param([make_run(1, age=EXPIRES_AFTER), make_run(2), make_run(3)], [1, 2, 3], id="just not expired"),
        pytest.param(
            [make_run(1, age=-EXPIRES_AFTER - HOUR), make_run(2), make_run(3)], [2, 3], id="of a clock that ran ahead"
        ),
        pytest.param(
            [make_run(1, age=-2 * DAY), make_run(2), make_run(3)], [2, 3], id="ahead by less than it takes to expire"
        ),
        pytest.param(
            [make_run(1), make_run(2), make_run(3, age=-2 * DAY)], [1, 2, 3], id="ahead, made after one that counts"
        ),
        pytest.param(
            [make_run(1, age=EXPIRES_AFTER + HOUR), make_run(2, age=-2 * DAY)],
            [],
            id="ahead, made after one that expired",
        ),
        pytest.param(
            [make_run(1, age=-HOUR), make_run(2, age=HOUR), make_run(3, age=-HOUR)],
            [1, 2, 3],
            id="hosts two hours apart",
        ),
        pytest.param(
            [make_run(1, age=-2 * DAY, inputs=(NOW - DAY,)), make_run(2)], [1, 2], id="ahead, made after its inputs"
        ),
        pytest.param(
            [make_run(1, age=-2 * DAY, inputs=(NOW - EXPIRES_AFTER - HOUR,)), make_run(2)],
            [2],
            id="ahead, its inputs expired",
        ),
    ],
)
def test_consecutive_eligible_runs_are_selected(runs: list[EvidenceRun], expected: list[int]) -> None:
    assert [r.epoch for r in select_consecutive_runs(tuple(runs), NOW)] == expected


@pytest.mark.parametrize(
    ("runs", "is_met"),
    [
        pytest.param([make_run(5, is_within_policy=False), make_run(3)], False, id="an older cut"),
        pytest.param([make_run(5, is_within_policy=False), make_run(5, covers_all_windows=False)], False, id="a range"),
        pytest.param([make_run(5, is_within_policy=False), make_run(5)], True, id="the same cut, whole"),
        pytest.param([make_run(5), make_run(3, is_within_policy=False)], True, id="an older cut that is bad"),
        pytest.param(
            [make_run(5), make_run(5, covers_all_windows=False, is_within_policy=False)],
            False,
            id="a range that is bad",
        ),
    ],
)
def test_newest_run_is_the_one_at_the_latest_cut(runs: list[EvidenceRun], is_met: bool) -> None:
    condition = next(c for c in advance(*runs).conditions if c.name == "newest run")

    assert condition.is_met is is_met


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], (), id="none"),
        pytest.param([make_run(1, first_sequence=0), make_run(2, first_sequence=1)], (False, False), id="two cuts"),
        pytest.param(
            [make_run(2, first_sequence=0), make_run(2, first_sequence=1), make_run(1, first_sequence=2)],
            (False,),
            id="a cut counts once",
        ),
        pytest.param(
            [
                make_run(1, first_sequence=0, outcome="DIVERGED", is_within_policy=False),
                make_run(1, first_sequence=1),
                make_run(2, first_sequence=2),
            ],
            (True, False),
            id="a block that was repaired later counts as diverged",
        ),
        pytest.param(
            [
                make_run(1, first_sequence=0),
                make_run(1, first_sequence=1, covers_all_windows=False, outcome="DIVERGED", is_within_policy=False),
            ],
            (True,),
            id="a range speaks against the newest block",
        ),
        pytest.param(
            [
                make_run(1, first_sequence=0),
                make_run(2, first_sequence=1, outcome="NOT_COMPARABLE", is_within_policy=False),
                make_run(3, first_sequence=2),
            ],
            (False, False),
            id="windows that were not comparable are those of the next block",
        ),
        pytest.param(
            [make_run(n, first_sequence=n, newest_window=5) for n in range(70)],
            (False,),
            id="newer cuts without a newer window",
        ),
        pytest.param(
            [
                make_run(1, first_sequence=1),
                make_run(2, first_sequence=2, newest_window=1, outcome="DIVERGED", is_within_policy=False),
                make_run(3, first_sequence=3),
            ],
            (True, False),
            id="a cut without a newer window speaks against the newest block",
        ),
        pytest.param(
            [make_run(1, first_sequence=1, newest_window=None), make_run(2, first_sequence=2, newest_window=None)],
            (False,),
            id="windows unknown",
        ),
        pytest.param([make_run(1, outcome="ACCEPTED")], (True,), id="an accepted difference is one"),
        pytest.param(
            [make_run(1, outcome="EXPLAINED_BEYOND_POLICY", is_within_policy=False)],
            (False,),
            id="too many late ones are explained",
        ),
        pytest.param(
            [make_run(1, covers_all_windows=False, outcome="DIVERGED", is_within_policy=False)],
            (True,),
            id="a range that nothing came before",
        ),
    ],
)
def test_runs_are_grouped_into_blocks_of_windows(runs: list[EvidenceRun], expected: tuple[bool, ...]) -> None:
    assert list_blocks(tuple(runs)) == expected


@pytest.mark.parametrize(
    ("runs", "expires"),
    [
        pytest.param([], None, id="none counts"),
        pytest.param([make_run(1, age=DAY), make_run(2)], NOW - DAY + EXPIRES_AFTER, id="the oldest"),
        pytest.param(
            [make_run(1, age=DAY), make_run(2, age=-9 * DAY)], NOW - DAY + EXPIRES_AFTER, id="not one of the future"
        ),
    ],
)
def test_evidence_holds_until_its_oldest_run_expires(runs: list[EvidenceRun], expires: datetime | None) -> None:
    assert advance(*runs).expires == expires
