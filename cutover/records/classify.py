"""Which windows a record falls into, and the class of each (record, window): the same rules on both paths."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.record_ids import compute_oldest_remembered
from cutover.definition.windows.sliding import SlidingWindows
from cutover.records.classes import Class
from cutover.records.closing import compute_late_margin
from cutover.records.columns import select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PER_RECORD = ("_unknown", "__conflict")  # counts of a record, not of its windows


def classify_records(
    parsed: "DataFrame",
    pipeline: Pipeline,
    *,
    watermark_micros: int | None,
    duplicate: str = "false",
    by_slice: bool = False,
) -> "DataFrame":
    """Give each record its windows and each of these pairs its class.

    Args:
        parsed: What `parse.parsed` returns.
        pipeline: Windows and lateness.
        watermark_micros: The watermark that the previous epoch committed: the rows of this epoch must not judge one
            another. None: nothing is late (the batch path, and a stream before its first event).
        duplicate: Spark SQL over the columns of `parsed`, never null: whether a record that could count has a twin
            that counts instead.
        by_slice: Of sliding windows, a record that counts in all of its windows gets one row instead, of class
            accepted, whose `window_start` and `window_end` are those of its slice (`WindowFn.slice_micros`).

    Returns:
        The columns given, and `_class string` (of `Class`), `window_start timestamp`, `window_end timestamp` (UTC,
        half-open; null where malformed or filtered). One row for each (record, window), one for a record without a
        window. `_unknown` (and `__conflict`, where it is given) is kept in a record's newest window alone, so that its
        sum counts each record once.
    """
    rules = _Rules(pipeline=pipeline, watermark=watermark_micros, duplicate=duplicate)
    length = pipeline.window.slice_micros if by_slice else None
    windows = _with_windows(parsed, rules, length)
    columns = [f"`{name}`" for name in parsed.columns if name not in _PER_RECORD]
    return select(
        windows,
        *columns,
        *(f"IF(__newest, {name}, 0) AS {name}" for name in _PER_RECORD if name in parsed.columns),
        f"{rules.class_sql(by_slice=length is not None)} AS _class",
        "timestamp_micros(__start) AS window_start",
        "timestamp_micros(__end) AS window_end",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What gives a (record, window) its class; the texts are Spark SQL."""

    pipeline: Pipeline
    watermark: int | None  # microseconds
    duplicate: str

    @property
    def uncounted_conditions(self) -> Mapping[Class, str]:
        """Return class to condition, of what does not count whatever the window; the first that holds is the class."""
        return {
            Class.MALFORMED: "_reason IS NOT NULL",
            Class.FILTERED: "_filtered",
            Class.FUTURE: future_sql(self.pipeline, "__event"),
            Class.DUPLICATE: self.duplicate,
        }

    def is_late_sql(self, end: str) -> str:
        """Return whether a record is late for a window that ends at `end`, a bigint."""
        late = "false"
        if self.watermark is not None:
            closed = self.watermark - compute_late_margin(self.pipeline)
            # A bigint would be written into the generated code, and so compiled anew in each epoch; a decimal is not.
            late = f"CAST({end} AS decimal(20,0)) - CAST('{closed}' AS decimal(20,0)) <= 0"
        remembered = compute_oldest_remembered(self.pipeline, self.watermark)
        if remembered is not None:  # whether its twin was counted is forgotten
            late = f"({late} OR CAST(__event AS decimal(20,0)) - CAST('{remembered}' AS decimal(20,0)) < 0)"
        return late

    def counts_everywhere_sql(self, oldest_end: str) -> str:
        """Return the condition that a record counts in all of its windows; the oldest one ends at `oldest_end`."""
        conditions = (*self.uncounted_conditions.values(), self.is_late_sql(oldest_end))
        return f"coalesce(NOT ({' OR '.join(conditions)}), false)"

    def class_sql(self, *, by_slice: bool) -> str:
        """Take the first class that fits, in the order of the classes, as SQL over `_with_windows`."""
        late = f"(NOT __whole AND {self.is_late_sql('__end')})" if by_slice else self.is_late_sql("__end")
        cases = (
            f"WHEN {is_so} THEN '{name}'" for name, is_so in {**self.uncounted_conditions, Class.LATE: late}.items()
        )
        return f"CASE {' '.join(cases)} ELSE '{Class.ACCEPTED}' END"


def _with_windows(parsed: "DataFrame", rules: _Rules, length: int | None) -> "DataFrame":
    """Add `__start`, `__end` (bigint, null without a window), `__newest` and, of slices, `__whole`; a row for each."""
    window = rules.pipeline.window
    timed_rows = select(parsed, "*", "IF(_filtered, NULL, unix_micros(_event_time)) AS __event")
    sql, end = window.starts_sql("__event"), window.end_sql("__start", "__event")
    if sql.span is None:
        started = select(timed_rows, "*", f"{sql.start} AS __start", "true AS __newest")
        return select(started, "*", f"{end} AS __end")
    # Newest first, so that position 0 is the newest; a record without a window keeps its row, with position null.
    starts = f"sequence({sql.start}, {sql.start} - {sql.span}, {-sql.every}L)"
    if length is not None and isinstance(window, SlidingWindows):
        oldest = window.end_sql(f"{sql.start} - {sql.span}", "__event")
        timed_rows = select(timed_rows, "*", f"{rules.counts_everywhere_sql(oldest)} AS __whole")
        starts = f"IF(__whole, array({window.slice_start_sql('__event')}), {starts})"
        end = f"IF(__whole, __start + {length}L, {end})"
    started = select(timed_rows, "*", f"posexplode_outer({starts}) AS (__position, __start)")
    return select(started, "*", "coalesce(__position, 0) = 0 AS __newest", f"{end} AS __end")


def future_sql(pipeline: Pipeline, event: str) -> str:
    """Return whether a record with an event time (bigint SQL) is dated further ahead of its log time than allowed."""
    return f"({event} > unix_micros(_log_time) + {pipeline.lateness.max_ahead_micros}L)"
