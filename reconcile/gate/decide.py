"""Whether a pipeline may move: a pure function of its stage, the evidence and the policy."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from cutover.definition.loading.acceptance_files import AcceptanceRules
from cutover.definition.model.pipeline import Policy
from cutover.lake.control.stages import Stage
from cutover.reconcile.gate import divergence
from cutover.reconcile.result.outcome import Verdict
from cutover.reconcile.result.text import duration
from cutover.reconcile.selftest.outcome import SelfTest
from cutover.timestamps import from_micros

Move = Literal["advance", "rollback"]

EXPIRES_AFTER = timedelta(days=7)
"""Evidence older than this says nothing about the pipeline as it runs today."""

TESTED_WITHIN = timedelta(days=30)
"""A self-test older than this says nothing of the reconciler as it is today."""

REPLAY_MARGIN = 2.0
"""The log must be kept this many times as long as a replay of it takes."""

_DIVERGED = (str(Verdict.DIVERGED), str(Verdict.ACCEPTED))  # an accepted difference is one: nothing explains it
_NAMED = 3  # violations that a refusal names

_NEXT = {Stage.LAMBDA: Stage.SHADOW, Stage.SHADOW: Stage.KAPPA}
_BACK = {Stage.KAPPA: (Stage.LAMBDA, Stage.SHADOW), Stage.SHADOW: (Stage.LAMBDA,), Stage.LAMBDA: ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRun:
    """One reconciliation as the gate sees it."""

    run_id: str
    at: datetime  # when it was made last
    epoch: int  # of its cut; where none was read, of the newest that was known then; -1: none was
    outcome: str  # verdict, or EXPLAINED_BEYOND_POLICY
    within: bool  # sealed, within policy, nothing unexplained beyond it
    windows: int = 1  # compared
    whole: bool = True  # of all closed windows; one of a range that was asked for is no evidence, but may speak against
    end: int | None = None  # sum of the cut's offsets; None: not known
    rows_by_cause: tuple[tuple[str, int], ...] = ()  # cause -> (window, key) rows
    watermark: int | None = None  # of the stream at the cut, microseconds
    begun: int = -1  # sequence of its first row in the history; -1: it is not from there
    sequence: int = -1  # of its newest row
    accepted_by: tuple[tuple[str, str], ...] = ()  # rules that its verdict needs: name, digest
    exceeded: tuple[tuple[str, str], ...] = ()  # rules that more rows fit than they allow: name, why


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWindows:
    """Windows that can be proven no more, since the log lost records of theirs: evidence begins anew behind them."""

    accepted: datetime
    until: int  # watermark at which the last of these windows is closed, microseconds
    text: str  # which, by whom

    def touches(self, run: EvidenceRun) -> bool:
        """Return whether a run speaks for these windows: made before, or at a cut that leaves some of them open."""
        return run.at <= self.accepted or run.watermark is None or run.watermark < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayability:
    """Whether the log could be read again from its start."""

    retention: timedelta | None  # how long the topic keeps a record; None: for ever
    needed: timedelta | None  # measured: reading the whole log again; None: nothing was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentState:
    """What was found inside the move: both sides compared anew at the newest cut, the checks, the pages that fire."""

    run: EvidenceRun  # the comparison
    reason: str  # its sentence
    violations: tuple[str, ...] = ()  # of `verify`, with those that were recorded and still stand
    unjudged: str | None = None  # why no check could be judged
    pages: tuple[str, ...] = ()  # alerts that wake someone, each with its page


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEvidence:
    """All that speaks for or against a move."""

    runs: tuple[
        EvidenceRun, ...
    ] = ()  # of the version and definition in force, since the last move, as they were recorded
    replay: Replayability | None = None  # None: the log did not answer
    losses: tuple[LostWindows, ...] = ()  # accepted, of the version in force and of those before it
    present: PresentState | None = None  # None: nobody looked, since the rest does not suffice
    foreign: tuple[str, ...] = ()  # what another writer did to the tables that the runs speak of
    rules: AcceptanceRules = field(default_factory=AcceptanceRules)  # of acceptance, as their files are now
    self_test: SelfTest | None = None  # the newest under the definition in force
    result_fingerprint: str | None = None
    stream_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that a move asks for."""

    name: str
    met: bool
    found: str  # expected and got, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """What the gate says."""

    move: Move
    stage: Stage
    target: Stage | None  # None: there is nothing beyond
    conditions: tuple[Condition, ...] = ()
    counted: tuple[EvidenceRun, ...] = field(default=())  # the consecutive runs that count, oldest first

    @property
    def allowed(self) -> bool:
        """Return whether the move may be made."""
        return self.target is not None and all(condition.met for condition in self.conditions)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return what stands in the way, in words."""
        return tuple(f"{c.name}: {c.found}" for c in self.conditions if not c.met)


def decide(
    stage: Stage,
    evidence: GateEvidence,
    move: Move,
    policy: Policy,
    now: datetime,
    *,
    back_to: Stage = Stage.LAMBDA,
) -> GateDecision:
    """Return whether `move` is allowed from `stage`, and why not.

    Back is always allowed: to LAMBDA, where batch serves again, or from KAPPA to SHADOW. Forward asks for consecutive
    sealed runs within policy, each with a newer cut, the newest of them fresh, and for a log
    that is kept long enough to be replayed.
    """
    if move == "rollback":
        return GateDecision(move=move, stage=stage, target=back_to if back_to in _BACK[stage] else None)
    counted = consecutive(evidence.runs, now, evidence.losses)
    conditions = (
        _check_evidence(counted, evidence.runs, policy),
        _check_last_run(evidence.runs),
        _check_divergence(evidence.runs, policy),
        _check_losses(evidence),
        _check_tables(evidence),
        _check_rules(evidence, counted, now),
        _check_self_test(evidence.self_test, now),
        _check_replay(evidence.replay),
        *([] if evidence.present is None else _check_present(evidence.present)),
    )
    return GateDecision(move=move, stage=stage, target=_NEXT.get(stage), conditions=conditions, counted=counted)


def consecutive(
    runs: tuple[EvidenceRun, ...], now: datetime, losses: tuple[LostWindows, ...] = ()
) -> tuple[EvidenceRun, ...]:
    """Return the newest unbroken row of runs that count: within policy, not expired, each with a newer cut.

    A run that is not within policy, could not compare, or speaks for windows that a loss touched ends the row at its
    cut: no run at an older cut counts, and of those at the same cut none that was recorded before it. A run whose cut
    is not ahead of those that were first made before it, or one over a range, adds nothing: an older cut that is
    compared again takes nothing away, and one that is compared late for the first time is no evidence.

    Args:
        runs: In the order in which they were recorded last.
        now: For what is expired.
        losses: That a person accepted.
    """
    bad = [place for place in _places(runs) if not place.run.within or any(lost.touches(place.run) for lost in losses)]
    end = max((place.at for place in bad), default=(-2, -1))
    row: list[EvidenceRun] = []
    for place in sorted(_places(runs), key=lambda place: place.run.begun):
        run = place.run
        if place.at > end and _is_fresh(run, now) and run.whole and (not row or is_ahead(run, row[-1])):
            row.append(run)
    return tuple(row)


class _Place(NamedTuple):
    """A run, and where it stands: by its cut, then by when it was recorded."""

    at: tuple[int, int]
    run: EvidenceRun


def _places(runs: tuple[EvidenceRun, ...]) -> list[_Place]:
    return [_Place((run.epoch, number), run) for number, run in enumerate(runs)]


def newest(runs: tuple[EvidenceRun, ...]) -> EvidenceRun | None:
    """Return the run that speaks last: at the newest cut, of those the last that was recorded; none over a range.

    One over a range that is not within policy speaks too.
    """
    spoken = [place for place in _places(runs) if place.run.whole or not place.run.within]
    return max(spoken, key=lambda place: place.at).run if spoken else None


def is_ahead(run: EvidenceRun, before: EvidenceRun) -> bool:
    """Return whether a cut holds records that another does not: a later epoch, and one that read something."""
    read_more = run.end is None or before.end is None or run.end > before.end
    return run.epoch > before.epoch and read_more


def _is_fresh(run: EvidenceRun, now: datetime) -> bool:
    return abs(now - run.at) <= EXPIRES_AFTER  # a clock that ran ahead must not make evidence that never expires


def _check_evidence(counted: tuple[EvidenceRun, ...], runs: tuple[EvidenceRun, ...], policy: Policy) -> Condition:
    found = f"{len(counted)} of {policy.runs} consecutive sealed runs within policy, each with a newer cut"
    repeated = sum(run.within for run in runs) - len(counted)
    if repeated > 0 and len(counted) < policy.runs:
        why = f"same or older cut, a range, over {EXPIRES_AFTER.days} days, before a break"
        found += f" ({repeated} more do not count: {why})"
    return Condition(name="runs", met=len(counted) >= policy.runs, found=found)


def _check_last_run(runs: tuple[EvidenceRun, ...]) -> Condition:
    last = newest(runs)
    if last is None:
        return Condition(name="newest run", met=False, found="no reconciliation under this definition yet")
    found = f"{last.outcome} at epoch {last.epoch}, {last.at:%Y-%m-%d %H:%M} UTC"
    return Condition(name="newest run", met=last.within, found=found)


def list_blocks(runs: tuple[EvidenceRun, ...]) -> tuple[bool, ...]:
    """Return for each block of windows whether it diverged, in the order in which they were first compared.

    A block is what a comparison of all windows at a newer cut adds. What a later look at the same or an older cut, or
    at a range, finds is held against the newest block. A run that could not compare leaves its windows to the next.
    """
    blocks: list[bool] = []
    last: EvidenceRun | None = None
    for run in sorted(runs, key=lambda run: run.begun):
        diverged = run.outcome.startswith(_DIVERGED)
        if run.whole and run.outcome != Verdict.NOT_COMPARABLE and (last is None or is_ahead(run, last)):
            blocks.append(diverged)
            last = run
        elif diverged:
            blocks = [*blocks[:-1], True]
    return tuple(blocks)


def _check_divergence(runs: tuple[EvidenceRun, ...], policy: Policy) -> Condition:
    blocks = list_blocks(runs)
    compared, diverged = len(blocks), sum(blocks)
    bound, asked = divergence.upper_bound(compared, diverged), policy.max_divergence
    found = f"{diverged:,} of {compared:,} blocks of windows diverged, so at most {bound:.2%} do "
    found += f"({divergence.CONFIDENCE:.0%}, however often looked at)"
    if asked is None:
        return Condition(name="divergence rate", met=True, found=f"{found}; the policy sets no limit")
    met = compared > 0 and divergence.is_refuted(compared, diverged, asked)
    found += f"; the policy allows {asked * 100:g}%"
    if not met:
        more = divergence.missing_blocks(compared, diverged, asked)
        found += f", which {'over a million' if more is None else f'{more:,}'} more without a divergence would show"
    return Condition(name="divergence rate", met=met, found=found)


def _check_present(present: PresentState) -> tuple[Condition, ...]:
    """Return what the move asks of the present: agreement at the newest cut, no violated check, no page."""
    run = present.run
    broken = [*present.violations[:_NAMED], *([present.unjudged] if present.unjudged else [])]
    pages = "; ".join(present.pages)
    return (
        Condition(name="compared now", met=run.within and run.whole, found=f"{run.outcome}: {present.reason}"),
        Condition(name="verified now", met=not broken, found="; ".join(broken) or "no check is violated"),
        Condition(name="alerts now", met=not pages, found=pages or "none that wakes someone"),
    )


def _check_losses(evidence: GateEvidence) -> Condition:
    name, last = "losses", newest(evidence.runs)
    inside = [lost for lost in evidence.losses if last is None or lost.touches(last)]
    if not inside:
        found = f"{len(evidence.losses)} accepted, all behind the newest run" if evidence.losses else "none accepted"
        return Condition(name=name, met=True, found=found)
    worst = max(inside, key=lambda lost: lost.until)
    until = from_micros(worst.until)
    found = f"{worst.text}; runs count from a cut on whose watermark is {until:%Y-%m-%d %H:%M} UTC or later"
    return Condition(name=name, met=False, found=found)


def _check_tables(evidence: GateEvidence) -> Condition:
    found = " ".join(evidence.foreign) or "nobody else has changed a row"
    return Condition(name="tables", met=not evidence.foreign, found=found)


def _check_self_test(found: SelfTest | None, now: datetime) -> Condition:
    """Return whether the reconciler was tested on this pipeline not long ago, and how it did."""
    name = "self-test"
    if found is None:
        return Condition(name=name, met=False, found="none under this definition: `cutover selftest P` makes one")
    alarms, named = found.false_alarm_rate, found.right_cause_rate
    told = f"{found.detection_rate.hits:,} of {found.detection_rate.of:,} planted rows found, "
    told += f"{alarms.hits:,} false alarms in {alarms.of:,} windows, {named.hits:,} of {named.of:,} named right"
    age = abs(now - datetime.fromisoformat(found.at))
    if age > TESTED_WITHIN:
        told += f"; over {TESTED_WITHIN.days} days ago"
    return Condition(name=name, met=found.passed and age <= TESTED_WITHIN, found=told)


def _check_rules(evidence: GateEvidence, counted: tuple[EvidenceRun, ...], now: datetime) -> Condition:
    """Return whether every rule of acceptance is in force and large enough, and as the counted runs need it."""
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
    return Condition(name="accepted", met=not wrong, found="; ".join(wrong[:_NAMED]) or good)


def _check_replay(replay: Replayability | None) -> Condition:
    name = "replay"
    if replay is None:
        return Condition(name=name, met=False, found="the log did not answer, so its retention is not known")
    if replay.needed is None:
        return Condition(name=name, met=False, found="no epoch was committed, so the time of a replay is not measured")
    wanted = f"twice the measured time of a replay is {duration((replay.needed * REPLAY_MARGIN).total_seconds())}"
    met = replay.retention is None or replay.retention >= replay.needed * REPLAY_MARGIN
    return Condition(name=name, met=met, found=f"the log is {_format_retention(replay.retention)}; {wanted}")


def _format_retention(retention: timedelta | None) -> str:
    if retention is None:
        return "kept for ever"
    if not retention:
        return "compacted or bounded by size, so no time is promised"
    return f"kept for {duration(retention.total_seconds())}"
