"""Input and output of the gate as frozen values, and the runs of a history that count as evidence.

Input and output of the gate as frozen values: runs, losses, hazards, the present state, conditions, decisions.

Eligible runs of the history: the consecutive ones within policy, the latest one, and blocks of windows.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from cutover import recorded_times
from cutover.definition.model.policy import AcceptanceRules, HazardKind, Stage
from cutover.errors import insert_pipeline
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.measurements import SelfTest

Move = Literal["advance", "rollback"]
Sense = Literal["at least", "at most"]
AT_LEAST: Sense = "at least"
AT_MOST: Sense = "at most"
NOT_EVALUATED = "not evaluated before SHADOW"
"""Audit refusal outside of SHADOW: only one stage before KAPPA, the gate evaluates whether samples can be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRun:
    """Recorded comparison, reduced to what the gate needs."""

    run_id: str
    at: datetime  # latest time at which it was recorded, by the clock of its host
    epoch: int  # of its cut; without a cut, of the newest cut known at that time; -1: none was known
    outcome: str  # verdict, or EXPLAINED_BEYOND_POLICY
    is_within_policy: bool  # sealed, and no more late or unexplained rows than the policy allows
    windows: int = 1  # number of compared windows
    newest_window: int | None = None  # start of the newest compared window, microseconds; None: unknown
    covers_all_windows: bool = True  # all closed windows; a run over a range is never evidence for a move, only against
    end: int | None = None  # sum of the cut's offsets; None: unknown
    rows_by_cause: tuple[tuple[str, int], ...] = ()  # cause -> (window, key) rows
    watermark: int | None = None  # of the stream at the cut, microseconds
    first_sequence: int = -1  # of its first row in the history; -1: it has no row there
    sequence: int = -1  # of its latest row
    accepted_by: tuple[tuple[str, str], ...] = ()  # rules on which its verdict depends: name, digest
    exceeded: tuple[tuple[str, str], ...] = ()  # rules matched by more rows than they allow: name, reason
    inputs: tuple[datetime, ...] = ()  # commit time of the epoch of its cut, end of the batch run


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWindows:
    """Windows that can no longer be verified because the log lost records; only later runs are eligible."""

    epoch: int  # first epoch after the loss; 0: the loss is of an earlier version of the stream
    closed_at: int  # watermark at which the last of these windows is closed, microseconds
    text: str  # which offsets, who accepted their loss

    def touches(self, run: EvidenceRun) -> bool:
        """Return whether a run covers these windows: its cut is before the loss, or some of them were still open."""
        return run.epoch < self.epoch or run.watermark is None or run.watermark < self.closed_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayability:
    """Retention of the log and duration of a full replay."""

    retention: timedelta | None  # how long the topic keeps a record; zero: compacted; None: forever
    replay_time: timedelta | None  # measured duration of one replay of the whole log; None: not measured
    is_bounded: bool = False  # limited by size: records of any age can be deleted
    retained_since: datetime | None = None  # age of the oldest retained records that were read; None: none was read


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHazard:
    """Latest recorded occurrence of a hazard."""

    kind: HazardKind
    epoch: int  # a comparison at this cut or a newer one covers it
    at: datetime | None  # earliest possible time of the occurrence; None: unknown
    text: str  # description of the recorded occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractCheck:
    """Results of the contract for the latest published batch run."""

    run_id: str
    evaluated: int  # expectations of the contract in force that the run evaluated
    failed: tuple[str, ...]  # critical expectations that did not hold
    dropped: int = 0  # expectations that the run evaluated and the contract no longer has


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentState:
    """State at the moment of a move: a new comparison at the latest cut, the checks, the firing pages."""

    run: EvidenceRun  # the comparison
    reason: str  # sentence of its finding
    violations: tuple[str, ...] = ()  # of `verify`, including recorded ones that were not resolved
    check_error: str | None = None  # why the checks could not be evaluated; None: they were
    pages: tuple[str, ...] = ()  # firing alerts that page someone: name, text


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEvidence:
    """Evidence for or against a move."""

    runs: tuple[EvidenceRun, ...] = ()  # current version and definition, since the last move, in order of recording
    replay: Replayability | None = None  # None: the log did not respond
    losses: tuple[LostWindows, ...] = ()  # accepted losses of the current version and of earlier ones
    present: PresentState | None = None  # None: not evaluated, because other conditions are not met
    foreign: tuple[str, ...] = ()  # changes of other writers to the compared tables; an unreadable high-water note
    rules: AcceptanceRules = field(default_factory=AcceptanceRules)  # acceptance rules, as their files are now
    self_test: SelfTest | None = None  # latest self-test of the current definition
    earlier_self_tests: tuple[datetime, ...] = ()  # times of the self-tests before it
    hazards: tuple[RecordedHazard, ...] = ()  # latest of each kind, of the current version
    settings_since: int = -1  # first epoch that ran with the current settings of the stream
    contract: ContractCheck | None = None  # of the latest batch run; None: none was published
    expectations: int = 0  # number of expectations in the contract of the definition
    audit_refusal: str | None = NOT_EVALUATED  # why a sample in KAPPA cannot detect what the policy requires
    result_fingerprint: str | None = None
    stream_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Requirement of a move: its number, its threshold, and what would satisfy it."""

    name: str
    is_met: bool
    detail: str  # expected and actual state, in words
    number: float | None = None  # None: unknown or infinite
    threshold: float | None = None  # None: the policy sets none
    sense: Sense = AT_MOST  # how the number must compare to the threshold
    unit: str = ""  # of number and threshold
    to_pass: str = ""  # what would satisfy it; empty if it is met


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """Decision of the gate on a move."""

    move: Move
    stage: Stage
    target: Stage | None  # None: there is no further stage
    conditions: tuple[Condition, ...] = ()
    eligible_runs: tuple[EvidenceRun, ...] = ()  # consecutive, oldest first
    expires: datetime | None = None  # when the oldest of them is no longer eligible; None: there is none
    stale_pipelines: tuple[str, ...] = ()  # names whose serving table could not be published after the move

    @property
    def allowed(self) -> bool:
        """Return whether the move may be made."""
        return self.target is not None and all(condition.is_met for condition in self.conditions)

    def name_pipeline(self, pipeline: str) -> "GateDecision":
        """Replace the placeholder `P` in the commands of all conditions by the pipeline's name."""
        conditions = (
            replace(
                condition,
                detail=insert_pipeline(condition.detail, pipeline),
                to_pass=insert_pipeline(condition.to_pass, pipeline),
            )
            for condition in self.conditions
        )
        return replace(self, conditions=tuple(conditions))

    @property
    def missing(self) -> tuple[str, ...]:
        """Describe the conditions that are not met."""
        return tuple(f"{c.name}: {c.detail}" for c in self.conditions if not c.is_met)


EXPIRES_AFTER = timedelta(days=7)
"""Maximum age of an eligible run."""

_DIVERGED = (str(Verdict.DIVERGED), str(Verdict.ACCEPTED))  # an accepted difference is one: nothing explains it


def select_consecutive_runs(
    runs: tuple[EvidenceRun, ...], now: datetime, losses: tuple[LostWindows, ...] = ()
) -> tuple[EvidenceRun, ...]:
    """Select the latest consecutive eligible runs: within policy, not expired, each at a newer cut.

    A run that is not within policy, could not compare, or covers windows that a loss affects interrupts the sequence:
    no run at an older cut is eligible, and no run at the same cut that was recorded before it. A run whose cut is not
    ahead of the runs that were first recorded before it, or one over a range, is not eligible itself: comparing an
    older cut again removes no evidence, and comparing it late for the first time adds none.

    Args:
        runs: In the order in which they were last recorded.
        now: By the clock of this host.
        losses: Accepted losses.
    """
    interrupting = [
        place
        for place in _list_places(runs)
        if not place.run.is_within_policy or any(loss.touches(place.run) for loss in losses)
    ]
    last_interruption = max((place.at for place in interrupting), default=(-2, -1))
    earliest = find_earliest_run_times(runs, now)
    consecutive_runs: list[EvidenceRun] = []
    for place in sorted(_list_places(runs), key=lambda place: place.run.first_sequence):
        run = place.run
        at = earliest[run.run_id]
        is_fresh = at is not None and now - at <= EXPIRES_AFTER
        is_candidate = place.at > last_interruption and is_fresh and run.covers_all_windows
        if is_candidate and (not consecutive_runs or is_newer_cut(run, consecutive_runs[-1])):
            consecutive_runs.append(run)
    return tuple(consecutive_runs)


class _Place(NamedTuple):
    """Run with its position: epoch of its cut, then order of recording."""

    at: tuple[int, int]
    run: EvidenceRun


def _list_places(runs: tuple[EvidenceRun, ...]) -> list[_Place]:
    return [_Place((run.epoch, number), run) for number, run in enumerate(runs)]


def find_latest_run(runs: tuple[EvidenceRun, ...]) -> EvidenceRun | None:
    """Find the latest run: at the newest cut, and of several at that cut the one that was recorded last.

    A run over a range is considered only if it is not within policy.
    """
    candidates = [
        place for place in _list_places(runs) if place.run.covers_all_windows or not place.run.is_within_policy
    ]
    return max(candidates, key=lambda place: place.at).run if candidates else None


def is_newer_cut(run: EvidenceRun, other: EvidenceRun) -> bool:
    """Return whether a cut contains records that another cut lacks: a later epoch, and higher offsets if known."""
    has_more_records = run.end is None or other.end is None or run.end > other.end
    return run.epoch > other.epoch and has_more_records


def find_earliest_run_times(runs: tuple[EvidenceRun, ...], now: datetime) -> dict[str, datetime | None]:
    """Return the earliest possible time of each run, by its id; None: its age is unknown.

    Args:
        runs: In the order in which they were last recorded.
        now: By the clock of this host.
    """
    times = recorded_times.find_earliest_times([run.at for run in runs], now, [run.inputs for run in runs])
    return dict(zip((run.run_id for run in runs), times, strict=True))


def _adds_windows(run: EvidenceRun, other: EvidenceRun) -> bool:
    newest_window, compared_until = run.newest_window, other.newest_window
    has_newer = newest_window is not None and (compared_until is None or newest_window > compared_until)
    return is_newer_cut(run, other) and has_newer


def list_blocks(runs: tuple[EvidenceRun, ...]) -> tuple[bool, ...]:
    """List for each block of windows whether it diverged, in the order in which they were first compared.

    A block is the set of windows that a comparison of all windows at a newer cut adds. A comparison that adds none, at
    the same or an older cut, or over a range, makes no block: a divergence that it finds counts against the latest
    block. The windows of a run that could not compare belong to the next block.
    """
    blocks: list[bool] = []
    block_run: EvidenceRun | None = None  # the run that added the latest block
    for run in sorted(runs, key=lambda run: run.first_sequence):
        diverged = run.outcome.startswith(_DIVERGED)
        is_comparable = run.covers_all_windows and run.outcome != Verdict.NOT_COMPARABLE
        if is_comparable and (block_run is None or _adds_windows(run, block_run)):
            blocks.append(diverged)
            block_run = run
        elif diverged:
            blocks = [*blocks[:-1], True]
    return tuple(blocks)
