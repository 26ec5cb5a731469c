"""Verdict on two sides: a pure function of counts, causes, rules and policy, with its sentence and runbook.

An acceptance rule changes no finding. It exempts unexplained rows from the verdict while it is in force and matches no
more rows than it allows; otherwise it accepts nothing, so that a rule cannot grow with a defect.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from cutover.counts import choose_form
from cutover.definition.loading.key_text import format_values, parse_key
from cutover.definition.model.policy import AcceptanceRule, AcceptanceRules, Policy
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result import text
from cutover.reconcile.result.finding import (
    ACCEPTED_BEYOND_POLICY,
    DIMENSION,
    EXPLAINED_BEYOND_POLICY,
    AcceptedRows,
    Difference,
    Place,
    PolicyResult,
    Rows,
    RuleState,
    Seal,
    Verdict,
    Windows,
    place_of,
)
from cutover.reconcile.result.parts import JobTable
from cutover.reconcile.result.text import THIN, count_noun, share

if TYPE_CHECKING:
    from cutover.reconcile.result.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Rules of a pipeline, and the time that decides whether they have expired."""

    rules: AcceptanceRules = field(default_factory=AcceptanceRules)
    now: datetime | None = None  # None: there are no rules


NOTHING = Acceptance()


def apply_rules(
    acceptance: Acceptance, differences: Sequence[Difference]
) -> tuple[tuple[Difference, ...], tuple[AcceptedRows, ...]]:
    """Apply the rules: return the cells, each with the rule that accepts its row, and the outcome of each rule.

    A row is matched by the first rule, in the order of their names, whose range, keys, kinds and measures fit it. The
    state of the rule does not matter, so that no other rule conceals an expired one.

    Args:
        acceptance: Rules and time.
        differences: All cells of the listed rows of a comparison.
    """
    matches = _match(acceptance, differences)
    outcomes = {name: _judge_rule(acceptance, name, matches.get(name, {})) for name in acceptance.rules.rules}
    in_force = {
        place: name
        for name, places in matches.items()
        if outcomes[name].state is RuleState.IN_FORCE
        for place in places
    }
    cells = tuple(
        replace(cell, accepted_by=in_force.get(place_of(cell))) if UNEXPLAINED in cell.cause else cell
        for cell in differences
    )
    unreadable = [
        AcceptedRows(rule=name, state=RuleState.UNREADABLE, rows=0, why=problem)
        for name, problem in acceptance.rules.problems.items()
    ]
    return cells, tuple(sorted((*outcomes.values(), *unreadable), key=lambda outcome: outcome.rule))


def count_accepted_rows(outcomes: Sequence[AcceptedRows]) -> int:
    """Count the (window, key) rows that rules accept."""
    return sum(outcome.rows for outcome in outcomes if outcome.state is RuleState.IN_FORCE)


def describe_unfit(outcomes: Sequence[AcceptedRows]) -> tuple[str, ...]:
    """Describe each rule that accepts nothing because it has expired, matches too much, or cannot be read."""
    return tuple(f"Rule `{outcome.rule}` accepts nothing: {outcome.why}." for outcome in outcomes if outcome.why)


def _match(acceptance: Acceptance, differences: Sequence[Difference]) -> dict[str, dict[Place, list[Difference]]]:
    """Map each rule to the rows that it matches first, with their cells."""
    rows: dict[Place, list[Difference]] = defaultdict(list)
    for cell in differences:
        if UNEXPLAINED in cell.cause:
            rows[place_of(cell)].append(cell)
    matches: dict[str, dict[Place, list[Difference]]] = defaultdict(dict)
    for place, cells in rows.items():
        name = next((name for name, rule in acceptance.rules.rules.items() if fits(rule, cells)), None)
        if name is not None:
            matches[name][place] = cells
    return matches


def fits(rule: AcceptanceRule, cells: Sequence[Difference]) -> bool:
    """Return whether a rule matches a row, whatever the state of the rule.

    Args:
        rule: The rule.
        cells: All cells of one row.
    """
    first_cell = cells[0]
    start = text.parse_iso_time(first_cell.window_start)
    return (
        start is not None
        and rule.has_window(start)
        and (
            not rule.keys
            or format_values(first_cell.key.values()) in _read_keys(tuple(rule.keys), tuple(first_cell.key))
        )
        and (not rule.kinds or all(cell.kind in rule.kinds for cell in cells))
        and (not rule.measures or all(cell.measure in rule.measures for cell in cells))
    )


@lru_cache(maxsize=256)
def _read_keys(keys: tuple[str, ...], columns: tuple[str, ...]) -> frozenset[str]:
    """Normalize the keys of a rule to the form of listed keys."""
    return frozenset(format_values(parse_key(key, columns)) for key in keys)


def _judge_rule(acceptance: Acceptance, name: str, rows: Mapping[Place, Sequence[Difference]]) -> AcceptedRows:
    rule = acceptance.rules.rules[name]
    state, reason = RuleState.IN_FORCE, _describe_excess(rule, rows)
    if reason is not None:
        state = RuleState.EXCEEDED
    if acceptance.now is None or rule.is_expired(acceptance.now):
        state, reason = RuleState.EXPIRED, f"it has expired, {rule.expires:%Y-%m-%d %H:%M} UTC"
    return AcceptedRows(
        rule=name,
        state=state,
        rows=len(rows),
        why=reason,
        reason=rule.reason,
        owner=rule.owner,
        expires=rule.expires.isoformat().replace("+00:00", "Z"),
        digest=rule.digest,
    )


def _describe_excess(rule: AcceptanceRule, rows: Mapping[Place, Sequence[Difference]]) -> str | None:
    """Describe by how much the rows exceed what a rule allows; None if they do not."""
    if len(rows) > rule.max_rows:
        return f"{text.count_noun(len(rows), 'row')} fit it, and it allows {rule.max_rows:,}"
    for measure, limit in sorted(rule.max_volume.items()):
        amounts = [cell.difference for cells in rows.values() for cell in cells if cell.measure == measure]
        numbers = [abs(float(amount)) for amount in amounts if isinstance(amount, int | float)]
        if len(numbers) < len(amounts):
            return f"`{measure}` has differences that are not numbers, and it allows {limit:g}"
        if not sum(sorted(numbers)) <= limit:
            return f"`{measure}` differs by {sum(sorted(numbers)):g} in all, and it allows {limit:g}"
    return None


_BEYOND = {Verdict.EXPLAINED: EXPLAINED_BEYOND_POLICY, Verdict.ACCEPTED: ACCEPTED_BEYOND_POLICY}

RUNBOOKS: dict[str, str | None] = {
    Verdict.CONSISTENT: None,
    Verdict.EXPLAINED: None,
    EXPLAINED_BEYOND_POLICY: "LateRateHigh",
    Verdict.ACCEPTED: None,
    ACCEPTED_BEYOND_POLICY: "LateRateHigh",
    Verdict.DIVERGED: "DivergenceUnexplained",
    Verdict.NOT_COMPARABLE: "NotComparable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictStyle:
    """Presentation of a verdict."""

    word: str
    sign: str
    tone: str  # a class of the style sheet


_STYLES = {
    Verdict.CONSISTENT: VerdictStyle(word="Consistent", sign="\N{CHECK MARK}", tone="good"),
    Verdict.EXPLAINED: VerdictStyle(word="Explained, within policy", sign="\N{CHECK MARK}", tone="good"),
    EXPLAINED_BEYOND_POLICY: VerdictStyle(word="Explained, beyond policy", sign="!", tone="warn"),
    Verdict.ACCEPTED: VerdictStyle(word="Accepted, within policy", sign="\N{CHECK MARK}", tone="warn"),
    ACCEPTED_BEYOND_POLICY: VerdictStyle(word="Accepted, beyond policy", sign="!", tone="warn"),
    Verdict.DIVERGED: VerdictStyle(word="Diverged", sign="\N{NOT EQUAL TO}", tone="bad"),
    Verdict.NOT_COMPARABLE: VerdictStyle(word="Not comparable", sign="?", tone="none"),
}
_TABLES = {"Consistent": "Equal", "Diverged": "Different"}


def name_report_outcome(result: "Report") -> str:
    """Return the verdict's name, distinguishing one beyond the policy from one within it."""
    return name_outcome(result.finding.verdict, within=result.finding.policy.within)


def name_outcome(verdict: Verdict, *, within: bool) -> str:
    """Return a verdict's name, distinguishing one beyond the policy from one within it."""
    return verdict.value if within else _BEYOND.get(verdict, verdict.value)


def find_report_style(result: "Report") -> VerdictStyle:
    """Word, sign and tone of the verdict, worded otherwise for two tables."""
    verdict_style = _STYLES[name_report_outcome(result)]
    return (
        replace(verdict_style, word=_TABLES.get(verdict_style.word, verdict_style.word))
        if result.finding.kind == "tables"
        else verdict_style
    )


def find_style(verdict: Verdict, *, within: bool) -> VerdictStyle:
    """Word, sign and tone of the verdict of a pipeline."""
    return _STYLES[name_outcome(verdict, within=within)]


def find_runbook(result: "Report") -> str | None:
    """Return the runbook that the result names, else that of its verdict; tables of another origin have none."""
    return result.finding.runbook or (
        RUNBOOKS[name_report_outcome(result)] if result.finding.kind == "pipeline" else None
    )


_MOST_DIGITS = 16  # of a double
EXIT = {Verdict.CONSISTENT: 0, Verdict.NOT_COMPARABLE: 2, Verdict.DIVERGED: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictInput:
    """Counts and causes that decide a verdict."""

    windows: Windows
    rows: Rows
    explained: int  # (window, key) rows with a cause that reproduces their difference
    unexplained: int  # (window, key) rows without such a cause
    late_share: float
    accepted: int = 0  # unexplained rows that rules accept
    late: int = 0  # late events that cause differences of the compared windows
    dimension: int = 0  # (window, key) rows to whose difference another version of a dimension contributes
    causes: tuple[str, ...] = ()  # names that explain at least one row
    jobs: tuple[JobTable, ...] = ()  # tables of the team's own jobs

    @property
    def different_jobs(self) -> tuple[JobTable, ...]:
        """Return the jobs that do not do what the definition says."""
        return tuple(job for job in self.jobs if job.different)

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


def decide_verdict(counts: VerdictInput, policy: Policy) -> VerdictDecision:
    """Decide the verdict on two sides whose seal holds.

    CONSISTENT: no row differs. EXPLAINED: a cause reproduces every difference; exit 0 within the policy, 1 beyond it.
    ACCEPTED: some rows have no cause, and rules accept each of them; exit code as for EXPLAINED.
    DIVERGED: some row has no cause and no rule accepts it, exit 1; also if the policy's `max_unexplained` allows it; or
    the table of a team's job is not what the definition says.
    """
    reasons = tuple(_reasons(counts, policy))
    result = PolicyResult(
        max_late_share=policy.max_late_share,
        max_unexplained=policy.max_unexplained,
        max_dimension_rows=policy.max_dimension_rows,
        late_share=counts.late_share,
        unexplained=counts.unexplained,
        accepted=counts.accepted,
        within=not reasons,
        reasons=reasons,
    )
    verdict = _verdict(counts)
    exit_code = EXIT.get(verdict, 0 if result.within else 1)
    runbook = RUNBOOKS[name_outcome(verdict, within=not exit_code)]
    if verdict in {Verdict.EXPLAINED, Verdict.ACCEPTED} and counts.dimension > policy.max_dimension_rows:
        runbook = "DimensionChanged"
    return VerdictDecision(verdict=verdict, exit_code=exit_code, policy=result, runbook=runbook)


def decide_not_comparable(seal: Seal, policy: Policy) -> VerdictDecision:
    """Build the verdict on two sides whose seal does not hold."""
    reasons = tuple(breach.message for breach in seal.breaches)
    result = PolicyResult(
        max_late_share=policy.max_late_share, max_unexplained=policy.max_unexplained, within=False, reasons=reasons
    )
    runbook = next((breach.runbook for breach in seal.breaches if breach.runbook), "NotComparable")
    return VerdictDecision(verdict=Verdict.NOT_COMPARABLE, exit_code=2, policy=result, runbook=runbook)


def _verdict(counts: VerdictInput) -> Verdict:
    if counts.open or counts.different_jobs:
        return Verdict.DIVERGED
    if counts.accepted:
        return Verdict.ACCEPTED
    return Verdict.EXPLAINED if counts.explained else Verdict.CONSISTENT


def _reasons(counts: VerdictInput, policy: Policy) -> list[str]:
    reasons = [f"{_name_different(job)} what the definition says." for job in counts.different_jobs]
    if counts.open > policy.max_unexplained:
        accepted_text = f" in addition to {counts.accepted:,} that rules accept" if counts.accepted else ""
        reasons.append(
            f"{count_noun(counts.open, 'unexplained row')}{accepted_text}, the policy allows "
            f"{policy.max_unexplained:,}."
        )
    if counts.dimension > policy.max_dimension_rows:
        reasons.append(
            f"{count_noun(counts.dimension, 'row')} that another version of a dimension explains, the policy allows "
            f"{policy.max_dimension_rows:,}."
        )
    if counts.late_share > policy.max_late_share:
        late, limit = _format_apart(counts.late_share, policy.max_late_share)
        reasons.append(f"Late share {late}, the policy allows {limit}.")
    return reasons


def describe_verdict(verdict: Verdict, counts: VerdictInput, policy: PolicyResult) -> str:
    """Describe a verdict on comparable sides with its numbers."""
    rules = [describe_rules(job) for job in counts.jobs if job.by_rules]
    return " ".join([_describe_sides(verdict, counts, policy), *rules])


def _describe_sides(verdict: Verdict, counts: VerdictInput, policy: PolicyResult) -> str:
    compared = f"{count_noun(counts.windows.compared, 'closed window')} ({count_noun(counts.rows.compared, 'row')})"
    if counts.different_jobs:
        return " ".join(map(describe_different_job, counts.different_jobs))
    if verdict is Verdict.CONSISTENT:
        agreement = f"Streaming and batch agree in {choose_form(counts.windows.compared, 'the', 'all')} {compared}."
        return " ".join([agreement, *_describe_divided(counts)])
    different = _differences(counts)
    if verdict in {Verdict.EXPLAINED, Verdict.ACCEPTED}:
        cause_text = _explain_all(counts) if verdict is Verdict.EXPLAINED else _format_accepted(counts)
        policy_text = "within the policy" if policy.within else "beyond the policy"
        explained = f"Streaming and batch differ in {different} of {compared}; {cause_text}: {policy_text}."
        return " ".join([explained, *_describe_divided(counts)])
    return f"Streaming and batch differ in {different} of {compared}; {_format_unexplained(counts)}."


def describe_different_job(job: JobTable) -> str:
    """Describe in how many cells a job's table is not what the definition says."""
    return (
        f"{_name_different(job)} what the definition says in {job.different_values:,} of"
        f" {count_noun(job.values, 'cell')}: {count_noun(job.different, 'row')} of its table"
        f" {choose_form(job.different, 'differs', 'differ')}.{''.join(f' {doubt}' for doubt in job.doubts)}"
    )


def describe_rules(job: JobTable) -> str:
    """Describe how many rows the rules of a job make different from the definition's."""
    rows = f"{count_noun(job.by_rules, 'row')} of the {job.side} job {choose_form(job.by_rules, 'differs', 'differ')}"
    return f"By its own rules ({job.rules}), {rows} from the definition."


def _name_different(job: JobTable) -> str:
    """Name the job, or its table alone if someone else may have made it differ."""
    return f"The {job.side} job does not do" if job.is_attributed else f"The table of the {job.side} job is not"


def _describe_divided(counts: VerdictInput) -> Iterator[str]:
    for job in counts.jobs:
        if job.divided:
            yield f"The table of the {job.side} job has {count_noun(job.divided, 'session')} in several rows."


def describe_broken_seal(seal: Seal) -> str:
    """Describe why two sides could not be compared."""
    message = seal.breaches[0].message if seal.breaches else "the seal does not hold."
    more = f" (and {count_noun(len(seal.breaches) - 1, 'more reason')})" if len(seal.breaches) > 1 else ""
    return f"The two sides cannot be compared: {message}{more}"


def _explain_all(counts: VerdictInput) -> str:
    """Describe the causes as one clause, with the share of late events if they are the only cause."""
    if counts.causes == ("late",):
        late = count_noun(counts.late, "late event")
        verb = "explains" if counts.late == 1 else "explain"
        return f"{late}, {_percent(counts.late_share)} of all events compared, {verb} every difference"
    classes = [name for name in counts.causes if name != DIMENSION]
    parts = [f"{' and '.join(classes)} events"] if classes else []
    parts += ["another version of a dimension"] if DIMENSION in counts.causes else []
    verb = "explain" if classes else "explains"
    return f"{' and '.join(parts) or UNEXPLAINED} {verb} every difference"


def _format_unexplained(counts: VerdictInput) -> str:
    open_text = f"{count_noun(counts.open, 'row')} {'has' if counts.open == 1 else 'have'} no explanation"
    accepted_text = f", rules accept {counts.accepted:,} more" if counts.accepted else ""
    return f"{open_text}{accepted_text}" + (
        f", {counts.explained:,} {'has' if counts.explained == 1 else 'have'}" if counts.explained else ""
    )


def _format_accepted(counts: VerdictInput) -> str:
    accepted_text = (
        f"{count_noun(counts.accepted, 'row')} without an explanation {'is' if counts.accepted == 1 else 'are'}"
    )
    explained_text = f", the other {counts.explained:,} {'has' if counts.explained == 1 else 'have'} one"
    return f"{accepted_text} accepted by rule{explained_text if counts.explained else ''}"


def _differences(counts: VerdictInput) -> str:
    rows = counts.explained + counts.unexplained
    return f"{count_noun(counts.windows.different, 'window')} ({count_noun(rows, 'row')})"


def _format_apart(late_share: float, limit: float) -> tuple[str, str]:
    """Format two different shares with enough digits to distinguish them."""
    texts = _percent(late_share), _percent(limit)
    for digits in range(3, _MOST_DIGITS):
        if texts[0] != texts[1]:
            break
        texts = _round(late_share, digits), _round(limit, digits)
    return texts


def _percent(late_share: float) -> str:
    """Format a share with the digits that reports show; sentences are plain text, so its space is one, too."""
    return share(late_share).replace(THIN, " ")


def _round(late_share: float, digits: int) -> str:
    """Format a share with a number of significant digits."""
    return f"{Decimal(f'{late_share * 100:.{digits}g}'):f} %"
