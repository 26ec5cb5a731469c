"""Figures 5 to 14 of The Dataflow Model (Akidau et al., VLDB 2015, section 2.4): inputs and panes, as drawn.

Times of panes are exact to three seconds. Of figures 6 and 10 only their order means something; of figure 11 they are
the ends of the micro-batches, and the kind means nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.scenarios.model import Scenario
from cutover.scenarios.parse import parse

_POINTS = """
12:00:26 12:05:19 5
12:02:26 12:05:39 7
12:03:39 12:06:13 3
12:03:53 12:06:26 4
12:04:19 12:06:39 3
12:03:06 12:07:06 8
12:06:39 12:07:19 3
12:01:26 12:08:19 9
12:07:26 12:08:39 8
12:07:46 12:09:00 1
"""  # event time, processing time, value

_WATERMARK = """
12:05:00 12:00:06
12:05:40 12:00:26
12:05:50 12:01:26
12:05:58 12:02:00
12:06:00 12:02:26
12:07:28 12:03:30
12:07:29 12:04:00
12:07:37 12:05:19
12:07:40 12:06:39
12:09:00 12:07:26
12:09:20 12:08:00
12:10:00 +inf
"""  # processing time, watermark

_ONCE = "default: once, when all input is in (watermark -inf until then, then +inf)"
_MINUTES = "Repeat(AtPeriod(1 MINUTE)), aligned to processing-time minutes"
_BATCHES = (
    "default = Repeat(AtWatermark()), one-minute micro-batches; output for every window that changed in the batch"
)
_PARTIAL = "SequenceOf(RepeatUntil(AtPeriod(1 MINUTE), AtWatermark()), Repeat(AtWatermark()))"
_TWO_MINUTES = "FixedWindows.of(2 MINUTES)"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: how it is asked for, and each pane as `window start, window end, drawn at, value, kind`."""

    window: str
    trigger: str
    accumulation: str
    engine: str
    drawn: str

    @property
    def panes(self) -> list[tuple[str, str, str, int, str]]:
        rows = [line.split() for line in self.drawn.strip().splitlines()]
        return [(start, end, at, int(value), kind) for start, end, at, value, kind in rows]


FIGURES: Mapping[int, Figure] = {
    6: Figure("GlobalWindow", _ONCE, "n/a (single pane)", "batch", "-inf +inf 12:09:22 51 on_time"),
    7: Figure(
        "GlobalWindow",
        _MINUTES,
        "accumulating",
        "streaming",
        """
        -inf +inf 12:06:00 12 early
        -inf +inf 12:07:00 22 early
        -inf +inf 12:08:00 33 early
        -inf +inf 12:09:00 51 early
        """,
    ),
    8: Figure(
        "GlobalWindow",
        _MINUTES,
        "discarding",
        "streaming",
        """
        -inf +inf 12:06:00 12 early
        -inf +inf 12:07:00 10 early
        -inf +inf 12:08:00 11 early
        -inf +inf 12:09:00 18 early
        """,
    ),
    9: Figure(
        "GlobalWindow",
        "Repeat(AtCount(2))",
        "discarding",
        "streaming",
        """
        -inf +inf 12:05:39 12 early
        -inf +inf 12:06:26 7 early
        -inf +inf 12:07:06 11 early
        -inf +inf 12:08:19 12 early
        -inf +inf 12:09:00 9 early
        """,
    ),
    10: Figure(
        _TWO_MINUTES,
        "default = Repeat(AtWatermark())",
        "accumulating",
        "batch (bounded input, simulated watermark after all data are in)",
        """
        12:00:00 12:02:00 12:09:16 14 on_time
        12:02:00 12:04:00 12:09:18 22 on_time
        12:04:00 12:06:00 12:09:20 3 on_time
        12:06:00 12:08:00 12:09:22 12 on_time
        """,
    ),
    11: Figure(
        _TWO_MINUTES,
        _BATCHES,
        "accumulating",
        "micro-batch (boundaries 12:06, 12:07, 12:08, 12:09)",
        """
        12:00:00 12:02:00 12:06:00 5 early
        12:02:00 12:04:00 12:06:00 7 early
        12:02:00 12:04:00 12:07:00 14 early
        12:04:00 12:06:00 12:07:00 3 early
        12:02:00 12:04:00 12:08:00 22 early
        12:06:00 12:08:00 12:08:00 3 early
        12:00:00 12:02:00 12:09:00 14 early
        12:06:00 12:08:00 12:09:00 12 early
        """,
    ),
    12: Figure(
        _TWO_MINUTES,
        "Repeat(AtWatermark())",
        "accumulating",
        "streaming",
        """
        12:00:00 12:02:00 12:05:58 5 on_time
        12:02:00 12:04:00 12:07:30 22 on_time
        12:04:00 12:06:00 12:07:40 3 on_time
        12:00:00 12:02:00 12:08:19 14 late
        12:06:00 12:08:00 12:09:21 12 on_time
        """,
    ),
    13: Figure(
        _TWO_MINUTES,
        _PARTIAL,
        "accumulating",
        "streaming",
        """
        12:00:00 12:02:00 12:06:00 5 on_time
        12:02:00 12:04:00 12:06:00 7 early
        12:02:00 12:04:00 12:07:00 14 early
        12:04:00 12:06:00 12:07:00 3 early
        12:02:00 12:04:00 12:07:30 22 on_time
        12:06:00 12:08:00 12:08:00 3 early
        12:00:00 12:02:00 12:08:19 14 late
        12:06:00 12:08:00 12:09:00 12 early
        """,
    ),
    # The first pane is drawn at 12:06:00 and called early; by the watermark it is on time, at 12:05:49. Both are right.
    14: Figure(
        "Sessions.withGapDuration(1 MINUTE)",
        _PARTIAL,
        "accumulatingAndRetracting",
        "streaming",
        """
        12:00:26 12:01:26 12:05:49 5 on_time
        12:02:26 12:03:26 12:06:00 7 early
        12:03:39 12:05:19 12:07:00 10 early
        12:02:26 12:03:26 12:07:37 -7 retraction
        12:03:39 12:05:19 12:07:37 -10 retraction
        12:02:26 12:05:19 12:07:37 25 on_time
        12:06:39 12:07:39 12:08:00 3 early
        12:00:26 12:01:26 12:08:19 -5 retraction
        12:02:26 12:05:19 12:08:19 -25 retraction
        12:00:26 12:05:19 12:08:19 39 late
        12:06:39 12:07:39 12:09:00 -3 retraction
        12:06:39 12:08:46 12:09:00 12 early
        """,
    ),
}


def given(number: int) -> dict[str, object]:
    """Return a figure as a scenario file has it."""
    figure = FIGURES[number]
    points = [line.split() for line in _POINTS.strip().splitlines()]
    steps = [line.split() for line in _WATERMARK.strip().splitlines()]
    return {
        "figure": number,
        "window": figure.window,
        "trigger": figure.trigger,
        "accumulation": figure.accumulation,
        "engine": figure.engine,
        "points": [
            {"event_time": event, "processing_time": arrived, "value": int(value)} for event, arrived, value in points
        ],
        "watermark_steps": [{"processing_time": at, "watermark": reached} for at, reached in steps],
    }


def scenario(number: int) -> Scenario:
    """Return a figure, parsed."""
    return parse(given(number), default_title=f"figure {number}")
