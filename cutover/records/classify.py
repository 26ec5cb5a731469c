"""Window assignment and the class of each (record, window) pair, by the same rules on both paths.

Of records with the same id and event time (twins) one counts, the others are duplicates.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Pipeline, compute_oldest_remembered
from cutover.definition.windows.kinds import SlidingWindows
from cutover.records.classes import Class
from cutover.records.columns import select_expressions
from cutover.records.watermark import compute_late_margin

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_PER_RECORD = ("_unknown", "__conflict")  # counts per record, not per (record, window) pair


def classify_records(
    parsed: "DataFrame",
    pipeline: Pipeline,
    *,
    watermark_micros: int | None,
    duplicate: str = "false",
    by_slice: bool = False,
) -> "DataFrame":
    """Assign each record to its windows and each (record, window) pair to its class.

    Args:
        parsed: Records as `parser.parse_records` returns them.
        pipeline: Windows and lateness.
        watermark_micros: The watermark that the previous epoch committed, so that rows of this epoch do not affect one
            another's lateness. None: nothing is late (the batch path, and a stream before its first event).
        duplicate: Boolean Spark SQL over the columns of `parsed`, never null: true for a record whose twin is counted
            instead of it.
        by_slice: For sliding windows, emit one row for a record that counts in all of its windows, of class accepted,
            whose `window_start` and `window_end` are those of its slice (`WindowFn.slice_micros`).

    Returns:
        The columns of `parsed`, and `_class string` (of `Class`), `window_start timestamp`, `window_end timestamp`
        (UTC, half-open; null if malformed or filtered). One row per (record, window) pair, and one per record without a
        window. `_unknown` (and `__conflict`, if present) is nonzero only in a record's newest window, so that its sum
        counts each record once.
    """
    rules = _Rules(pipeline=pipeline, watermark=watermark_micros, duplicate=duplicate)
    slice_micros = pipeline.window.slice_micros if by_slice else None
    exploded = _explode_windows(parsed, rules, slice_micros)
    columns = [f"`{name}`" for name in parsed.columns if name not in _PER_RECORD]
    return select_expressions(
        exploded,
        *columns,
        *(f"IF(__newest, {name}, 0) AS {name}" for name in _PER_RECORD if name in parsed.columns),
        f"{rules.class_sql(by_slice=slice_micros is not None)} AS _class",
        "timestamp_micros(__start) AS window_start",
        "timestamp_micros(__end) AS window_end",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """Rules that determine the class of a (record, window) pair; strings are Spark SQL."""

    pipeline: Pipeline
    watermark: int | None  # microseconds
    duplicate: str

    @property
    def uncounted_conditions(self) -> Mapping[Class, str]:
        """Conditions by class for records that count in no window; the first condition that holds is the class."""
        return {
            Class.MALFORMED: "_reason IS NOT NULL",
            Class.FILTERED: "_filtered",
            Class.FUTURE: future_sql(self.pipeline, "__event"),
            Class.DUPLICATE: self.duplicate,
        }

    def is_late_sql(self, end: str) -> str:
        """Return the condition that a record is late for a window that ends at `end`, a bigint expression."""
        is_late = "false"
        if self.watermark is not None:
            latest_late_end = self.watermark - compute_late_margin(self.pipeline)
            # Spark embeds a bigint literal in the generated code and would recompile it in each epoch, but not a
            # decimal.
            is_late = f"CAST({end} AS decimal(20,0)) - CAST('{latest_late_end}' AS decimal(20,0)) <= 0"
        oldest_remembered = compute_oldest_remembered(self.pipeline, self.watermark)
        if oldest_remembered is not None:  # ids of older records have expired, so a twin could not be detected
            has_expired_id = f"CAST(__event AS decimal(20,0)) - CAST('{oldest_remembered}' AS decimal(20,0)) < 0"
            is_late = f"({is_late} OR {has_expired_id})"
        return is_late

    def counts_everywhere_sql(self, oldest_end: str) -> str:
        """Return the condition that a record counts in all of its windows; the oldest one ends at `oldest_end`."""
        conditions = (*self.uncounted_conditions.values(), self.is_late_sql(oldest_end))
        return f"coalesce(NOT ({' OR '.join(conditions)}), false)"

    def class_sql(self, *, by_slice: bool) -> str:
        """Return the class as a CASE expression over the rows of `_explode_windows`, in the order of the classes."""
        late = self.is_late_sql("__end")
        conditions = {
            **self.uncounted_conditions,
            Class.LATE: f"(NOT __counts_everywhere AND {late})" if by_slice else late,
        }
        cases = (f"WHEN {condition} THEN '{name}'" for name, condition in conditions.items())
        return f"CASE {' '.join(cases)} ELSE '{Class.ACCEPTED}' END"


def _explode_windows(parsed: "DataFrame", rules: _Rules, slice_micros: int | None) -> "DataFrame":
    """Emit one row per (record, window) pair.

    Adds `__start` and `__end` (bigint; null without a window), `__newest` (true in one row per record) and, if there
    are slices, `__counts_everywhere`.
    """
    window = rules.pipeline.window
    timed_rows = select_expressions(parsed, "*", "IF(_filtered, NULL, unix_micros(_event_time)) AS __event")
    sql, end = window.starts_sql("__event"), window.end_sql("__start", "__event")
    if sql.span is None:
        started = select_expressions(timed_rows, "*", f"{sql.start} AS __start", "true AS __newest")
        return select_expressions(started, "*", f"{end} AS __end")
    # Newest window first, so that it has position 0; a record without a window keeps one row, whose position is null.
    starts = f"sequence({sql.start}, {sql.start} - {sql.span}, {-sql.every}L)"
    if slice_micros is not None and isinstance(window, SlidingWindows):
        oldest_end = window.end_sql(f"{sql.start} - {sql.span}", "__event")
        timed_rows = select_expressions(
            timed_rows, "*", f"{rules.counts_everywhere_sql(oldest_end)} AS __counts_everywhere"
        )
        starts = f"IF(__counts_everywhere, array({window.slice_start_sql('__event')}), {starts})"
        end = f"IF(__counts_everywhere, __start + {slice_micros}L, {end})"
    started = select_expressions(timed_rows, "*", f"posexplode_outer({starts}) AS (__position, __start)")
    return select_expressions(started, "*", "coalesce(__position, 0) = 0 AS __newest", f"{end} AS __end")


def future_sql(pipeline: Pipeline, event: str) -> str:
    """Return the condition that an event time (bigint SQL) exceeds its record's log timestamp by more than allowed."""
    return f"({event} > unix_micros(_log_time) + {pipeline.lateness.max_ahead_micros}L)"


MOST_LISTED = 1_000
"""Maximum number of positions in an IN list; more of them are joined instead."""

_MIN_IN_LIST = 11  # entries: one more than `spark.sql.optimizer.inSetConversionThreshold`

IS_TWIN = "__twin"
CONFLICT = "__conflict"


def can_count_sql(pipeline: Pipeline) -> str:
    """Return the condition over the parser's columns that a record can count; only such records' ids are tracked."""
    is_future = future_sql(pipeline, "unix_micros(_event_time)")
    return f"(_reason IS NULL AND NOT _filtered AND NOT coalesce({is_future}, false))"


def select_candidates(parsed: "DataFrame", pipeline: Pipeline, watermark: int | None) -> "DataFrame":
    """Return the records of an epoch whose ids are looked up: those that can count and whose ids have not expired.

    Args:
        parsed: Records as `parser.parse_records` returns them.
        pipeline: A pipeline with a record id.
        watermark: The watermark by which the epoch is classified, in microseconds.

    Returns:
        `id` (of the id column's type), `event_time bigint` (microseconds), `partition int`, `offset bigint`.
    """
    is_candidate, oldest_remembered = can_count_sql(pipeline), compute_oldest_remembered(pipeline, watermark)
    if oldest_remembered is not None:  # as a decimal: Spark would recompile the code for each bigint literal
        event = "CAST(unix_micros(_event_time) AS decimal(20,0))"
        is_candidate += f" AND {event} - CAST('{oldest_remembered}' AS decimal(20,0)) >= 0"
    return parsed.where(is_candidate).selectExpr(
        f"`{pipeline.source.record_id}` AS id",
        "unix_micros(_event_time) AS event_time",
        "_partition AS partition",
        "_offset AS offset",
    )


def match_positions_sql(positions: Iterable[tuple[int, int]]) -> str:
    """Return the condition, over the parser's columns, that a record is at one of some (partition, offset) positions.

    Short lists are padded to more than ten entries: Spark then passes the list to the generated code as a set, so the
    code does not depend on the positions and is compiled only once.
    """
    literals = [f"'{partition}:{offset}'" for partition, offset in positions]
    if not literals:
        return "false"
    padding = (f"':{number}'" for number in range(_MIN_IN_LIST - len(literals)))
    return f"concat(_partition, ':', _offset) IN ({', '.join([*literals, *padding])})"


def flag_records(parsed: "DataFrame", positions: "pa.Table") -> tuple["DataFrame", str]:
    """Return the records, possibly with a helper column, and the Spark SQL condition that is true at some positions.

    Args:
        parsed: Records as `parser.parse_records` returns them.
        positions: `partition int`, `offset bigint`.
    """
    if positions.num_rows <= MOST_LISTED:
        columns = (positions[name].to_pylist() for name in ("partition", "offset"))
        return parsed, match_positions_sql(zip(*columns, strict=True))
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's name for it

    position_columns = positions.select(["partition", "offset"]).rename_columns(["__partition", "__offset"])
    flagged_positions = parsed.sparkSession.createDataFrame(position_columns).withColumn(IS_TWIN, F.lit(True))  # noqa: FBT003 -- a literal
    is_same_position = F.expr("_partition = __partition AND _offset = __offset")
    joined = parsed.join(F.broadcast(flagged_positions), is_same_position, "left").drop("__partition", "__offset")
    return joined, f"coalesce({IS_TWIN}, false)"


def mark_duplicates(parsed: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    """Mark each record whose twin at a lower log position (partition, then offset) counts instead of it.

    Args:
        parsed: Records as `parser.parse_records` returns them; twins are detected among all of them.
        pipeline: A pipeline with a record id.

    Returns:
        The columns of `parsed`, `__twin boolean` and `__conflict int` (1 if the record counts and so does one with the
        same id and an earlier event time); never null.
    """
    # A record that cannot count is its own partition: a shared null would send all of them to one task.
    partition_by = f"IF({can_count_sql(pipeline)}, NULL, struct(_partition, _offset)), `{pipeline.source.record_id}`"
    over = f"OVER (PARTITION BY {partition_by} ORDER BY _event_time, _partition, _offset)"
    with_predecessors = parsed.selectExpr("*", f"lag(_event_time) {over} AS __previous")
    columns = [f"`{name}`" for name in parsed.columns]
    return with_predecessors.selectExpr(
        *columns,
        f"coalesce(__previous = _event_time, false) AS {IS_TWIN}",
        f"IF(coalesce(__previous < _event_time, false), 1, 0) AS {CONFLICT}",
    )
