"""When a window takes no more rows: by which watermark it is closed, and a row late for it.

A window without a gap ends before its `end`: it is closed, and a row in it late, once the watermark has passed the end
and the allowed lateness. The end of a session still belongs to it, since the gap is inclusive. A row at time t is late
once the watermark is beyond `t + gap + allowed`. A row exactly at a session's end would still join it, and it is taken
until the watermark is beyond that end, a further gap and the allowed lateness: only then is the session closed.
"""

from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.definition.windows.window_fn import WindowFn


def compute_closing_watermark(window: WindowFn, lateness: Lateness, end: int) -> int:
    """Return the first watermark at which a window that ends at a time is closed, microseconds."""
    return end + window.closes_after + lateness.allowed_micros


def find_closed_end(pipeline: Pipeline, watermark: int | None) -> int | None:
    """Return the last end of a window that is closed at a watermark, microseconds; None: no window is."""
    return None if watermark is None else watermark - compute_closing_watermark(pipeline.window, pipeline.lateness, 0)


def is_closed_sql(pipeline: Pipeline, watermark: int | None) -> str:
    """Return DuckDB's condition over `window_end` that a window is closed at a watermark."""
    closed_end = find_closed_end(pipeline, watermark)
    return "false" if closed_end is None else f"(epoch_us(window_end) <= {closed_end})"


def compute_late_margin(pipeline: Pipeline) -> int:
    """Return how far the watermark must be beyond the end of a row's own window for the row to be late, microseconds.

    A row's own window: of sessions that of the row alone.
    """
    return pipeline.lateness.allowed_micros + pipeline.window.late_after
