"""Input and output of the gate as frozen values: runs, losses, hazards, the present state, conditions, decisions."""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from cutover.definition.loading.acceptance_files import AcceptanceRules
from cutover.definition.model.pipeline import HazardKind
from cutover.lake.control.stages import Stage
from cutover.reconcile.selftest.outcome import SelfTest

Move = Literal["advance", "rollback"]
Sense = Literal["at least", "at most"]
AT_LEAST: Sense = "at least"
AT_MOST: Sense = "at most"
NOT_LOOKED = "nobody has looked"
"""Audit refusal before SHADOW: whether windows can be sampled is evaluated only one stage before KAPPA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRun:
    """Recorded comparison, reduced to what the gate needs."""

    run_id: str
    at: datetime  # when it was made last, by the clock of its host
    epoch: int  # of its cut; where none was read, of the newest that was known then; -1: none was
    outcome: str  # verdict, or EXPLAINED_BEYOND_POLICY
    within: bool  # sealed, within policy, nothing unexplained beyond it
    windows: int = 1  # compared
    newest_window: int | None = None  # start of the newest of them, microseconds; None: not known
    whole: bool = True  # of all closed windows; one of a range that was asked for is no evidence, but may speak against
    end: int | None = None  # sum of the cut's offsets; None: not known
    rows_by_cause: tuple[tuple[str, int], ...] = ()  # cause -> (window, key) rows
    watermark: int | None = None  # of the stream at the cut, microseconds
    begun: int = -1  # sequence of its first row in the history; -1: it is not from there
    sequence: int = -1  # of its newest row
    accepted_by: tuple[tuple[str, str], ...] = ()  # rules that its verdict needs: name, digest
    exceeded: tuple[tuple[str, str], ...] = ()  # rules that more rows fit than they allow: name, why
    inputs: tuple[datetime, ...] = ()  # when the epoch of its cut was committed, and when the batch run ended


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWindows:
    """Windows that can no longer be verified because the log lost records; only later runs are eligible."""

    epoch: int  # the first behind the loss; 0: the loss is of an earlier version of the stream
    until: int  # watermark at which the last of these windows is closed, microseconds
    text: str  # which, by whom

    def touches(self, run: EvidenceRun) -> bool:
        """Return whether a run covers these windows: its cut is before the loss, or some of them were still open."""
        return run.epoch < self.epoch or run.watermark is None or run.watermark < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayability:
    """Retention of the log and duration of a full replay."""

    retention: timedelta | None  # how long the topic keeps a record; zero: compacted; None: for ever
    needed: timedelta | None  # measured: reading the whole log again; None: nothing was measured
    is_bounded: bool = False  # by size: it lets go of records of any age
    held_since: datetime | None = None  # since when it has held all that it still has; None: nothing of it was read


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHazard:
    """Latest recorded occurrence of a hazard."""

    kind: HazardKind
    epoch: int  # a comparison at this cut or a newer one covers it
    at: datetime | None  # earliest time at which it can have happened; None: no clock tells
    text: str  # what was recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractCheck:
    """Results of the contract for the latest published batch run."""

    run_id: str
    judged: int  # expectations of the contract in force that the run evaluated
    failed: tuple[str, ...]  # critical ones that did not hold
    dropped: int = 0  # expectations that the run evaluated and that the contract no longer has


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentState:
    """State at the moment of a move: a new comparison at the latest cut, the checks, the pages that fire."""

    run: EvidenceRun  # the comparison
    reason: str  # its sentence
    violations: tuple[str, ...] = ()  # of `verify`, with those that were recorded and still stand
    unjudged: str | None = None  # why no check could be judged
    pages: tuple[str, ...] = ()  # alerts that wake someone, each with its page


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEvidence:
    """Evidence for or against a move."""

    runs: tuple[
        EvidenceRun, ...
    ] = ()  # of the version and definition in force, since the last move, as they were recorded
    replay: Replayability | None = None  # None: the log did not answer
    losses: tuple[LostWindows, ...] = ()  # accepted, of the version in force and of those before it
    present: PresentState | None = None  # None: not examined, since other conditions are not met
    foreign: tuple[
        str, ...
    ] = ()  # changes by others to the tables that the runs compared; a witness that is unreadable
    rules: AcceptanceRules = field(default_factory=AcceptanceRules)  # of acceptance, as their files are now
    self_test: SelfTest | None = None  # the newest under the definition in force
    earlier_self_tests: tuple[datetime, ...] = ()  # when those before it were made
    hazards: tuple[SeenHazard, ...] = ()  # the newest of each kind, of the version in force
    settings_since: int = -1  # epoch from which on the stream ran with the settings that it runs with now
    contract: ContractCheck | None = None  # of the newest batch run; None: none was published
    expectations: int = 0  # that the contract of the definition has
    audit_refusal: str | None = NOT_LOOKED  # why a sample in KAPPA finds less than asked; None: it finds it
    result_fingerprint: str | None = None
    stream_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Requirement of a move: its number, its threshold, and what would satisfy it."""

    name: str
    met: bool
    found: str  # expected and got, in words
    number: float | None = None  # None: not known, or without an end
    threshold: float | None = None  # None: the policy sets none
    sense: Sense = AT_MOST  # how the number has to stand to the threshold
    unit: str = ""  # of both
    to_pass: str = ""  # what would make it pass; empty where it is met


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """Decision of the gate on a move."""

    move: Move
    stage: Stage
    target: Stage | None  # None: there is nothing beyond
    conditions: tuple[Condition, ...] = ()
    counted: tuple[EvidenceRun, ...] = field(default=())  # the consecutive runs that count, oldest first
    expires: datetime | None = None  # when the oldest of them no longer counts; None: none counts
    behind: tuple[str, ...] = ()  # names whose serving table could not be published after the move

    @property
    def allowed(self) -> bool:
        """Return whether the move may be made."""
        return self.target is not None and all(condition.met for condition in self.conditions)

    def name_pipeline(self, pipeline: str) -> "GateDecision":
        """Replace the placeholder `P` in the commands of all conditions by the pipeline's name."""
        conditions = (
            replace(one, found=_name(one.found, pipeline), to_pass=_name(one.to_pass, pipeline))
            for one in self.conditions
        )
        return replace(self, conditions=tuple(conditions))

    @property
    def missing(self) -> tuple[str, ...]:
        """Describe the conditions that are not met."""
        return tuple(f"{c.name}: {c.found}" for c in self.conditions if not c.met)


def _name(text: str, pipeline: str) -> str:
    return re.sub(r"(`cutover [^`]*?)\bP\b", rf"\1{pipeline}", text)
