"""Whether a pipeline may move: a pure function of its stage, the evidence and the policy."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from cutover.definition.pipeline import Policy
from cutover.lake.stages import Stage
from reconcile.report.text import duration

Move = Literal["advance", "rollback"]

EXPIRES_AFTER = timedelta(days=7)
"""Evidence older than this says nothing about the pipeline as it runs today."""

REPLAY_MARGIN = 2.0
"""The log must be kept this many times as long as a replay of it takes."""

_NEXT = {Stage.LAMBDA: Stage.SHADOW, Stage.SHADOW: Stage.KAPPA}
_BACK = {Stage.KAPPA: Stage.SHADOW, Stage.SHADOW: Stage.LAMBDA}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One reconciliation as the gate sees it."""

    run_id: str
    at: datetime
    epoch: int  # of its cut; -1 if it was not comparable
    outcome: str  # verdict, or EXPLAINED_BEYOND_POLICY
    within: bool  # sealed, within policy, nothing unexplained beyond it
    windows: int = 1  # compared; a run that compared none is no evidence
    whole: bool = True  # of all closed windows; one of a range that was asked for is no evidence, but may speak against
    end: int | None = None  # sum of the cut's offsets; None: not known
    rows_by_cause: tuple[tuple[str, int], ...] = ()  # cause -> (window, key) rows
    watermark: int | None = None  # of the stream at the cut, microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Windows that can be proven no more, since the log lost records of theirs: evidence begins anew behind them."""

    accepted: datetime
    until: int  # watermark at which the last of these windows is closed, microseconds
    text: str  # which, by whom

    def touches(self, run: Run) -> bool:
        """Return whether a run speaks for these windows: made before, or at a cut that leaves some of them open."""
        return run.at <= self.accepted or run.watermark is None or run.watermark < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Whether the log could be read again from its start."""

    retention: timedelta | None  # how long the topic keeps a record; None: for ever
    needed: timedelta | None  # measured: reading the whole log again; None: nothing was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that speaks for or against a move."""

    runs: tuple[Run, ...] = ()  # of the version and definition in force, since the last move, oldest first
    replay: Replay | None = None  # None: the log did not answer
    losses: tuple[Lost, ...] = ()  # accepted, of the version in force and of those before it
    result_fingerprint: str | None = None
    stream_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that a move asks for."""

    name: str
    met: bool
    found: str  # expected and got, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the gate says."""

    move: Move
    stage: Stage
    target: Stage | None  # None: there is nothing beyond
    conditions: tuple[Condition, ...] = ()
    counted: tuple[Run, ...] = field(default=())  # the consecutive runs that count, oldest first

    @property
    def allowed(self) -> bool:
        """Return whether the move may be made."""
        return self.target is not None and all(condition.met for condition in self.conditions)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return what stands in the way, in words."""
        return tuple(f"{c.name}: {c.found}" for c in self.conditions if not c.met)


def decide(stage: Stage, evidence: Evidence, move: Move, policy: Policy, now: datetime) -> Decision:
    """Return whether `move` is allowed from `stage`, and why not.

    Back is always allowed, down to LAMBDA. Forward asks for consecutive sealed runs within policy, each with a newer
    cut, the newest of them fresh, and for a log that is kept long enough to be replayed.
    """
    if move == "rollback":
        return Decision(move=move, stage=stage, target=_BACK.get(stage))
    counted = consecutive(evidence.runs, now, evidence.losses)
    conditions = (
        _enough(counted, evidence.runs, policy),
        _last(evidence.runs),
        _whole(evidence),
        _replayable(evidence.replay),
    )
    return Decision(move=move, stage=stage, target=_NEXT.get(stage), conditions=conditions, counted=counted)


def consecutive(runs: tuple[Run, ...], now: datetime, losses: tuple[Lost, ...] = ()) -> tuple[Run, ...]:
    """Return the newest unbroken row of runs that count: within policy, not expired, each with a newer cut.

    A run that is not within policy, could not compare, or speaks for windows that a loss touched breaks the row. A run
    at a cut that is already in the row, a run over a range, or one that compared no window, adds nothing and breaks
    nothing.
    """
    row: list[Run] = []
    for run in runs:
        if not run.within or any(lost.touches(run) for lost in losses):
            row = []
        elif _is_fresh(run, now) and run.whole and run.windows > 0 and (not row or is_ahead(run, row[-1])):
            row.append(run)
    return tuple(row)


def is_ahead(run: Run, before: Run) -> bool:
    """Return whether a cut holds records that another does not: a later epoch, and one that read something."""
    read_more = run.end is None or before.end is None or run.end > before.end
    return run.epoch > before.epoch and read_more


def _is_fresh(run: Run, now: datetime) -> bool:
    return now - run.at <= EXPIRES_AFTER


def _enough(counted: tuple[Run, ...], runs: tuple[Run, ...], policy: Policy) -> Condition:
    found = f"{len(counted)} of {policy.runs} consecutive sealed runs within policy, each with a newer cut"
    repeated = sum(run.within for run in runs) - len(counted)
    if repeated > 0 and len(counted) < policy.runs:
        why = f"same cut, a range, no window, over {EXPIRES_AFTER.days} days, before a break"
        found += f" ({repeated} more do not count: {why})"
    return Condition(name="runs", met=len(counted) >= policy.runs, found=found)


def _last(runs: tuple[Run, ...]) -> Condition:
    if not runs:
        return Condition(name="newest run", met=False, found="no reconciliation under this definition yet")
    newest = runs[-1]
    found = f"{newest.outcome} at epoch {newest.epoch}, {newest.at:%Y-%m-%d %H:%M} UTC"
    return Condition(name="newest run", met=newest.within, found=found)


def _whole(evidence: Evidence) -> Condition:
    name, newest = "losses", evidence.runs[-1] if evidence.runs else None
    inside = [lost for lost in evidence.losses if newest is None or lost.touches(newest)]
    if not inside:
        found = f"{len(evidence.losses)} accepted, all behind the newest run" if evidence.losses else "none accepted"
        return Condition(name=name, met=True, found=found)
    worst = max(inside, key=lambda lost: lost.until)
    until = datetime.fromtimestamp(worst.until / 1e6, UTC)
    found = f"{worst.text}; runs count from a cut on whose watermark is {until:%Y-%m-%d %H:%M} UTC or later"
    return Condition(name=name, met=False, found=found)


def _replayable(replay: Replay | None) -> Condition:
    name = "replay"
    if replay is None:
        return Condition(name=name, met=False, found="the log did not answer, so its retention is not known")
    if replay.needed is None:
        return Condition(name=name, met=False, found="no epoch was committed, so the time of a replay is not measured")
    wanted = f"twice the measured time of a replay is {duration((replay.needed * REPLAY_MARGIN).total_seconds())}"
    met = replay.retention is None or replay.retention >= replay.needed * REPLAY_MARGIN
    return Condition(name=name, met=met, found=f"the log is {_kept(replay.retention)}; {wanted}")


def _kept(retention: timedelta | None) -> str:
    if retention is None:
        return "kept for ever"
    if not retention:
        return "compacted or bounded by size, so no time is promised"
    return f"kept for {duration(retention.total_seconds())}"
