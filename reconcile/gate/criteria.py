"""The conditions of a move, one function each: its number, its threshold, and what would make it pass."""

from datetime import datetime, timedelta

from cutover.definition.model.pipeline import Policy
from cutover.durations import parse_duration
from cutover.reconcile.gate import divergence
from cutover.reconcile.gate.evidence_rows import EXPIRES_AFTER, list_blocks, newest
from cutover.reconcile.gate.gate_values import (
    AT_LEAST,
    Condition,
    ContractCheck,
    EvidenceRun,
    GateEvidence,
    PresentState,
    Replayability,
)
from cutover.reconcile.report import verdicts
from cutover.reconcile.result.text import duration
from cutover.reconcile.selftest.outcome import SelfTest
from cutover.reconcile.verdict.audits import power
from cutover.recorded_times import find_earliest_times
from cutover.timestamps import from_micros

TESTED_WITHIN = timedelta(days=30)
"""A self-test older than this says nothing of the reconciler as it is today."""

REPLAY_MARGIN = 2.0
"""The log must be kept this many times as long as a replay of it takes, beside detection and approval."""

SECONDS = "seconds"
_BLOCKS, _FOUND = "of the blocks", "found"
SHARES = frozenset({_BLOCKS, _FOUND})
"""Units of numbers between 0 and 1."""

_OUTCOMES_BEYOND_POLICY = (verdicts.EXPLAINED_BEYOND_POLICY, verdicts.ACCEPTED_BEYOND_POLICY)
_NEWER_CUT = (
    "`cutover batch P` and `cutover reconcile P`, after the stream has read new records: a drained log has no newer cut"
)
_BEYOND_POLICY = (
    "batch and reconcile alone do not pass: lengthen the allowed lateness (`cutover advise P` says to what), or change"
    " what the policy allows, `policy.max_late_share`"
)
_NAMED = 3  # violations that a refusal names


def check_runs(counted: tuple[EvidenceRun, ...], runs: tuple[EvidenceRun, ...], policy: Policy) -> Condition:
    """Ask for enough consecutive runs that count."""
    found = f"{len(counted)} of {policy.runs} consecutive sealed runs within policy, each with a newer cut"
    repeated, missing = sum(run.within for run in runs) - len(counted), policy.runs - len(counted)
    if repeated > 0 and missing > 0:
        why = f"same or older cut, a range, over {EXPIRES_AFTER.days} days, dated in the future, before a break"
        found += f" ({repeated} more do not count: {why})"
    return Condition(
        name="runs",
        met=missing <= 0,
        found=found,
        number=len(counted),
        threshold=policy.runs,
        sense=AT_LEAST,
        unit="runs",
        to_pass="" if missing <= 0 else f"{missing} more in a row: {_need_for_agreement(newest(runs))}",
    )


def _need_for_agreement(last: EvidenceRun | None) -> str:
    """Return what makes the next run pass; where the newest one is beyond policy, another run alone does not."""
    return _BEYOND_POLICY if last is not None and last.outcome in _OUTCOMES_BEYOND_POLICY else _NEWER_CUT


def check_last_run(runs: tuple[EvidenceRun, ...]) -> Condition:
    """Ask that the run that speaks last is within policy."""
    last = newest(runs)
    met = last is not None and last.within
    return Condition(
        name="newest run",
        met=met,
        found="no reconciliation under this definition yet"
        if last is None
        else f"{last.outcome} at epoch {last.epoch}, {last.at:%Y-%m-%d %H:%M} UTC",
        number=None if last is None else int(not last.within),
        threshold=0,
        unit="runs beyond policy",
        to_pass="" if met else f"a whole run within policy: {_need_for_agreement(last)}",
    )


def check_freshness(latest: datetime | None, policy: Policy, now: datetime) -> Condition:
    """Ask that the newest run that counts was made a short while ago.

    Args:
        latest: Earliest time at which it can have been made; None: no run counts.
        policy: In force.
        now: By the clock of this host.
    """
    allowed = _length(policy.fresh_within, of="fresh_within")
    age = None if latest is None else now - latest
    met = age is not None and age <= allowed
    seen = "no run counts" if age is None else f"the newest run that counts is {duration(age.total_seconds())} old"
    return Condition(
        name="freshness",
        met=met,
        found=f"{seen}; the policy allows {duration(allowed.total_seconds())}",
        number=None if age is None else age.total_seconds(),
        threshold=allowed.total_seconds(),
        unit=SECONDS,
        to_pass="" if met else f"a run now: {_NEWER_CUT}",
    )


def check_unchanged(counted: tuple[EvidenceRun, ...], since: int, policy: Policy) -> Condition:
    """Ask for as many runs at cuts of the settings that the stream runs with now: others speak for another stream."""
    same = [run for run in counted if run.epoch >= since]
    missing = min(policy.runs, len(counted)) - len(same)
    found = f"{len(same)} of {len(counted)} runs that count are of the settings in force now"
    return Condition(
        name="unchanged",
        met=missing <= 0,
        found=found if since <= 0 else f"{found}, which changed with epoch {since}",
        number=len(same),
        threshold=min(policy.runs, len(counted)),
        sense=AT_LEAST,
        unit="runs",
        to_pass="" if missing <= 0 else f"{missing} more runs under these settings: {_NEWER_CUT}",
    )


def check_divergence(runs: tuple[EvidenceRun, ...], policy: Policy) -> Condition:
    """Ask for a bound of the divergence rate below the policy's, at 95 % however often somebody looks."""
    blocks = list_blocks(runs)
    compared, diverged = len(blocks), sum(blocks)
    bound, asked = divergence.upper_bound(compared, diverged), policy.max_divergence
    met = asked is None or divergence.is_refuted(compared, diverged, asked)
    found = f"{diverged:,} of {compared:,} blocks of windows diverged, so at most {bound:.2%} do "
    found += f"({divergence.CONFIDENCE:.0%}, however often looked at); the policy "
    found += "sets no limit" if asked is None else f"allows {asked * 100:g}%"
    need = ""
    if asked is not None and not met:
        more = divergence.missing_blocks(compared, diverged, asked)
        need = f"{'over a million' if more is None else f'{more:,}'} more without a divergence would show"
        found += f", which {need}"
    return Condition(
        name="divergence rate",
        met=met,
        found=found,
        number=bound,
        threshold=asked,
        unit=_BLOCKS,
        to_pass=need and f"{need} it: {_NEWER_CUT}",
    )


def check_losses(evidence: GateEvidence) -> Condition:
    """Ask that the newest run stands behind what an accepted loss touches."""
    last = newest(evidence.runs)
    inside = [lost for lost in evidence.losses if last is None or lost.touches(last)]
    found = f"{len(evidence.losses)} accepted, all behind the newest run" if evidence.losses else "none accepted"
    need = ""
    if inside:
        worst = max(inside, key=lambda lost: lost.until)
        epoch = max(lost.epoch for lost in inside)
        need = f"a cut of epoch {epoch} or later" if epoch else "a cut"
        need += f" on whose watermark is {from_micros(worst.until):%Y-%m-%d %H:%M} UTC or later"
        found = f"{worst.text}; runs count from {need}"
    return _none_of("losses", len(inside), "losses", found, need and f"runs from {need}")


def check_tables(evidence: GateEvidence) -> Condition:
    """Ask that nobody else has changed a row of what the runs speak of."""
    found = " ".join(evidence.foreign) or "nobody else has changed a row"
    need = "undo them or compute the windows anew: docs/runbooks/ForeignWrite.md"
    return _none_of("tables", len(evidence.foreign), "foreign writes", found, need)


def check_rules(evidence: GateEvidence, counted: tuple[EvidenceRun, ...], now: datetime) -> Condition:
    """Ask that every rule of acceptance is in force and large enough, and as it was for the runs that count."""
    rules, last = evidence.rules, newest(evidence.runs)
    wrong = [*rules.problems.values()]
    wrong += [
        f"rule `{name}` has expired, {rule.expires:%Y-%m-%d %H:%M} UTC: renew it or take it away"
        for name, rule in rules.rules.items()
        if rule.is_expired(now)
    ]
    wrong += [f"rule `{name}` is exceeded: {why}" for name, why in (last.exceeded if last else ())]
    needed = sorted({one for run in counted for one in run.accepted_by})
    now_known = {(name, rule.digest) for name, rule in rules.rules.items()}
    wrong += [
        f"rule `{name}`, which runs that count need, was changed or taken away"
        for name, digest in needed
        if (name, digest) not in now_known
    ]
    good = f"{len(rules.rules)} in force" if rules.rules else "none"
    need = f"put the rules right, then compare again: {_NEWER_CUT}"
    return _none_of("accepted", len(wrong), "rules", "; ".join(wrong[:_NAMED]) or good, need)


def check_contract(found: ContractCheck | None, expectations: int) -> Condition:
    """Ask that the newest batch result was held to every expectation of the contract, and broke no critical one."""
    dropped = ""
    if found is not None and found.dropped:
        dropped = f"; {found.dropped:,} that batch run {found.run_id} evaluated are no longer in the contract"
    if not expectations:
        return _none_of("contract", 0, "expectations", f"the definition has none{dropped}", "")
    if found is None:
        text = f"no batch run was held to the {expectations} expectations"
        return _none_of("contract", expectations, "expectations", text, "`cutover batch P`")
    open_ones = [*found.failed, *["not judged by it"] * max(0, expectations - found.judged)]
    held = f"{expectations - len(open_ones)} of {expectations} hold in the newest batch run {found.run_id}{dropped}"
    text = f"{held}: {'; '.join(open_ones[:_NAMED])}" if open_ones else held
    return _none_of("contract", len(open_ones), "expectations", text, "a batch run that holds them: `cutover batch P`")


def check_self_test(found: SelfTest | None, earlier: tuple[datetime, ...], now: datetime) -> Condition:
    """Ask whether the reconciler was tested on this pipeline not long ago, and how it did.

    Args:
        found: The newest self-test.
        earlier: Times of those before it: one dated in the future was made after them.
        now: By the clock of this host.
    """
    need = "`cutover selftest P`"
    if found is None:
        text = "none under this definition: `cutover selftest P` makes one"
        return Condition(
            name="self-test", met=False, found=text, threshold=1, sense=AT_LEAST, unit=_FOUND, to_pass=need
        )
    alarms, named, caught = found.false_alarm_rate, found.right_cause_rate, found.detection_rate
    told = f"{caught.hits:,} of {caught.of:,} planted rows found, "
    told += f"{alarms.hits:,} false alarms in {alarms.of:,} windows, {named.hits:,} of {named.of:,} named right"
    at = find_earliest_times([*earlier, datetime.fromisoformat(found.at)], now)[-1]
    recent = at is not None and now - at <= TESTED_WITHIN
    if not recent:
        told += f"; over {TESTED_WITHIN.days} days ago" if at else f"; dated {found.at}, in the future"
    met = found.passed and recent
    return Condition(
        name="self-test",
        met=met,
        found=told,
        number=caught.hits / caught.of if caught.of else None,
        threshold=1,
        sense=AT_LEAST,
        unit=_FOUND,
        to_pass="" if met else f"one that passes, within {TESTED_WITHIN.days} days: {need}",
    )


def check_replay(replay: Replayability | None, policy: Policy, now: datetime) -> tuple[Condition, ...]:
    """Ask that the log is kept, by time and by size, until a wrong result was found, a person spoke, and it was read.

    Of a bound of size nobody knows what it comes to tomorrow: what the log has held so far is taken for it.
    """
    if replay is None:
        text = "the log did not answer, so its retention is not known"
        return (_unknown_replay(text, "a broker that answers: `cutover doctor`"),)
    if replay.needed is None:
        text = "no epoch was committed, so the time of a replay is not measured"
        return (_unknown_replay(text, "an epoch with records: `cutover stream P --drain`"),)
    detection = _length(policy.detected_within, of="detected_within")
    approval = _length(policy.approved_within, of="approved_within")
    needed = detection + approval + replay.needed * REPLAY_MARGIN
    parts = f"{_say(detection)} until it is found, {_say(approval)} until it is approved, "
    pace = f"twice the {_say(replay.needed)} of a replay at the pace of the epochs so far"
    asked = f"{_say(needed)} are asked for: {parts}{pace}"
    kept = "for ever" if replay.retention is None else f"for {_say(replay.retention)}"
    how = "is compacted" if replay.retention == timedelta(0) else f"is kept {kept}"
    more = f"`retention.ms` of at least {int(needed.total_seconds() * 1000)}, and no compaction"
    by_size = None if not replay.is_bounded else _age(replay.held_since, now)
    held = "has no bound of size" if by_size is None else f"has held its records for {_say(by_size)} within its size"
    larger = "a larger `retention.bytes`, or more time for the log to show what it holds"
    return (
        _check_kept("replay", replay.retention, needed, f"the log {how}; {asked}", more),
        _check_kept("replay by size", by_size, needed, f"the log {held}; {asked}", larger),
    )


def check_audit(refusal: str | None, policy: Policy) -> Condition:
    """Ask that a daily sample in KAPPA can find what the policy says, or that the policy does without by name."""
    asked = power.describe(policy.audit)
    if policy.audit is None:
        return Condition(name="audit", met=True, found=f"the policy says `audit=None`, {asked}")
    why, _, hint = (refusal or "").partition("\nHint: ")
    found = why or f"daily samples can hold what the policy asks for: {asked}"
    need = hint.rstrip(".") or "a policy that a sample can meet: `policy.audit` in the definition"
    return _none_of("audit", int(refusal is not None), "refusals", found, need)


def check_present(present: PresentState) -> tuple[Condition, ...]:
    """Ask of the present: agreement at the newest cut, no violated check, no page."""
    run, agree = present.run, present.run.within and present.run.whole
    broken = [*present.violations, *([present.unjudged] if present.unjudged else [])]
    said, pages = "; ".join(broken[:_NAMED]) or "no check is violated", "; ".join(present.pages)
    verified, mended = "`cutover verify P` without a violation", "what the alerts ask for: `cutover watch P --once`"
    return (
        _none_of(
            "compared now",
            int(not agree),
            "runs beyond policy",
            f"{run.outcome}: {present.reason}",
            _need_for_agreement(run),
        ),
        _none_of("verified now", len(broken), "violations", said, verified),
        _none_of("alerts now", len(present.pages), "pages", pages or "none that wakes someone", mended),
    )


def _none_of(name: str, number: int, unit: str, found: str, to_pass: str) -> Condition:
    """Return a condition that allows none of something."""
    need = to_pass if number else ""
    return Condition(name=name, met=not number, found=found, number=number, threshold=0, unit=unit, to_pass=need)


def _check_kept(name: str, time: timedelta | None, needed: timedelta, found: str, to_pass: str) -> Condition:
    met = time is None or time >= needed
    return Condition(
        name=name,
        met=met,
        found=found,
        number=None if time is None else time.total_seconds(),
        threshold=needed.total_seconds(),
        sense=AT_LEAST,
        unit=SECONDS,
        to_pass="" if met else to_pass,
    )


def _unknown_replay(found: str, to_pass: str) -> Condition:
    return Condition(name="replay", met=False, found=found, sense=AT_LEAST, unit=SECONDS, to_pass=to_pass)


def _age(since: datetime | None, now: datetime) -> timedelta:
    return timedelta(0) if since is None else max(timedelta(0), now - since)


def _say(time: timedelta) -> str:
    return duration(time.total_seconds())


def _length(text: str, *, of: str) -> timedelta:
    return timedelta(microseconds=parse_duration(text, of=f"policy.{of}"))
