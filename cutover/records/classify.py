"""Which windows a record falls into, and the class of each (record, window): the same rules on both paths."""

from typing import TYPE_CHECKING

from cutover.definition.ids import remembered_from
from cutover.definition.pipeline import Pipeline
from cutover.definition.windows import Window
from cutover.records import windowing
from cutover.records.classes import Class
from cutover.records.closing import grace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ONCE = ("_unknown", "__conflict")  # counts of a record, not of its windows


def classified(
    parsed: "DataFrame", pipeline: Pipeline, *, watermark_micros: int | None, duplicate: str = "false"
) -> "DataFrame":
    """Give each record its windows and each of these pairs its class.

    Args:
        parsed: What `parse.parsed` returns.
        pipeline: Windows and lateness.
        watermark_micros: The watermark that the previous epoch committed: the rows of this epoch must not judge one
            another. None: nothing is late (the batch path, and a stream before its first event).
        duplicate: Spark SQL over the columns of `parsed`, never null: whether a record that could count has a twin
            that counts instead.

    Returns:
        The columns given, and `_class string` (of `Class`), `window_start timestamp`, `window_end timestamp` (UTC,
        half-open; null where malformed or filtered). One row for each (record, window), one for a record without a
        window. `_unknown` (and `__conflict`, where it is given) is kept in a record's newest window alone, so that its
        sum counts each record once.
    """
    windows = _with_windows(parsed, pipeline.window)
    columns = [f"`{name}`" for name in parsed.columns if name not in _ONCE]
    return windows.selectExpr(
        *columns,
        *(f"IF(__newest, {name}, 0) AS {name}" for name in _ONCE if name in parsed.columns),
        f"{_class(pipeline, watermark_micros, duplicate)} AS _class",
        "timestamp_micros(__start) AS window_start",
        "timestamp_micros(__end) AS window_end",
    )


def _with_windows(parsed: "DataFrame", window: Window) -> "DataFrame":
    """Add `__start`, `__end` (bigint, null without a window) and `__newest boolean`, a row for each window."""
    known = parsed.selectExpr("*", "IF(_filtered, NULL, unix_micros(_event_time)) AS __event")
    sql, end = windowing.sql_of(window, "__event"), windowing.end_of(window, "__start", "__event")
    if sql.back is None:
        return known.selectExpr("*", f"{sql.start} AS __start", "true AS __newest").selectExpr("*", f"{end} AS __end")
    # Newest first, so that position 0 is the newest; a record without a window keeps its row, with position null.
    starts = f"sequence({sql.start}, {sql.start} - {sql.back}, {-sql.every}L)"
    return known.selectExpr("*", f"posexplode_outer({starts}) AS (__position, __start)").selectExpr(
        "*", "coalesce(__position, 0) = 0 AS __newest", f"{end} AS __end"
    )


def future_sql(pipeline: Pipeline, event: str) -> str:
    """Return whether a record with an event time (bigint SQL) is dated further ahead of its log time than allowed."""
    return f"{event} > unix_micros(_log_time) + {pipeline.lateness.max_ahead_micros}L"


def _class(pipeline: Pipeline, watermark_micros: int | None, duplicate: str) -> str:
    late = "false"
    if watermark_micros is not None:
        closed = watermark_micros - grace(pipeline)
        # A bigint would be written into the generated code, and so compiled anew in each epoch; a decimal is not.
        late = f"CAST(__end AS decimal(20,0)) - CAST('{closed}' AS decimal(20,0)) <= 0"
    remembered = remembered_from(pipeline, watermark_micros)
    if remembered is not None:  # whether its twin was counted is forgotten
        late = f"({late} OR CAST(__event AS decimal(20,0)) - CAST('{remembered}' AS decimal(20,0)) < 0)"
    return f"""CASE
        WHEN _reason IS NOT NULL THEN '{Class.MALFORMED}'
        WHEN _filtered THEN '{Class.FILTERED}'
        WHEN {future_sql(pipeline, "__event")} THEN '{Class.FUTURE}'
        WHEN {duplicate} THEN '{Class.DUPLICATE}'
        WHEN {late} THEN '{Class.LATE}'
        ELSE '{Class.ACCEPTED}'
    END"""
