"""Findings of a comparison: its seal, verdict, counts, causes, series and listed differences, as frozen values.

Code that shows a finding computes nothing. `expected` is the trusted side (batch, or LEFT of `cutover diff`) and
`actual` the other one (streaming, or RIGHT); fields named `batch` and `streaming` hold the values of these two sides in
both cases. The seal has the recorded preconditions: the log, the definitions and the tables that were read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutover.reconcile.result.codec import Scalar, encode_tree
from cutover.reconcile.result.measurements import EpochPoint, LatenessBin, OpenAnswers, WindowPoint
from cutover.reconcile.result.parts import CalendarDay, JobTable, RecordBehind, UsersTables


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLog:
    """Log that both sides read, with the cut."""

    topic: str
    topic_id: str
    cluster_id: str
    cut: Mapping[str, int]  # partition -> next offset, exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprints:
    """Result fingerprints that were in force when each side ran."""

    definition: str | None = None  # of the pipeline as it is defined now
    streaming: tuple[str, ...] = ()  # all that its epochs recorded; one if the seal holds
    batch: str | None = None
    lateness: str | None = None  # lateness fingerprint of the stream version
    batch_definition: str | None = None  # "same", or the hash of the team's SQL


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionVersions:
    """Versions of a dimension with which the records up to the cut were joined."""

    lookup: str
    streaming: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()  # in all of its runs so far
    gone: tuple[int, ...] = ()  # the stream's versions that can no longer be read, which batch replaced by another


AHEAD_OF_CUT = "batch_job_ahead"
"""Code of a batch job that has read further than the batch run that it is compared with; the next run reads it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealBreach:
    """Reason why the two sides cannot be compared."""

    code: str  # log_identity, log_changed, cut, fingerprint, isolation, history, unreadable, folded, uncovered, ...
    message: str  # thing, place, expected, got
    runbook: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Preconditions of a comparison, with those that do not hold."""

    epoch: int | None = None
    logs: tuple[ComparedLog, ...] = ()
    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    stream_version: int | None = None  # n of stream-<n>
    isolation: str | None = None
    watermark: str | None = None  # ISO, at the cut
    epochs: int = 0  # epochs up to the cut
    holds: bool = True
    breaches: tuple[SealBreach, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRead:
    """Delta versions and batch run that a comparison read; rewriting the same rows changes them and no finding."""

    stream: int | None = None
    batch: int | None = None
    batch_ledger: int | None = None
    batch_run: str | None = None  # run id


EXPLAINED_BEYOND_POLICY = "EXPLAINED_BEYOND_POLICY"
ACCEPTED_BEYOND_POLICY = "ACCEPTED_BEYOND_POLICY"
DIMENSION = "dimension"  # cause of differences, and its stage: another version of a dimension was joined


class Verdict(StrEnum):
    """Verdict of a comparison."""

    CONSISTENT = "CONSISTENT"  # every compared row is equal
    EXPLAINED = "EXPLAINED"  # every difference has a cause that reproduces it
    ACCEPTED = "ACCEPTED"  # some have no cause, and each of these is accepted by a rule until it expires
    DIVERGED = "DIVERGED"  # some difference has no cause, and no rule accepts it
    NOT_COMPARABLE = "NOT_COMPARABLE"  # the seal does not hold: no statement about the data


class RuleState(StrEnum):
    """State of an acceptance rule in one comparison."""

    IN_FORCE = "in_force"
    EXCEEDED = "exceeded"  # more rows match it than it allows
    EXPIRED = "expired"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Numbers of windows that were compared or skipped."""

    compared: int = 0
    different: int = 0
    open: int = 0  # not closed at the cut, so not compared
    incomplete: int = 0  # not compared: stale in the batch, or some of their records no longer exist
    # lost, doubled, expired, unread, stale -> windows
    incomplete_because: Mapping[str, int] = field(default_factory=dict)
    first: str | None = None  # start of the first compared window, ISO
    last: str | None = None  # start of the last one
    merges: bool = False  # windows are sessions, which have no fixed bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Range of offsets that the log lost, as accepted by a person."""

    topic: str
    topic_id: str
    partition: int
    first: int  # offset
    next: int | None  # exclusive; None if the end of that log is unknown
    windows_from: str | None  # start of the first affected window, ISO; None if no window is affected
    windows_to: str | None  # exclusive
    stream_version: int  # the version that continued
    epoch: int  # its first epoch after the loss
    kind: str  # gap: the version continued after it; inside: it reads the remaining records; anew: opened from these
    who: str
    why: str
    at: str  # ISO


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Numbers of (window, key) rows."""

    compared: int = 0  # distinct (window, key) on either side
    missing: int = 0  # only on the expected side
    extra: int = 0  # only on the actual side
    changed: int = 0  # on both sides, with a different measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Records up to the cut, by class."""

    accepted: int = 0
    late: int = 0
    future: int = 0
    duplicate: int = 0
    malformed: int = 0
    filtered: int = 0
    unknown_fields: int = 0  # records with a field that the schema does not name


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Number of rows and records that one cause explains."""

    rows: int = 0  # (window, key) rows to whose difference it contributes
    events: int = 0  # records that cause it


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """Limits of the policy, with the values of a comparison."""

    max_late_share: float = 0.0
    max_unexplained: int = 0
    max_dimension_rows: int = 0
    late_share: float = 0.0  # late / (accepted + late), (record, window) pairs of the compared windows
    unexplained: int = 0  # (window, key) rows
    accepted: int = 0  # of these: rows that rules accept
    within: bool = True
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallStep:
    """Amount that one cause adds between the expected total and the actual one."""

    cause: str
    amount: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """Totals of one additive measure over all compared windows: batch + sum of the steps == streaming."""

    measure: str
    batch: Scalar
    steps: tuple[WaterfallStep, ...]
    streaming: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstKey:
    """Key with its differences over all compared windows."""

    key: Mapping[str, Scalar]
    rows: int  # different (window, key) rows
    measure: str | None = None  # the first additive measure
    difference: Scalar = None  # streaming - batch, summed


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Distances between the values of one column, over the rows on both sides in which it differs."""

    column: str
    rows: int
    above: int  # rows in which the actual side has more
    mean: float  # actual - expected side
    p50: float  # of the magnitude
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySegment:
    """Value with more than its share of the rows that differ: a hint for an investigation, not a cause."""

    column: str  # of the key; or `hour of <window>`, `weekday of <window>`
    value: Scalar
    different: int  # rows
    rows: int  # all rows with the value
    lift: float  # share of the different rows / share of all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """Record that did not count, with its position in the log."""

    class_: str
    partition: int
    offset: int
    event_time: str | None
    window_start: str | None
    key: Mapping[str, Scalar]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStep:
    """Values of a cell before and after one more class was merged into the streaming side."""

    cause: str
    before: Scalar
    after: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Cell (window, key, measure) in which the sides differ."""

    window_start: str | None
    key: Mapping[str, Scalar]
    measure: str
    kind: str  # missing, extra or changed: of the row
    streaming: Scalar
    batch: Scalar
    difference: Scalar  # streaming - batch if both are numbers
    cause: str  # late, future, malformed, dimension, `late + future`, ... or unexplained
    steps: tuple[CellStep, ...] = ()
    accepted_by: str | None = None  # name of the rule


Place = tuple[str, str]  # window start (ISO), key (JSON)


def place_of(cell: Difference) -> Place:
    """Return the (window, key) row of a cell."""
    return cell.window_start or "", json.dumps(dict(cell.key), sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRows:
    """Outcome of an acceptance rule in one comparison."""

    rule: str  # its file's name
    state: RuleState
    rows: int  # (window, key) rows that match it; accepted only if it is in force
    why: str | None = None  # reason why it accepts nothing
    reason: str = ""
    owner: str = ""
    expires: str | None = None  # ISO, exclusive
    digest: str | None = None  # of the whole rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Result of one expectation of the batch's contract."""

    expectation: str
    severity: str
    success: bool
    observed: str | None = None


class Origin(StrEnum):
    """Source of the type of an untyped column."""

    STATED = "stated"  # by an option
    OTHER_SIDE = "other side"
    INFERRED = "inferred"  # from the cells of both sides


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """Type as which the texts of one column were read."""

    column: str  # as this side has it
    type: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """Reading of an untyped table: dialect of its files, and types of its columns."""

    side: str  # expected or actual
    dialect: Mapping[str, str] = field(default_factory=dict)  # of CSV: delimiter, quote, header, encoding, null
    columns: tuple[ColumnReading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualWithin:
    """Number of cells of one column that differ but are equal within a tolerance."""

    column: str
    cells: int
    tolerance: str  # such as `1e-09 of the larger value`
    is_default: bool  # not set by an option


@dataclass(frozen=True, slots=True, kw_only=True)
class SideNames:
    """Names of the two sides for people."""

    expected: str = "batch"
    actual: str = "streaming"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Complete result of one comparison at its cut; equal findings have equal bytes.

    It depends only on the sides, the log, the definition and the acceptance rules: not on a clock, a run id, or a table
    version that a rewrite of the same rows would change.
    """

    pipeline: str
    verdict: Verdict
    exit_code: int  # 0 agree or within policy, 1 differ, 2 not comparable
    sentence: str  # the verdict in plain words
    kind: str = "pipeline"  # or `tables`: `cutover diff`
    sides: SideNames = field(default_factory=SideNames)
    seal: Seal = field(default_factory=Seal)
    dimensions: tuple[DimensionVersions, ...] = ()
    from_: str | None = None  # requested range of window starts, ISO; None for all
    to: str | None = None
    windows: Windows = field(default_factory=Windows)
    rows: Rows = field(default_factory=Rows)
    jobs: tuple[JobTable, ...] = ()  # tables of the team's own jobs; none if the seal does not hold
    users_tables: UsersTables | None = None  # of both paths as they are; None: without a batch job of the team
    events: Events = field(default_factory=Events)
    causes: Mapping[str, Cause] = field(default_factory=dict)
    policy: PolicyResult = field(default_factory=PolicyResult)
    waterfall: tuple[Waterfall, ...] = ()
    window_series: tuple[WindowPoint, ...] = ()
    days: tuple[CalendarDay, ...] = ()
    lateness_histogram: tuple[LatenessBin, ...] = ()
    epochs_series: tuple[EpochPoint, ...] = ()
    open_answers: OpenAnswers | None = None  # None: open windows were not examined
    worst_keys: tuple[WorstKey, ...] = ()
    apart: tuple[Apart, ...] = ()
    segments: tuple[KeySegment, ...] = ()
    readings: tuple[TableReading, ...] = ()  # of `cutover diff`: tables without types
    equal_within: tuple[EqualWithin, ...] = ()  # of `cutover diff`
    samples: tuple[SampleRecord, ...] = ()
    behind: tuple[RecordBehind, ...] = ()  # of the rows in `differences`; capped
    differences: tuple[Difference, ...] = ()  # capped
    differences_total: int = 0  # cells
    accepted: tuple[AcceptedRows, ...] = ()  # all rules of the pipeline
    contract: tuple[Expectation, ...] = ()
    losses: tuple[LostRange, ...] = ()
    loss: str | None = None  # effect of the losses on windows, in one sentence; None if nothing was lost
    notes: tuple[str, ...] = ()
    runbook: str | None = None  # name of a page in docs/runbooks

    @property
    def own_stream(self) -> str | None:
        """Return the pipeline whose lateness can be set: its name; None if it follows a job."""
        return self.pipeline if self.streaming_job is None else None

    @property
    def streaming_job(self) -> JobTable | None:
        """Return the table of the streaming job that is followed; None: the streaming path is Cutover's own."""
        return next((job for job in self.jobs if job.side == "streaming"), None)

    def to_json(self) -> dict[str, Any]:
        """Return the finding's part of the published object (`report.schema.json`)."""
        return rename_fields(encode_tree(self), {"from_": "from", "class_": "class"})

    def to_bytes(self) -> bytes:
        """Encode the finding as canonical JSON; two findings are equal if and only if these bytes are."""
        return _to_canonical_bytes(self.to_json())


def compute_finding_digest(encoded_finding: Mapping[str, Any]) -> str:
    """Compute the SHA-256 of the bytes of a finding, from its JSON."""
    return hashlib.sha256(_to_canonical_bytes(encoded_finding)).hexdigest()


def _to_canonical_bytes(encoded_finding: Mapping[str, Any]) -> bytes:
    return json.dumps(encoded_finding, sort_keys=True).encode()


def rename_fields(raw: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Rename fields at the top level and inside `samples`, but never keys and values of data.

    Args:
        raw: A finding or a report as plain JSON.
        names: Old to new names, of fields whose published name is a reserved word in Python.
    """
    renamed = {names.get(name, name): value for name, value in raw.items()}
    samples = [{names.get(key, key): value for key, value in sample.items()} for sample in raw.get("samples", [])]
    return renamed | {"samples": samples}
