"""Verdict on two sides: a pure function of counts, causes and policy, with the sentence that states it."""

from dataclasses import dataclass
from decimal import Decimal

from cutover.definition.model.pipeline import Policy
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.comparison.sides import DIMENSION
from cutover.reconcile.result.finding import PolicyResult, Rows, Verdict, Windows
from cutover.reconcile.result.seal import Seal
from cutover.reconcile.result.text import count_noun

_MOST_DIGITS = 16  # of a double
EXIT = {Verdict.CONSISTENT: 0, Verdict.NOT_COMPARABLE: 2, Verdict.DIVERGED: 1}
RUNBOOKS = {
    Verdict.DIVERGED: "DivergenceUnexplained",
    Verdict.ACCEPTED: "LateRateHigh",
    Verdict.EXPLAINED: "LateRateHigh",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictInput:
    """Counts and causes that a verdict is decided by."""

    windows: Windows
    rows: Rows
    explained: int  # (window, key) rows whose difference a cause reproduces
    unexplained: int  # (window, key) rows without one
    late_share: float
    accepted: int = 0  # of those without a cause: rows that rules accept
    late: int = 0  # late events behind differences of the compared windows
    dimension: int = 0  # (window, key) rows that another version of a dimension takes part in
    causes: tuple[str, ...] = ()  # names that explain at least one row

    @property
    def open(self) -> int:
        """Count the unexplained rows that no rule accepts."""
        return self.unexplained - self.accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictDecision:
    """Verdict with its exit code, its policy and its runbook."""

    verdict: Verdict
    exit_code: int
    policy: PolicyResult
    runbook: str | None


def compute_late_share(late: int, accepted: int) -> float:
    """Compute late / (accepted + late) in (record, window) pairs; 0 without any."""
    return late / (accepted + late) if accepted + late else 0.0


def decide_verdict(verdict_input: VerdictInput, policy: Policy) -> VerdictDecision:
    """Decide the verdict on two sides whose seal holds.

    CONSISTENT: no row differs. EXPLAINED: a cause reproduces every difference; exit 0 within the policy, 1 beyond it.
    ACCEPTED: some rows have no cause, and rules accept each of them; exit code as for EXPLAINED.
    DIVERGED: some row has no cause and no rule accepts it, exit 1; also if the policy's `max_unexplained` allows it.
    """
    reasons = tuple(_reasons(verdict_input, policy))
    result = PolicyResult(
        max_late_share=policy.max_late_share,
        max_unexplained=policy.max_unexplained,
        max_dimension_rows=policy.max_dimension_rows,
        late_share=verdict_input.late_share,
        unexplained=verdict_input.unexplained,
        accepted=verdict_input.accepted,
        within=not reasons,
        reasons=reasons,
    )
    verdict = _verdict(verdict_input)
    exit_code = EXIT.get(verdict, 0 if result.within else 1)
    page = RUNBOOKS.get(verdict) if exit_code else None
    if verdict in {Verdict.EXPLAINED, Verdict.ACCEPTED} and verdict_input.dimension > policy.max_dimension_rows:
        page = "DimensionChanged"
    return VerdictDecision(verdict=verdict, exit_code=exit_code, policy=result, runbook=page)


def decide_not_comparable(seal: Seal, policy: Policy) -> VerdictDecision:
    """Build the verdict on two sides whose seal does not hold."""
    reasons = tuple(breach.message for breach in seal.breaches)
    result = PolicyResult(
        max_late_share=policy.max_late_share, max_unexplained=policy.max_unexplained, within=False, reasons=reasons
    )
    page = next((breach.runbook for breach in seal.breaches if breach.runbook), "NotComparable")
    return VerdictDecision(verdict=Verdict.NOT_COMPARABLE, exit_code=2, policy=result, runbook=page)


def _verdict(verdict_input: VerdictInput) -> Verdict:
    if verdict_input.open:
        return Verdict.DIVERGED
    if verdict_input.accepted:
        return Verdict.ACCEPTED
    return Verdict.EXPLAINED if verdict_input.explained else Verdict.CONSISTENT


def _reasons(verdict_input: VerdictInput, policy: Policy) -> list[str]:
    reasons = []
    if verdict_input.open > policy.max_unexplained:
        besides = f" besides {verdict_input.accepted:,} that rules accept" if verdict_input.accepted else ""
        reasons.append(
            f"{verdict_input.open:,} unexplained rows{besides}, the policy allows {policy.max_unexplained:,}."
        )
    if verdict_input.dimension > policy.max_dimension_rows:
        reasons.append(
            f"{verdict_input.dimension:,} rows that another version of a dimension explains, the policy allows "
            f"{policy.max_dimension_rows:,}."
        )
    if verdict_input.late_share > policy.max_late_share:
        late, limit = _format_apart(verdict_input.late_share, policy.max_late_share)
        reasons.append(f"Late share {late}, the policy allows {limit}.")
    return reasons


def describe_verdict(verdict: Verdict, judged: VerdictInput, policy: PolicyResult) -> str:
    """Describe a verdict on comparable sides with its numbers."""
    compared = f"{count_noun(judged.windows.compared, 'closed window')} ({count_noun(judged.rows.compared, 'row')})"
    if verdict is Verdict.CONSISTENT:
        return f"Streaming and batch agree in all {compared}."
    differ = _differences(judged)
    if verdict in {Verdict.EXPLAINED, Verdict.ACCEPTED}:
        why = _explain_all(judged) if verdict is Verdict.EXPLAINED else _format_accepted(judged)
        bound = "within the policy" if policy.within else "beyond the policy"
        return f"Streaming and batch differ in {differ} of {compared}; {why}: {bound}."
    return f"Streaming and batch differ in {differ} of {compared}; {_format_unexplained(judged)}."


def describe_broken_seal(seal: Seal) -> str:
    """Describe why two sides could not be compared."""
    first = seal.breaches[0].message if seal.breaches else "the seal does not hold."
    more = f" (and {len(seal.breaches) - 1} more reasons)" if len(seal.breaches) > 1 else ""
    return f"The two sides cannot be compared: {first}{more}"


def _explain_all(verdict_input: VerdictInput) -> str:
    """Describe the causes as one clause, with the share of late events if they are the only cause."""
    if verdict_input.causes == ("late",):
        late = count_noun(verdict_input.late, "late event")
        verb = "explains" if verdict_input.late == 1 else "explain"
        return f"{late}, {_percent(verdict_input.late_share)} of all in these windows, {verb} every difference"
    classes = [name for name in verdict_input.causes if name != DIMENSION]
    parts = [f"{' and '.join(classes)} events"] if classes else []
    parts += ["another version of a dimension"] if DIMENSION in verdict_input.causes else []
    verb = "explain" if classes else "explains"
    return f"{' and '.join(parts) or UNEXPLAINED} {verb} every difference"


def _format_unexplained(verdict_input: VerdictInput) -> str:
    rest = f"{count_noun(verdict_input.open, 'row')} {'has' if verdict_input.open == 1 else 'have'} no explanation"
    more = f", rules accept {verdict_input.accepted:,} more" if verdict_input.accepted else ""
    return f"{rest}{more}" + (
        f", {verdict_input.explained:,} {'has' if verdict_input.explained == 1 else 'have'}"
        if verdict_input.explained
        else ""
    )


def _format_accepted(judged: VerdictInput) -> str:
    have = f"{count_noun(judged.accepted, 'row')} without an explanation {'is' if judged.accepted == 1 else 'are'}"
    rest = f", the other {judged.explained:,} {'has' if judged.explained == 1 else 'have'} one"
    return f"{have} accepted by rule{rest if judged.explained else ''}"


def _differences(verdict_input: VerdictInput) -> str:
    rows = verdict_input.explained + verdict_input.unexplained
    return f"{count_noun(verdict_input.windows.different, 'window')} ({count_noun(rows, 'row')})"


def _percent(share: float, digits: int = 3) -> str:
    """Return a share with some digits that matter; only all is `100 %`."""
    text = _round(share, digits)
    while text == "100" and share < 1 and digits < _MOST_DIGITS:
        digits += 1
        text = _round(share, digits)
    return f"{text} %"


def _round(share: float, digits: int) -> str:
    return f"{Decimal(f'{share * 100:.{digits}g}'):f}"


def _format_apart(share: float, limit: float) -> tuple[str, str]:
    """Return two shares that differ with as many digits as tell them apart."""
    for digits in range(3, _MOST_DIGITS):
        texts = _percent(share, digits), _percent(limit, digits)
        if texts[0] != texts[1]:
            break
    return texts
