"""Conditions of a move, one function each: number, threshold, and what would satisfy them, formatted for people."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from cutover.definition.model.policy import Policy
from cutover.reconcile.gate.gate_values import (
    AT_LEAST,
    EXPIRES_AFTER,
    Condition,
    ContractCheck,
    EvidenceRun,
    GateEvidence,
    PresentState,
    Replayability,
    find_latest_run,
    list_blocks,
)
from cutover.reconcile.result.finding import ACCEPTED_BEYOND_POLICY, DIMENSION, EXPLAINED_BEYOND_POLICY
from cutover.reconcile.result.measurements import SelfTest
from cutover.reconcile.result.text import count_noun, duration, share
from cutover.reconcile.verdict import statistics
from cutover.recorded_times import find_earliest_times
from cutover.records.classes import Class
from cutover.timestamps import from_micros, parse_duration

TESTED_WITHIN = timedelta(days=30)
"""Maximum age of a self-test."""

REPLAY_MARGIN = 2.0
"""Replays that retention must cover, in addition to detection and approval."""

SECONDS = "seconds"
_BLOCKS, _DETECTED = "of the blocks", "detected"
SHARES = frozenset({_BLOCKS, _DETECTED})
"""Units of numbers between 0 and 1."""

_OUTCOMES_BEYOND_POLICY = (EXPLAINED_BEYOND_POLICY, ACCEPTED_BEYOND_POLICY)
_NEWER_CUT = (
    "`cutover batch P` and `cutover reconcile P`, after the stream has read new records: a drained log has no newer cut"
)
_LATE_BEYOND_POLICY = (
    "batch and reconcile alone do not pass: lengthen the allowed lateness and read the log again under it (`cutover"
    " advise P` says to what; of a source with `record_id`, `cutover lateness P` how late records are), or change what"
    " the policy allows, `policy.max_late_share`"
)
_DIMENSION_BEYOND_POLICY = (
    "batch and reconcile alone do not pass: docs/runbooks/DimensionChanged.md, or change what the policy allows,"
    " `policy.max_dimension_rows`"
)
_NO_CAUSE = (
    "batch and reconcile alone do not pass: find the cause of what `cutover differences P` lists, by"
    " docs/runbooks/DivergenceUnexplained.md"
)
_NO_COMPARISON = "batch and reconcile alone may not pass: docs/runbooks/NotComparable.md"
_MAX_LISTED = 3  # violations listed in a message


def evaluate_runs(eligible_runs: tuple[EvidenceRun, ...], runs: tuple[EvidenceRun, ...], policy: Policy) -> Condition:
    """Require enough consecutive eligible runs."""
    required = count_noun(policy.runs, "consecutive sealed run")
    text = f"{len(eligible_runs)} of {required} within policy, each with a newer cut"
    repeated, missing = sum(run.is_within_policy for run in runs) - len(eligible_runs), policy.runs - len(eligible_runs)
    if repeated > 0 and missing > 0:
        reasons = f"same or older cut, a range, over {EXPIRES_AFTER.days} days, dated in the future, before a break"
        text += f" ({repeated} more {'does' if repeated == 1 else 'do'} not count: {reasons})"
    return Condition(
        name="runs",
        is_met=missing <= 0,
        detail=text,
        number=len(eligible_runs),
        threshold=policy.runs,
        sense=AT_LEAST,
        unit="runs",
        to_pass="" if missing <= 0 else f"{missing} more in a row: {describe_next_run(find_latest_run(runs))}",
    )


def describe_next_run(latest: EvidenceRun | None) -> str:
    """Describe what would make the next run agree; after a run beyond policy, another run is rarely enough."""
    if latest is None or latest.is_within_policy:
        return _NEWER_CUT
    if latest.outcome in _OUTCOMES_BEYOND_POLICY:
        causes = {name for name, rows in latest.rows_by_cause if rows}
        needs = {_LATE_BEYOND_POLICY: Class.LATE in causes, _DIMENSION_BEYOND_POLICY: DIMENSION in causes}
        return "; ".join(need for need, is_needed in needs.items() if is_needed) or _LATE_BEYOND_POLICY
    return {"DIVERGED": _NO_CAUSE, "NOT_COMPARABLE": _NO_COMPARISON}.get(latest.outcome, _NEWER_CUT)


def _describe_cut(run: EvidenceRun) -> str:
    return "at no epoch" if run.epoch < 0 else f"at epoch {run.epoch}"


def evaluate_latest_run(runs: tuple[EvidenceRun, ...]) -> Condition:
    """Require that the latest run is within policy."""
    latest = find_latest_run(runs)
    is_met = latest is not None and latest.is_within_policy
    return Condition(
        name="newest run",
        is_met=is_met,
        detail="no reconciliation under this definition yet"
        if latest is None
        else f"{latest.outcome} {_describe_cut(latest)}, {latest.at:%Y-%m-%d %H:%M} UTC",
        number=None if latest is None else int(not latest.is_within_policy),
        threshold=0,
        unit="runs beyond policy",
        to_pass="" if is_met else f"a whole run within policy: {describe_next_run(latest)}",
    )


def evaluate_freshness(
    latest: datetime | None, runs: tuple[EvidenceRun, ...], policy: Policy, now: datetime
) -> Condition:
    """Require that the latest eligible run is recent.

    Args:
        latest: Earliest possible time of that run; None: no run is eligible.
        runs: All runs; the latest decides what makes the next one eligible.
        policy: Current policy.
        now: By the clock of this host.
    """
    allowed = _parse_length(policy.fresh_within, of="fresh_within")
    age = None if latest is None else now - latest
    is_met = age is not None and age <= allowed
    text = "no run counts" if age is None else f"the newest run that counts is {duration(age.total_seconds())} old"
    return Condition(
        name="freshness",
        is_met=is_met,
        detail=f"{text}; the policy allows {duration(allowed.total_seconds())}",
        number=None if age is None else age.total_seconds(),
        threshold=allowed.total_seconds(),
        unit=SECONDS,
        to_pass="" if is_met else f"a run now: {describe_next_run(find_latest_run(runs))}",
    )


def evaluate_settings(
    eligible_runs: tuple[EvidenceRun, ...], runs: tuple[EvidenceRun, ...], settings_since: int, policy: Policy
) -> Condition:
    """Require as many runs whose epochs used the settings that the stream uses now."""
    current = [run for run in eligible_runs if run.epoch >= settings_since]
    missing = min(policy.runs, len(eligible_runs)) - len(current)
    text = f"{len(current)} of {count_noun(len(eligible_runs), 'eligible run')} under the current settings"
    remedy = describe_next_run(find_latest_run(runs))
    return Condition(
        name="unchanged",
        is_met=missing <= 0,
        detail=text if settings_since <= 0 else f"{text}, which changed with epoch {settings_since}",
        number=len(current),
        threshold=min(policy.runs, len(eligible_runs)),
        sense=AT_LEAST,
        unit="runs",
        to_pass="" if missing <= 0 else f"{count_noun(missing, 'more run')} under these settings: {remedy}",
    )


def evaluate_divergence(runs: tuple[EvidenceRun, ...], policy: Policy) -> Condition:
    """Require an upper bound of the divergence rate below the policy's, at 95 % after any number of runs."""
    blocks = list_blocks(runs)
    compared, diverged = len(blocks), sum(blocks)
    upper_bound, limit = statistics.upper_bound(compared, diverged), policy.max_divergence
    is_met = limit is None or statistics.is_refuted(compared, diverged, limit)
    blocks_text = f"{diverged:,} of {count_noun(compared, 'block')} of windows diverged"
    text = f"{blocks_text}, so at most {share(upper_bound)} do "
    text += f"({share(statistics.CONFIDENCE)}, however often it is evaluated); the policy "
    text += "sets no limit" if limit is None else f"allows {share(limit)}"
    need = ""
    if limit is not None and not is_met:
        more = statistics.count_missing_blocks(compared, diverged, limit)
        need = f"{'over a million' if more is None else f'{more:,}'} more without a divergence would show"
        text += f", which {need}"
    return Condition(
        name="divergence rate",
        is_met=is_met,
        detail=text,
        number=upper_bound,
        threshold=limit,
        unit=_BLOCKS,
        to_pass=need and f"{need} it: {describe_next_run(find_latest_run(runs))}",
    )


def evaluate_losses(evidence: GateEvidence) -> Condition:
    """Require that the latest run covers no window that an accepted loss affects."""
    latest = find_latest_run(evidence.runs)
    affecting = [loss for loss in evidence.losses if latest is None or loss.touches(latest)]
    text = f"{len(evidence.losses)} accepted, all behind the newest run" if evidence.losses else "none accepted"
    need = ""
    if affecting:
        worst = max(affecting, key=lambda loss: loss.closed_at)
        epoch = max(loss.epoch for loss in affecting)
        need = f"a cut of epoch {epoch} or later" if epoch else "a cut"
        need += f" on whose watermark is {from_micros(worst.closed_at):%Y-%m-%d %H:%M} UTC or later"
        text = f"{worst.text}; runs count from {need}"
    return _require_none("losses", len(affecting), "losses", text, need and f"runs from {need}")


def evaluate_tables(evidence: GateEvidence) -> Condition:
    """Require that no other writer changed a compared row and that the high-water note of the epoch log is readable."""
    text = " ".join(evidence.foreign) or "no other writer changed a row"
    need = "undo them or recompute the windows: docs/runbooks/ForeignWrite.md; if a file cannot be read: "
    need += "docs/runbooks/TableUnreadable.md"
    return _require_none("tables", len(evidence.foreign), "foreign writes", text, need)


def evaluate_acceptance_rules(
    evidence: GateEvidence, eligible_runs: tuple[EvidenceRun, ...], now: datetime
) -> Condition:
    """Require that every acceptance rule is in force, is not exceeded, and is the rule that eligible runs used."""
    rules, latest = evidence.rules, find_latest_run(evidence.runs)
    problems = [*rules.problems.values()]
    problems += [
        f"rule `{name}` has expired, {rule.expires:%Y-%m-%d %H:%M} UTC: renew or remove it"
        for name, rule in rules.rules.items()
        if rule.is_expired(now)
    ]
    problems += [f"rule `{name}` is exceeded: {reason}" for name, reason in (latest.exceeded if latest else ())]
    used = sorted({rule for run in eligible_runs for rule in run.accepted_by})
    current = {(name, rule.digest) for name, rule in rules.rules.items()}
    problems += [
        f"rule `{name}`, which runs that count need, was changed or removed"
        for name, digest in used
        if (name, digest) not in current
    ]
    summary = f"{len(rules.rules)} in force" if rules.rules else "none"
    # Without valid rules the latest run is DIVERGED, and correcting them is its remedy.
    remedy = _NEWER_CUT if latest is None or latest.outcome == "DIVERGED" else describe_next_run(latest)
    need = f"correct the rules, then compare again: {remedy}"
    return _require_none("accepted", len(problems), "rules", "; ".join(problems[:_MAX_LISTED]) or summary, need)


def evaluate_contract(check: ContractCheck | None, expectations: int) -> Condition:
    """Require that the latest batch result was checked against the contract and no critical expectation failed."""
    dropped = ""
    if check is not None and check.dropped:
        dropped = f"; {check.dropped:,} that batch run {check.run_id} evaluated are no longer in the contract"
    if not expectations:
        return _require_none("contract", 0, "expectations", f"the definition has none{dropped}", "")
    if check is None:
        text = f"no batch run evaluated the {count_noun(expectations, 'expectation')}"
        return _require_none("contract", expectations, "expectations", text, "`cutover batch P`")
    unmet = [*check.failed, *["not evaluated"] * max(0, expectations - check.evaluated)]
    summary = f"{expectations - len(unmet)} of {expectations} hold in the newest batch run {check.run_id}{dropped}"
    text = f"{summary}: {'; '.join(unmet[:_MAX_LISTED])}" if unmet else summary
    return _require_none("contract", len(unmet), "expectations", text, "a batch run that holds them: `cutover batch P`")


def evaluate_self_test(latest: SelfTest | None, earlier: tuple[datetime, ...], now: datetime) -> Condition:
    """Require a recent self-test of this pipeline that passed.

    Args:
        latest: The latest self-test.
        earlier: Times of the ones before it; if the latest is dated in the future, they limit its age.
        now: By the clock of this host.
    """
    need = "`cutover selftest P`"
    if latest is None:
        text = "none under this definition: `cutover selftest P` makes one"
        return Condition(
            name="self-test", is_met=False, detail=text, threshold=1, sense=AT_LEAST, unit=_DETECTED, to_pass=need
        )
    alarms, causes, detected = latest.false_alarm_rate, latest.right_cause_rate, latest.detection_rate
    text = f"{detected.hits:,} of {count_noun(detected.of, 'planted row')} detected, "
    text += f"{count_noun(alarms.hits, 'false alarm')} in {count_noun(alarms.of, 'window')}, "
    text += f"{causes.hits:,} of {count_noun(causes.of, 'cause')} correct"
    at = find_earliest_times([*earlier, datetime.fromisoformat(latest.at)], now)[-1]
    recent = at is not None and now - at <= TESTED_WITHIN
    if not recent:
        text += f"; over {TESTED_WITHIN.days} days ago" if at else f"; dated {latest.at}, in the future"
    is_met = latest.passed and recent
    return Condition(
        name="self-test",
        is_met=is_met,
        detail=text,
        number=detected.hits / detected.of if detected.of else None,
        threshold=1,
        sense=AT_LEAST,
        unit=_DETECTED,
        to_pass="" if is_met else f"one that passes, within {TESTED_WITHIN.days} days: {need}",
    )


def evaluate_replay(replay: Replayability | None, policy: Policy, now: datetime) -> tuple[Condition, ...]:
    """Require retention, by time and by size, that covers detection, approval and replays.

    How long a limit by size retains records is unknown, so the longest period retained so far is used.
    """
    if replay is None:
        text = "the log did not respond, so its retention is unknown"
        return (_make_unknown_replay(text, "a reachable broker: `cutover doctor`"),)
    if replay.replay_time is None:
        text = "no epoch was committed, so the time of a replay is not measured"
        return (_make_unknown_replay(text, "an epoch with records: `cutover stream P --drain`"),)
    detection = _parse_length(policy.detected_within, of="detected_within")
    approval = _parse_length(policy.approved_within, of="approved_within")
    required = detection + approval + replay.replay_time * REPLAY_MARGIN
    parts = f"{_format_time(detection)} for detection, {_format_time(approval)} for approval, "
    replays = f"two replays of {_format_time(replay.replay_time)} at the measured speed"
    requirement = f"{_format_time(required)} are required: {parts}{replays}"
    period = "forever" if replay.retention is None else f"for {_format_time(replay.retention)}"
    state = "is compacted" if replay.retention == timedelta(0) else f"is kept {period}"
    remedy = f"`retention.ms` of at least {int(required.total_seconds() * 1000)}, and no compaction"
    by_size = None if not replay.is_bounded else _measure_age(replay.retained_since, now)
    size_text = "is not limited by size"
    if by_size is not None:
        size_text = f"has held its records for {_format_time(by_size)} within its size limit"
    larger = "a larger `retention.bytes`, or more time in which the log shows how long it retains records"
    return (
        _evaluate_retention("replay", replay.retention, required, f"the log {state}; {requirement}", remedy),
        _evaluate_retention("replay by size", by_size, required, f"the log {size_text}; {requirement}", larger),
    )


def evaluate_audit(refusal: str | None, policy: Policy) -> Condition:
    """Require that daily samples in KAPPA can find what the policy names, or that it explicitly has no audit."""
    requirement = statistics.describe_requirement(policy.audit)
    if policy.audit is None:
        return Condition(name="audit", is_met=True, detail=f"the policy has `audit=None`, {requirement}")
    reason, _, hint = (refusal or "").partition("\nHint: ")
    text = reason or f"daily samples can detect what the policy requires: {requirement}"
    need = hint.rstrip(".") or "a policy that a sample can meet: `policy.audit` in the definition"
    return _require_none("audit", int(refusal is not None), "refusals", text, need)


def evaluate_present(present: PresentState) -> tuple[Condition, ...]:
    """Require, at the moment of the move, agreement at the latest cut, no violated check and no page."""
    run, agrees = present.run, present.run.is_within_policy and present.run.covers_all_windows
    unmet = [*present.violations, *([present.check_error] if present.check_error else [])]
    violations, pages = "; ".join(unmet[:_MAX_LISTED]) or "no check is violated", "; ".join(present.pages)
    verified, cleared = "`cutover verify P` without a violation", "the remedies of the alerts: `cutover watch P --once`"
    return (
        _require_none(
            "compared now",
            int(not agrees),
            "runs beyond policy",
            f"{run.outcome}: {present.reason}",
            describe_next_run(run),
        ),
        _require_none("verified now", len(unmet), "violations", violations, verified),
        _require_none("alerts now", len(present.pages), "pages", pages or "no alert pages someone", cleared),
    )


def _require_none(name: str, number: int, unit: str, detail: str, to_pass: str) -> Condition:
    """Build a condition that is met by zero."""
    need = to_pass if number else ""
    return Condition(name=name, is_met=not number, detail=detail, number=number, threshold=0, unit=unit, to_pass=need)


def _evaluate_retention(name: str, time: timedelta | None, required: timedelta, detail: str, to_pass: str) -> Condition:
    is_met = time is None or time >= required
    return Condition(
        name=name,
        is_met=is_met,
        detail=detail,
        number=None if time is None else time.total_seconds(),
        threshold=required.total_seconds(),
        sense=AT_LEAST,
        unit=SECONDS,
        to_pass="" if is_met else to_pass,
    )


def _make_unknown_replay(detail: str, to_pass: str) -> Condition:
    return Condition(name="replay", is_met=False, detail=detail, sense=AT_LEAST, unit=SECONDS, to_pass=to_pass)


def _measure_age(start: datetime | None, now: datetime) -> timedelta:
    return timedelta(0) if start is None else max(timedelta(0), now - start)


def _format_time(time: timedelta) -> str:
    return duration(time.total_seconds())


def _parse_length(text: str, *, of: str) -> timedelta:
    return timedelta(microseconds=parse_duration(text, of=f"policy.{of}"))


_SINGULAR = {
    "runs": "run",
    "losses": "loss",
    "writes": "write",
    "rules": "rule",
    "expectations": "expectation",
    "refusals": "refusal",
    "violations": "violation",
    "pages": "page",
    "changes": "change",
}
"""Words of units, as they follow the number one."""


def describe_number(condition: Mapping[str, Any]) -> str:
    """Format a condition's number with its unit; a dash if it is unknown or infinite.

    Args:
        condition: As the JSON of `gate show` has it.
    """
    return _format(condition["number"], condition["unit"])


def describe_threshold(condition: Mapping[str, Any]) -> str:
    """Format a condition's threshold, such as `at least 24 runs`; a dash if the policy sets none."""
    threshold = _format(condition["threshold"], condition["unit"])
    return threshold if condition["threshold"] is None else f"{condition['sense']} {threshold}"


def _format(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == SECONDS:
        return duration(value)
    if unit in SHARES:
        return f"{share(value)} {unit}".strip()
    counted = " ".join(_SINGULAR.get(word, word) for word in unit.split()) if value == 1 else unit
    return f"{value:,.10g} {counted}".strip()
