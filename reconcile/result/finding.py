"""Findings of a comparison: its verdict, counts, causes, series and listed differences, as frozen values.

Code that shows a finding computes nothing. `expected` is the trusted side (batch, or LEFT of `cutover diff`) and
`actual` the other one (streaming, or RIGHT); fields named `batch` and `streaming` hold the values of these two sides in
both cases.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutover.reconcile.result.codec import Scalar, encode
from cutover.reconcile.result.overview import CalendarDay, RecordBehind
from cutover.reconcile.result.seal import DimensionVersions, Seal
from cutover.reconcile.result.timeliness import OpenAnswers


class Verdict(StrEnum):
    """What a comparison found."""

    CONSISTENT = "CONSISTENT"  # every compared row is equal
    EXPLAINED = "EXPLAINED"  # every difference has a cause that reproduces it
    ACCEPTED = "ACCEPTED"  # some have none, and rules of people accept each of these, for a time
    DIVERGED = "DIVERGED"  # some difference has none, and nobody has accepted it
    NOT_COMPARABLE = "NOT_COMPARABLE"  # the seal does not hold: no statement about the data


class RuleState(StrEnum):
    """Whether a rule of acceptance accepts anything."""

    IN_FORCE = "in_force"
    EXCEEDED = "exceeded"  # more fits it than it allows
    EXPIRED = "expired"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How many windows were judged."""

    compared: int = 0
    different: int = 0
    open: int = 0  # not closed at the cut, so not judged
    incomplete: int = 0  # not judged: stale in the batch, or part of their records is gone
    # lost, doubled, expired, unread, stale -> windows
    incomplete_because: Mapping[str, int] = field(default_factory=dict)
    first: str | None = None  # start of the first compared window, ISO
    last: str | None = None  # start of the last one
    merges: bool = False  # windows are sessions, which have no fixed bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Offsets that the log lost, as a person accepted it."""

    topic: str
    topic_id: str
    partition: int
    first: int  # offset
    next: int | None  # exclusive; None: nobody knows how far that log went
    windows_from: str | None  # start of the first window touched, ISO; None: no window is
    windows_to: str | None  # exclusive
    stream_version: int  # the version that went on
    epoch: int  # its first epoch after the loss
    kind: str  # gap: the version went on behind it; inside: it reads what is left; anew: opened from what is left
    who: str
    why: str
    at: str  # ISO


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """(window, key) rows."""

    compared: int = 0  # distinct (window, key) on either side
    missing: int = 0  # expected has it, actual has not
    extra: int = 0  # actual has it, expected has not
    changed: int = 0  # both have it, a measure differs


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
    """How much of the difference one cause explains."""

    rows: int = 0  # (window, key) rows with a part of their difference from it
    events: int = 0  # records behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """The policy beside what was found."""

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
    """What one cause adds on the way from the expected total to the actual one."""

    cause: str
    amount: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """One additive measure over all compared windows: batch + sum of the steps == streaming."""

    measure: str
    batch: Scalar
    steps: tuple[WaterfallStep, ...]
    streaming: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPoint:
    """One window (or several in a row): the first additive measure on both sides, and how many rows differ."""

    window_start: str
    streaming: Scalar
    batch: Scalar
    different_rows: int
    state: str = "compared"  # compared, open or incomplete
    windows: int = 1  # how many windows in a row the point stands for


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessBin:
    """Late records by how long after the moment their window stopped accepting they came, in event time."""

    from_minutes: float
    to_minutes: float
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPoint:
    """One epoch of the stream."""

    epoch: int
    watermark: str | None  # ISO, after the epoch
    newest_event: str | None  # ISO, newest event time seen so far in any partition
    lag: float | None  # seconds from the watermark to the newest event time
    records: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstKey:
    """A key and how much it differs over all compared windows."""

    key: Mapping[str, Scalar]
    rows: int  # different (window, key) rows
    measure: str | None = None  # the first additive measure
    difference: Scalar = None  # streaming - batch, summed


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """How far apart the values of one column are, over the rows that both sides have and in which it differs."""

    column: str
    rows: int
    above: int  # rows in which the judged side has more
    mean: float  # judged - trusted side
    p50: float  # of the magnitude
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySegment:
    """A value with more than its share of the rows that differ: where to look, no cause."""

    column: str  # of the key; or `hour of <window>`, `weekday of <window>`
    value: Scalar
    different: int  # rows
    rows: int  # all that have the value
    lift: float  # share of the different rows / share of all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """One record that did not count, by its place in the log."""

    class_: str
    partition: int
    offset: int
    event_time: str | None
    window_start: str | None
    key: Mapping[str, Scalar]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStep:
    """The value of a cell after one more class was merged into the streaming side."""

    cause: str
    before: Scalar
    after: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One cell (window, key, measure) in which the sides differ."""

    window_start: str | None
    key: Mapping[str, Scalar]
    measure: str
    kind: str  # missing, extra or changed: of the row
    streaming: Scalar
    batch: Scalar
    difference: Scalar  # streaming - batch where both are numbers
    cause: str  # late, future, malformed, dimension, `late + future`, ... or unexplained
    steps: tuple[CellStep, ...] = ()
    accepted_by: str | None = None  # name of the rule


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRows:
    """What a rule of acceptance came to in one comparison."""

    rule: str  # its file's name
    state: RuleState
    rows: int  # (window, key) rows that fit it; accepted only where it is in force
    why: str | None = None  # it accepts nothing
    reason: str = ""
    owner: str = ""
    expires: str | None = None  # ISO, exclusive
    digest: str | None = None  # of the whole rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One result of the batch's contract."""

    expectation: str
    severity: str
    success: bool
    observed: str | None = None


class Origin(StrEnum):
    """Where the type of a column without one of its own comes from."""

    STATED = "stated"  # by an option
    OTHER_SIDE = "other side"
    INFERRED = "inferred"  # from the cells of both sides


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """Type that texts of one column were read as."""

    column: str  # as this side has it
    type: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """How a table without types was read: dialect of its files, and types of its columns."""

    side: str  # expected or actual
    dialect: Mapping[str, str] = field(default_factory=dict)  # of CSV: delimiter, quote, header, encoding, null
    columns: tuple[ColumnReading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualWithin:
    """Cells of one column that differ and are equal within a tolerance."""

    column: str
    cells: int
    tolerance: str  # such as `1e-09 of the larger value`
    is_default: bool  # no option asked for it


@dataclass(frozen=True, slots=True, kw_only=True)
class SideNames:
    """What people call the two sides."""

    expected: str = "batch"
    actual: str = "streaming"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Everything that one comparison found at its cut; equal findings have equal bytes.

    It depends on the sides, the log, the definition and the rules of acceptance, and on nothing else: no clock, no run
    id, no version of a table that a rewrite of the same rows would change.
    """

    pipeline: str
    verdict: Verdict
    exit_code: int  # 0 agree or within policy, 1 differ, 2 not comparable
    sentence: str  # the verdict in plain words
    kind: str = "pipeline"  # or `tables`: `cutover diff`
    sides: SideNames = field(default_factory=SideNames)
    seal: Seal = field(default_factory=Seal)
    dimensions: tuple[DimensionVersions, ...] = ()
    from_: str | None = None  # requested range of window starts, ISO; None: all
    to: str | None = None
    windows: Windows = field(default_factory=Windows)
    rows: Rows = field(default_factory=Rows)
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
    loss: str | None = None  # what the losses mean for the windows, in one sentence; None: nothing was lost
    notes: tuple[str, ...] = ()
    runbook: str | None = None  # name of a page in docs/runbooks

    def to_json(self) -> dict[str, Any]:
        """Return the finding's part of the published object (`report.schema.json`)."""
        return rename_fields(encode(self), {"from_": "from", "class_": "class"})

    def to_bytes(self) -> bytes:
        """Encode the finding as canonical JSON; two comparisons found the same if and only if these bytes are equal."""
        return json.dumps(self.to_json(), sort_keys=True).encode()

    @property
    def digest(self) -> str:
        """SHA-256 of the finding's bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


def rename_fields(raw: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Rename fields at the top and inside `samples`; keys and values of data are never touched.

    Args:
        raw: A finding or a report as plain JSON.
        names: Old to new names: fields whose published name is a reserved word of Python.
    """
    renamed = {names.get(name, name): value for name, value in raw.items()}
    samples = [{names.get(key, key): value for key, value in sample.items()} for sample in raw.get("samples", [])]
    return renamed | {"samples": samples}
