"""Which windows a record falls into, and the class of each (record, window): the same rules on both paths.

All arithmetic is in whole microseconds since 1970 and floors: a time before 1970 falls into the window that holds it.
"""

from typing import TYPE_CHECKING

from cutover.definition.pipeline import Pipeline
from cutover.definition.windows import Daily, Global, Sessions, Sliding, Window
from cutover.errors import DefinitionError
from cutover.records.classes import Class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""How the one window of all time stands in a table: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999Z."""


def classified(parsed: "DataFrame", pipeline: Pipeline, *, watermark_micros: int | None) -> "DataFrame":
    """Give each record its windows and each of these pairs its class.

    Args:
        parsed: What `parse.parsed` returns.
        pipeline: Windows and lateness.
        watermark_micros: The watermark that the previous epoch committed: the rows of this epoch must not judge one
            another. None: nothing is late (the batch path, and a stream before its first event).

    Returns:
        The columns given, and `_class string` (of `Class`), `window_start timestamp`, `window_end timestamp` (UTC,
        half-open; null where malformed or filtered). One row for each (record, window), one for a record without a
        window. `_unknown` is kept in a record's newest window alone, so that its sum counts each record once.
    """
    starts = _with_starts(parsed, pipeline.window)
    columns = [f"`{name}`" for name in parsed.columns if name != "_unknown"]
    return starts.selectExpr(
        *columns,
        "IF(__newest, _unknown, 0) AS _unknown",
        f"{_class(pipeline, watermark_micros)} AS _class",
        "timestamp_micros(__start) AS window_start",
        "timestamp_micros(__end) AS window_end",
    )


def _with_starts(parsed: "DataFrame", window: Window) -> "DataFrame":
    """Add `__start bigint`, `__end bigint` (null without a window) and `__newest boolean`, a row for each window."""
    known = parsed.selectExpr("*", "IF(_filtered, NULL, unix_micros(_event_time)) AS __event")
    match window:
        case Sliding():
            return _sliding(known, window)
        case Sessions():  # of a row alone: sessions are merged where they are folded
            return _one(known, "__event", f"__event + {window.gap_micros}L")
        case Global():
            return _one(known, f"{FIRST_MICROS}L", f"{LAST_MICROS}L")
        case Daily():
            msg = "Window `Daily`: expected a window that streams, such as Fixed(...), Sessions(...), Global()."
            raise DefinitionError(msg)


def _sliding(known: "DataFrame", window: Sliding) -> "DataFrame":
    into = f"(__event - {window.offset}L)"
    last = f"__event - pmod({into}, {window.every}L)"
    if window.size == window.every:
        return _one(known, last, f"{last} + {window.size}L")
    back = f"(({window.size - 1}L - pmod({into}, {window.every}L)) DIV {window.every}L) * {window.every}L"
    # Newest first, so that position 0 is the newest; a record without a window keeps its row, with position null.
    windows = f"sequence({last}, {last} - {back}, {-window.every}L)"
    return known.selectExpr("*", f"posexplode_outer({windows}) AS (__position, __start)").selectExpr(
        "*", f"__start + {window.size}L AS __end", "coalesce(__position, 0) = 0 AS __newest"
    )


def _one(known: "DataFrame", start: str, end: str) -> "DataFrame":
    """Add the one window of each row that has an event time."""
    there = "__event IS NOT NULL"
    return known.selectExpr(
        "*", f"IF({there}, {start}, NULL) AS __start", f"IF({there}, {end}, NULL) AS __end", "true AS __newest"
    )


def _class(pipeline: Pipeline, watermark_micros: int | None) -> str:
    ahead = f"__event > unix_micros(_log_time) + {pipeline.lateness.max_ahead_micros}L"
    late = "false"
    if watermark_micros is not None:
        last_late = watermark_micros - pipeline.lateness.allowed_micros
        # The gap of a session is inclusive: a row exactly at its end still joins it.
        behind = "<" if isinstance(pipeline.window, Sessions) else "<="
        # A bigint would be written into the generated code, and so compiled anew in each epoch; a decimal is not.
        late = f"CAST(__end AS decimal(20,0)) - CAST('{last_late}' AS decimal(20,0)) {behind} 0"
    return f"""CASE
        WHEN _reason IS NOT NULL THEN '{Class.MALFORMED}'
        WHEN _filtered THEN '{Class.FILTERED}'
        WHEN {ahead} THEN '{Class.FUTURE}'
        WHEN {late} THEN '{Class.LATE}'
        ELSE '{Class.ACCEPTED}'
    END"""
