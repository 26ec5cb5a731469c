"""The watermark of a simulation: where it is as rows arrive, and when it moves.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; Begoli et al., Watermarks in Stream Processing Systems,
    VLDB 2021.
"""

from collections.abc import Sequence

from cutover.definition.windows.window_fn import FOREVER
from cutover.panes.model import Estimator, Ideal, InputRow, Setting, Watermark, WatermarkStep


def steps(setting: Setting) -> tuple[WatermarkStep, ...]:
    """Return the moments at which the watermark moves by itself, ascending.

    The ideal watermark moves all the time; it is asked for where that matters: as it passes the end of a window, and as
    the allowed lateness behind it is over.
    """
    if isinstance(setting.watermark, Estimator):
        return ()
    if not isinstance(setting.watermark, Ideal):
        return setting.watermark
    moments: set[int] = set()
    for row in setting.rows:
        for window in setting.window.assign_windows(row.event_time):
            moments.add(window.end)
            if setting.allowed_lateness is not None:
                # One further: of sessions only the moment after it is too late.
                over = window.end + setting.allowed_lateness
                moments.update((over, over + 1))
    return tuple(
        WatermarkStep(processing_time=moment, watermark=moment) for moment in sorted(moments) if moment < FOREVER
    )


def all_in(rows: Sequence[InputRow], watermark: Watermark) -> int:
    """Return when all input is in: as the last row arrives, or later, as the watermark says so by its last step."""
    last = max((row.processing_time for row in rows), default=0)
    says = [step for step in watermark if step.watermark == FOREVER] if isinstance(watermark, tuple) else []
    return max(last, says[0].processing_time) if says else last


def estimate_watermark(setting: Setting, newest_event: int | None) -> int:
    """Return where rows move the watermark to; `-FOREVER` if it does not follow them, or there was none."""
    if not isinstance(setting.watermark, Estimator) or newest_event is None:
        return -FOREVER
    return newest_event - setting.watermark.out_of_orderness
