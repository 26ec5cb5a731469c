"""Verdicts as tables: they depend only on the findings and the policy."""

from dataclasses import replace

import pytest

from cutover.definition import Policy
from cutover.reconcile.result.finding import Rows, Seal, SealBreach, Verdict, Windows
from cutover.reconcile.verdict.decision import (
    VerdictInput,
    compute_late_share,
    decide_not_comparable,
    decide_verdict,
    describe_verdict,
)

POLICY = Policy(max_late_share=0.001)


def make_verdict_input(
    *, explained: int = 0, unexplained: int = 0, share: float = 0.0, compared: int = 10
) -> VerdictInput:
    return VerdictInput(
        windows=Windows(compared=compared, different=min(1, explained + unexplained), open=2),
        rows=Rows(compared=1_234),
        explained=explained,
        unexplained=unexplained,
        late_share=share,
        causes=("late",) if explained else (),
    )


@pytest.mark.parametrize(
    ("verdict_input", "expected"),
    [
        (make_verdict_input(), (Verdict.CONSISTENT, 0, True)),
        (make_verdict_input(explained=3, share=0.0005), (Verdict.EXPLAINED, 0, True)),
        (make_verdict_input(explained=3, share=0.001), (Verdict.EXPLAINED, 0, True)),
        (make_verdict_input(explained=3, share=0.0011), (Verdict.EXPLAINED, 1, False)),
        (make_verdict_input(unexplained=1), (Verdict.DIVERGED, 1, False)),
        (make_verdict_input(explained=3, unexplained=1, share=0.0001), (Verdict.DIVERGED, 1, False)),
    ],
)
def test_the_verdict_follows_from_what_was_found(
    verdict_input: VerdictInput, expected: tuple[Verdict, int, bool]
) -> None:
    decision = decide_verdict(verdict_input, POLICY)

    assert (decision.verdict, decision.exit_code, decision.policy.within) == expected


def test_a_policy_that_allows_unexplained_rows_does_not_turn_divergence_into_agreement() -> None:
    decision = decide_verdict(make_verdict_input(unexplained=1), Policy(max_unexplained=5))

    assert (decision.verdict, decision.exit_code, decision.policy.within) == (Verdict.DIVERGED, 1, True)


@pytest.mark.parametrize(("allowed", "expected"), [(0, (1, "DimensionChanged")), (2, (0, None))])
def test_rows_that_another_version_of_a_dimension_explains_are_beyond_the_policy_unless_it_allows_them(
    allowed: int, expected: tuple[int, str | None]
) -> None:
    verdict_input = replace(make_verdict_input(explained=3), dimension=2, causes=("late", "dimension"))

    decision = decide_verdict(verdict_input, Policy(max_dimension_rows=allowed))

    assert (decision.verdict, (decision.exit_code, decision.runbook)) == (Verdict.EXPLAINED, expected)
    verdict = describe_verdict(decision.verdict, verdict_input, decision.policy)
    assert "late events and another version of a dimension explain every difference" in verdict


def test_late_share_is_of_accepted_and_late() -> None:
    assert compute_late_share(1, 3) == 1 / (1 + 3)


def test_late_share_of_nothing_is_zero() -> None:
    assert compute_late_share(0, 0) == 0.0


def test_a_broken_seal_is_not_comparable_and_names_its_runbook() -> None:
    seal = Seal(holds=False, breaches=(SealBreach(code="history", message="torn.", runbook="EpochHistoryBroken"),))

    decision = decide_not_comparable(seal, POLICY)

    assert (decision.verdict, decision.exit_code, decision.runbook) == (
        Verdict.NOT_COMPARABLE,
        2,
        "EpochHistoryBroken",
    )


DIFFER = "Streaming and batch differ in 1 window (3 rows) of 10 closed windows (1,234 rows);"
LATE = " 7 late events, 0.05 % of all events compared, explain every difference: within the policy."


@pytest.mark.parametrize(
    ("verdict_input", "sentence"),
    [
        (make_verdict_input(), "Streaming and batch agree in all 10 closed windows (1,234 rows)."),
        (make_verdict_input(explained=3, share=0.0005), DIFFER + LATE),
        (make_verdict_input(explained=2, unexplained=1), DIFFER + " 1 row has no explanation, 2 have."),
    ],
)
def test_the_sentence_contains_the_numbers(verdict_input: VerdictInput, sentence: str) -> None:
    decision = decide_verdict(verdict_input, POLICY)

    assert describe_verdict(decision.verdict, replace(verdict_input, late=7), decision.policy) == sentence
