"""Watermark of a simulation: its value as rows arrive, and the times at which it advances.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; Begoli et al., Watermarks in Stream Processing Systems,
    VLDB 2021.
"""

from collections.abc import Sequence

from cutover.definition.windows.window_fn import FOREVER
from cutover.panes.model import Estimator, Ideal, InputRow, Setting, Watermark, WatermarkStep


def steps(setting: Setting) -> tuple[WatermarkStep, ...]:
    """Return the steps at which the watermark advances independently of rows, ascending.

    The ideal watermark advances continuously; it is sampled where that matters: as it passes the end of a window, and
    as the allowed lateness after it expires.
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
                # Sessions still accept rows at the limit itself, so the next moment matters too.
                limit = window.end + setting.allowed_lateness
                moments.update((limit, limit + 1))
    return tuple(
        WatermarkStep(processing_time=moment, watermark=moment) for moment in sorted(moments) if moment < FOREVER
    )


def find_end_of_input(rows: Sequence[InputRow], watermark: Watermark) -> int:
    """Return the time at which input is complete: that of the last row or, if later, of the final step."""
    last_arrival = max((row.processing_time for row in rows), default=0)
    final_steps = [step for step in watermark if step.watermark == FOREVER] if isinstance(watermark, tuple) else []
    return max(last_arrival, final_steps[0].processing_time) if final_steps else last_arrival


def estimate_watermark(setting: Setting, newest_event: int | None) -> int:
    """Return the watermark implied by rows; `-FOREVER` if it does not follow rows, or no row has arrived."""
    if not isinstance(setting.watermark, Estimator) or newest_event is None:
        return -FOREVER
    return newest_event - setting.watermark.out_of_orderness
