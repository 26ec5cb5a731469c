"""Verdicts with numbers at a limit, and the sentences that describe them."""

from dataclasses import replace
from typing import Any

import pytest

from cutover.definition import Policy
from cutover.reconcile.result.finding import PolicyResult, Rows, Seal, SealBreach, Verdict, Windows
from cutover.reconcile.result.parts import JobSide, JobTable
from cutover.reconcile.verdict.decision import (
    VerdictInput,
    compute_late_share,
    decide_not_comparable,
    decide_verdict,
    describe_broken_seal,
    describe_verdict,
)

NOTHING = VerdictInput(
    windows=Windows(compared=10, different=1), rows=Rows(compared=20), explained=0, unexplained=0, late_share=0.0
)
BREACHES = tuple(
    SealBreach(code=code, message=f"{code}.", runbook=page) for code, page in (("a", None), ("b", "B"), ("c", "C"))
)


def sentence(**fields: Any) -> str:
    """Describe a verdict without the head that counts differing windows and rows."""
    verdict_input = replace(NOTHING, **fields)
    decision = decide_verdict(verdict_input, Policy(max_late_share=1.0))
    return describe_verdict(decision.verdict, verdict_input, decision.policy).partition("; ")[2]


@pytest.mark.parametrize(("late", "accepted", "expected"), [(1, 1, 0.5), (0, 4, 0.0), (4, 0, 1.0)])
def test_late_share_is_defined_wherever_there_is_a_record(late: int, accepted: int, expected: float) -> None:
    assert compute_late_share(late, accepted) == expected


def test_policy_result_has_all_findings_and_limits() -> None:
    verdict_input = replace(NOTHING, explained=4, unexplained=3, accepted=1, dimension=2, late_share=0.25)
    policy = Policy(max_late_share=0.2, max_unexplained=1, max_dimension_rows=1)

    assert decide_verdict(verdict_input, policy).policy == PolicyResult(
        max_late_share=0.2,
        max_unexplained=1,
        max_dimension_rows=1,
        late_share=0.25,
        unexplained=3,
        accepted=1,
        within=False,
        reasons=(
            "2 unexplained rows in addition to 1 that rules accept, the policy allows 1.",
            "2 rows that another version of a dimension explains, the policy allows 1.",
            "Late share 25 %, the policy allows 20 %.",
        ),
    )


@pytest.mark.parametrize(
    ("share", "limit", "reason"),
    [
        (0.0010004, 1e-3, "Late share 0.10004 %, the policy allows 0.1 %."),
        (2e-8, 1e-8, "Late share 0.000002 %, the policy allows 0.000001 %."),
        (0.99996, 0.5, "Late share 99.996 %, the policy allows 50 %."),
    ],
)
def test_a_share_beyond_the_policy_never_reads_like_the_limit(share: float, limit: float, reason: str) -> None:
    verdict = decide_verdict(replace(NOTHING, explained=1, late_share=share), Policy(max_late_share=limit))

    assert verdict.policy.reasons == (reason,)


@pytest.mark.parametrize(("rows", "is_within"), [(2, True), (3, False)])
def test_unexplained_rows_up_to_the_limit_are_within_the_policy(rows: int, *, is_within: bool) -> None:
    decision = decide_verdict(replace(NOTHING, unexplained=rows), Policy(max_unexplained=2))

    assert (decision.verdict, decision.policy.within) == (Verdict.DIVERGED, is_within)
    assert decision.policy.reasons == (() if is_within else ("3 unexplained rows, the policy allows 2.",))


def test_rows_that_rules_accept_do_not_count_against_the_policy() -> None:
    decision = decide_verdict(replace(NOTHING, unexplained=3, accepted=3), Policy())

    assert (decision.verdict, decision.exit_code, decision.policy.within) == (Verdict.ACCEPTED, 0, True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"explained": 1, "late_share": 0.5}, (1, "LateRateHigh")),
        ({"unexplained": 1, "accepted": 1, "late_share": 0.5}, (1, "LateRateHigh")),
        ({"explained": 1}, (0, None)),
        ({"explained": 1, "dimension": 1}, (1, "DimensionChanged")),
        ({"unexplained": 1, "accepted": 1, "dimension": 1}, (1, "DimensionChanged")),
        ({"unexplained": 1}, (1, "DivergenceUnexplained")),
        ({"unexplained": 1, "dimension": 1}, (1, "DivergenceUnexplained")),
        ({}, (0, None)),
    ],
)
def test_the_page_for_people_on_call_follows_from_the_verdict_and_what_is_beyond_the_policy(
    fields: dict[str, Any], expected: tuple[int, str | None]
) -> None:
    decision = decide_verdict(replace(NOTHING, **fields), Policy(max_late_share=0.1))

    assert (decision.exit_code, decision.runbook) == expected


@pytest.mark.parametrize(
    ("breaches", "page", "reason"),
    [
        ((), "NotComparable", "the seal does not hold."),
        (BREACHES[:1], "NotComparable", "a."),
        (BREACHES[:2], "B", "a. (and 1 more reason)"),
        (BREACHES, "B", "a. (and 2 more reasons)"),
    ],
)
def test_a_broken_seal_has_its_first_reason_and_runbook(
    breaches: tuple[SealBreach, ...], page: str, reason: str
) -> None:
    seal = Seal(holds=False, breaches=breaches)
    decision = decide_not_comparable(seal, Policy(max_late_share=0.2, max_unexplained=7))

    assert (decision.verdict, decision.exit_code, decision.runbook) == (Verdict.NOT_COMPARABLE, 2, page)
    assert decision.policy == PolicyResult(
        max_late_share=0.2, max_unexplained=7, within=False, reasons=tuple(breach.message for breach in breaches)
    )
    assert describe_broken_seal(seal) == f"The two sides cannot be compared: {reason}"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"unexplained": 1}, "1 row has no explanation."),
        ({"unexplained": 2, "explained": 1}, "2 rows have no explanation, 1 has."),
        ({"unexplained": 3, "accepted": 2}, "1 row has no explanation, rules accept 2 more."),
        ({"unexplained": 1, "accepted": 1}, "1 row without an explanation is accepted by rule: within the policy."),
        (
            {"unexplained": 2, "accepted": 2, "explained": 1},
            "2 rows without an explanation are accepted by rule, the other 1 has one: within the policy.",
        ),
        (
            {"unexplained": 2, "accepted": 2, "explained": 3},
            "2 rows without an explanation are accepted by rule, the other 3 have one: within the policy.",
        ),
        (
            {"explained": 1, "causes": ("late",), "late": 1, "late_share": 0.25},
            "1 late event, 25 % of all events compared, explains every difference: within the policy.",
        ),
        (
            {"explained": 1, "causes": ("late", "future")},
            "late and future events explain every difference: within the policy.",
        ),
        (
            {"explained": 1, "causes": ("dimension",), "dimension": 1},
            "another version of a dimension explains every difference: beyond the policy.",
        ),
    ],
)
def test_the_sentence_words_one_row_and_several_what_rules_accept_and_each_cause(
    fields: dict[str, Any], expected: str
) -> None:
    assert sentence(**fields) == expected


def test_a_job_that_differs_is_named_with_its_cells_and_no_cause() -> None:
    def make_job(side: JobSide, different: int) -> JobTable:
        return JobTable(
            side=side, level="reproduced", batch=None, version=None, fingerprint="a", rows=144, different=different,
            values=288, different_values=3 * different,
        )  # fmt: skip

    jobs = (make_job("streaming", 0), make_job("batch", 4))
    verdict_input = replace(NOTHING, jobs=jobs, explained=1, causes=("late",))
    decision = decide_verdict(verdict_input, Policy(max_late_share=1.0))

    assert (decision.verdict, decision.exit_code) == (Verdict.DIVERGED, 1)
    assert decision.policy.reasons == ("The batch job does not do what the definition says.",)
    expected = "The batch job does not do what the definition says in 12 of 288 cells: 4 rows of its table differ."
    assert describe_verdict(decision.verdict, verdict_input, decision.policy) == expected
    doubted = replace(jobs[1], is_attributed=False, doubts=("Its position has no topic id.",))
    sentence = describe_verdict(decision.verdict, replace(verdict_input, jobs=(doubted,)), decision.policy)
    assert sentence == expected.replace("The batch job does not do", "The table of the batch job is not") + (
        " Its position has no topic id."
    )
    both = replace(verdict_input, jobs=(make_job("streaming", 1), make_job("batch", 4)))
    assert describe_verdict(decision.verdict, both, decision.policy) == (
        "The streaming job does not do what the definition says in 3 of 288 cells: 1 row of its table differs. "
        + expected
    )
