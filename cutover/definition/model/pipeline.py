"""A pipeline definition as a frozen value: what is computed, where in event time, when in processing time, and how.

`cutover.definition.checks` validates it when it is loaded.

Its stream may be a job that Cutover did not write: a Structured Streaming query, described by its checkpoint and its
table.

Two records are duplicates if they have the same id and the same event time; the same id at another event time is
another record. The stream remembers ids by event minute and forgets whole minutes as the watermark passes, so that its
state is bounded. A record of a forgotten minute is late: it is unknown whether a duplicate of it was already counted.
Of a followed job, the same holds for Spark's `dropDuplicates`, which forgets single event times.

Source:
    Akidau et al., MillWheel, VLDB 2013, section 5.1.2 (exactly-once by record ids, garbage collected by low watermark).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from cutover.definition.measures.kinds import Measure
from cutover.definition.model.joins import Join, Lookup, SelfJoin
from cutover.definition.model.policy import Policy
from cutover.definition.model.topic import Topic
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.kinds import SlidingWindows, Window
from cutover.errors import DefinitionError
from cutover.timestamps import LONGEST_DAYS, MICROSECONDS, parse_duration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OutputMode = Literal["append", "complete", "update"]

WINDOW_START = "window_start"
"""Name under which `SparkStream.columns` says where a row's window starts."""

WINDOW_END = "window_end"
"""Name under which `SparkStream.columns` says where a row's session ends: rows decide it, so that it is compared."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Delta table of a job; Cutover reads it and never writes it."""

    path: str  # absolute, or a URI


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStream:
    """Structured Streaming query of a team, whose micro-batches `cutover follow` repeats.

    Its table has a row per window and key, or per record, or per pair of records of two topics that it joins.
    """

    table: Delta
    checkpoint: str  # `checkpointLocation` of the query: an absolute path, or a URI
    output_mode: OutputMode
    """As the query has it: `append` writes a window once it is closed; `update` and `complete` write open ones, too."""
    single_watermark: bool = False
    """Whether the job judges a batch by the batch's own watermark, as Spark before 3.4 does, and later versions with
    `spark.sql.streaming.statefulOperator.allowMultiple=false`; its checkpoint does not show it."""
    row_per_record: bool = False
    """Whether the query has no grouping, so that its table has a row per record, or per pair of a join: the measures
    are computed over its rows, which belong to the windows of their event times."""
    latest_by: str | None = None
    """Column of the table that orders the rows of a window and key, if `foreachBatch` appends what it gets in update
    mode: such as the number of the batch. The row with the largest value counts."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Name in the definition -> the table's column, `a.b` in a struct. Names are those of the key, of the measures, and
    `window_start`, without which the table's `window.start` counts; of sessions `window_end`, too, without which its
    `session_window.start` and `session_window.end` count; with `row_per_record` the event time instead, of a pair that
    of its earlier row and the ids of both, and no `Count`, which counts rows. Columns that are left out have the same
    name."""

    def __post_init__(self) -> None:
        if isinstance(self.columns, Mapping):  # the checks reject anything else, and name the field
            object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __hash__(self) -> int:
        """Hash the checkpoint: mappings have no hash."""
        return hash(self.checkpoint)


Delivery = Literal["exactly_once", "at_least_once", "at_most_once"]
RowChange = Literal["added", "removed"]
ClassChange = Literal["malformed", "filtered", "future"]


@dataclass(frozen=True, slots=True)
class SameDefinition:
    """Batch path that computes this definition: same parser, classes and measures, but no lateness."""


@dataclass(frozen=True, slots=True)
class Sql:
    """Batch path that runs the SQL that a team already has.

    The file is a Spark SQL query over the view `events`, which has schema columns, derived columns, and `_class`,
    `_partition`, `_offset`, `_log_time`. It returns `window_start`, the key columns and the measures.
    """

    file: str  # relative to the definition's file
    may_remove_rows: bool = False
    """Whether a run may leave out windows or most rows of the batch table. Otherwise it publishes nothing until a
    person confirms it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """Expectation on the batch result: a Great Expectations type with its arguments, as plain data."""

    type: str  # such as `expect_column_values_to_be_between`
    arguments: Mapping[str, Any]
    severity: Literal["critical", "warning", "info"] = "critical"

    @property
    def text(self) -> str:
        """Return type and arguments in one line, as batch runs record the expectation."""
        return f"{self.type}({', '.join(f'{name}={value!r}' for name, value in sorted(self.arguments.items()))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change note of a definition: all the ways in which its rows may differ. Any other difference is a finding."""

    of: str  # name of the pipeline that this one is to replace
    why: str
    added: tuple[str, ...] = ()  # measures that only the new definition has
    removed: tuple[str, ...] = ()  # measures that only the old definition has
    changed: tuple[str, ...] = ()  # measures of both whose values may differ
    rows: tuple[RowChange, ...] = ()  # (window, key) rows that only the new one, or only the old one, may have
    classes: tuple[ClassChange, ...] = ()  # classes whose number of records may differ
    lateness: bool = False  # other records may be late: windows close at another time
    within: str | None = None  # where rows may differ: Spark SQL over key, `window_start`, `window_end`; None: anywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """Lateness of records in the streaming path, as durations such as `30 minutes`.

    Source: Akidau et al., The Dataflow Model, VLDB 2015, section 2.3 (watermarks); Flink documentation (idleness).
    """

    out_of_orderness: str = "0 seconds"  # distance at which the watermark follows the latest event time
    allowed: str = "0 seconds"  # how long after the watermark passes its end a window still accepts rows
    idle_after: str = "1 minute"  # a partition without unread records for this long no longer holds back the watermark
    max_ahead: str = "1 hour"  # an event time later than its log timestamp by more than this is `future`

    def __post_init__(self) -> None:
        for name in ("out_of_orderness", "allowed", "idle_after", "max_ahead"):
            parse_duration(getattr(self, name), of=f"lateness.{name}")

    @property
    def out_of_orderness_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.out_of_orderness, of="lateness.out_of_orderness")

    @property
    def allowed_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.allowed, of="lateness.allowed")

    @property
    def idle_after_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.idle_after, of="lateness.idle_after")

    @property
    def max_ahead_micros(self) -> int:
        """Largest accepted distance of an event time after its log timestamp, in microseconds."""
        return parse_duration(self.max_ahead, of="lateness.max_ahead")


FOLLOWED_LATENESS = Lateness(max_ahead=f"{LONGEST_DAYS} days")
"""Lateness of a definition with `stream`: watermarks come from the job's checkpoint, and no record is ahead of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Definition that is compiled for three runners: streaming, batch, and a reference in plain Python."""

    name: str
    source: Topic
    key: tuple[str, ...]  # columns of the schema, of `lookups` or of `derive`; a null key is a value
    window: Window
    measures: Mapping[str, Measure]
    where: str | None = None  # Spark SQL condition; rows for which it is not true are `filtered`
    lookups: Mapping[str, Lookup] = field(default_factory=dict)  # columns from dimensions, joined in this order
    derive: Mapping[str, str] = field(default_factory=dict)  # further columns, Spark SQL over schema and lookups
    join: Join | SelfJoin | None = None  # with one, measures aggregate pairs of rows instead of rows
    lateness: Lateness = field(default_factory=Lateness)
    trigger: Trigger | None = None  # when panes of a window are emitted; None: never, and no state is kept for them
    accumulation: Accumulation = Accumulation.ACCUMULATING  # how panes of one window relate
    changelog: str | None = None  # a topic to which panes are also written, one transaction per epoch
    delivery: Delivery = "exactly_once"  # of the stream's results; the others may duplicate or lose a range, and say so
    stream: SparkStream | None = None  # a query of the team that Cutover follows; None: Cutover's own streaming path
    batch: SameDefinition | Sql = field(default_factory=SameDefinition)
    contract: tuple[Expect, ...] = ()
    policy: Policy = field(default_factory=Policy)
    change: Change | None = None  # the pipeline that this one is to replace, and how their rows may differ
    max_rows_per_epoch: int = 50_000  # records; bounds the work of one epoch, and the step at which a replay classifies
    schedule: str = "@hourly"  # cron of the batch recompute
    file: Path | None = field(default=None, compare=False)  # the file that the definition was loaded from

    def __post_init__(self) -> None:
        for name in ("lookups", "derive", "measures"):
            value = getattr(self, name)
            if isinstance(value, Mapping):  # the checks reject anything else, and name the field
                object.__setattr__(self, name, MappingProxyType(dict(value)))
        if self.stream is not None and self.lateness == Lateness():
            object.__setattr__(self, "lateness", FOLLOWED_LATENESS)
        if isinstance(self.join, Join) and isinstance(self.window, SlidingWindows):
            object.__setattr__(self, "window", widen_for_pairs(self.window, self.join))

    @property
    def driver_command(self) -> str:
        """Return the command that makes epochs: of a team's own streaming job it repeats the job's batches."""
        return f"cutover {'stream' if self.stream is None else 'follow'} {self.name}"

    def __hash__(self) -> int:
        """Hash the name: equal definitions have equal names, and mappings, which most fields are, have no hash."""
        return hash(self.name)


def widen_for_pairs(window: SlidingWindows, join: Join) -> SlidingWindows:
    """Return fixed windows that end later by the longest distance between two rows of an interval join.

    The last window that holds both rows of a pair is then that of its earlier row. Other windows are returned as they
    are, and so are those that end later already.
    """
    try:
        bounds = join.bounds
    except (DefinitionError, TypeError, ValueError):  # the checks reject it, and name the field
        return window
    if bounds is None or window.size != window.every:
        return window
    return replace(window, size=window.every + max(map(abs, bounds)))


def list_topics(pipeline: Pipeline) -> list[Topic]:
    """List the topics that a pipeline reads: one, or those of both sides of a join."""
    return [pipeline.source, *([pipeline.join.right] if isinstance(pipeline.join, Join) else [])]


def make_left_side(pipeline: Pipeline) -> Pipeline:
    """Make a pipeline of the left side of a join, without measures, for the parser and the checks."""
    return replace(pipeline, join=None, measures={})


def make_right_side(pipeline: Pipeline) -> Pipeline:
    """Make a pipeline of the right side of a join, without measures; of a self join it reads the rows of both sides."""
    join = pipeline.join
    if not isinstance(join, Join):
        return make_left_side(pipeline)
    key = tuple(join.on.get(name, name) for name in pipeline.key)  # `checks.joins` rejects any other key
    return replace(
        pipeline, source=join.right, where=join.where, lookups={}, derive=join.derive, key=key, join=None, measures={}
    )


Micros = TypeVar("Micros", int, "NDArray[np.int64]")

MINUTE = MICROSECONDS["minute"]


def find_declared_horizon(topic: Topic) -> int | None:
    """Return the horizon that the definition declares, in microseconds; None if it follows from the window."""
    return None if topic.id_horizon is None else parse_duration(topic.id_horizon, of="source.id_horizon")


def compute_id_horizon(pipeline: Pipeline) -> int:
    """Return how far behind the watermark ids are remembered, in microseconds.

    The default is as long as a record of that event time could still be accepted.

    Raises:
        DefinitionError: The window never ends, so there is no default, and the definition declares no horizon.
    """
    declared = find_declared_horizon(pipeline.source)
    if declared is not None:
        return declared
    if pipeline.window.reach is None:
        msg = "source.id_horizon: expected a duration, since a window of all time never closes, got none."
        raise DefinitionError(msg + '\nHint: id_horizon="1 day" remembers ids for a day behind the watermark.')
    return pipeline.window.reach + pipeline.lateness.allowed_micros


def compute_oldest_remembered(pipeline: Pipeline, watermark: int | None) -> int | None:
    """Return the first event time whose ids are remembered at a watermark, in microseconds: a whole minute.

    None if the definition has no ids, or if nothing has been forgotten yet. Any earlier record is late. A followed job
    forgets ids, and drops records, up to its watermark itself, even if their window is open; one that joins two topics
    forgets rows in this way.
    """
    if watermark is None:
        return None
    if pipeline.stream is not None and (pipeline.join is not None or pipeline.source.record_id is not None):
        return watermark + 1
    if pipeline.source.record_id is None:
        return None
    return truncate_to_minute(watermark - compute_id_horizon(pipeline))


def truncate_to_minute(micros: Micros) -> Micros:
    """Return the start of the minute that contains a time, in microseconds; elementwise for an array."""
    return micros - micros % MINUTE
