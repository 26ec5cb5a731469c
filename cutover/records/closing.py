"""Watermark at which a window closes, and at which a row is late for its window.

The `end` of a window without a gap is exclusive: the window is closed, and its rows are late, once the watermark has
reached `end + allowed`. The end of a session is inclusive, since the gap is. A row at time t is late once the watermark
has passed `t + gap + allowed`. A row exactly at the end of a session still extends it, and that row is accepted until
the watermark has passed `end + gap + allowed`: only then is the session closed.
"""

from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.definition.windows.window_fn import WindowFn


def compute_closing_watermark(window: WindowFn, lateness: Lateness, end: int) -> int:
    """Add the delay of the window kind and the allowed lateness to the end of a window, in microseconds."""
    return end + window.closes_after + lateness.allowed_micros


def find_closed_end(pipeline: Pipeline, watermark: int | None) -> int | None:
    """Return the latest window end that is closed at a watermark, in microseconds; None before the first watermark."""
    return None if watermark is None else watermark - compute_closing_watermark(pipeline.window, pipeline.lateness, 0)


def is_closed_sql(pipeline: Pipeline, watermark: int | None) -> str:
    """Return the DuckDB condition over `window_end` that a window is closed at a watermark."""
    closed_end = find_closed_end(pipeline, watermark)
    return "false" if closed_end is None else f"(epoch_us(window_end) <= {closed_end})"


def compute_late_margin(pipeline: Pipeline) -> int:
    """Return how far past the end of a row's window the watermark is when the row becomes late, in microseconds.

    For sessions this is the window of the single row, before it is merged.
    """
    return pipeline.lateness.allowed_micros + pipeline.window.late_after
