"""What happens in a simulation, in order: rows come, then their moment ends. The same script for every engine.

What happens at one moment happens in this order, so that every engine has one answer to be compared with:

1. the rows that arrive, in the order given, judged by the watermark as it was before this moment; a trigger that counts
   and one that waits for late rows fire with the row;
2. the watermark moves;
3. whatever is ready fires: at the watermark, at the end of a period or an epoch; by end of the window, start, key.

So a row that arrives exactly at the end of a period or epoch is part of that pane, and one that arrives at the moment
in which the watermark passes its window is on time.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cutover.definition.windows.window_fn import FOREVER
from cutover.panes.model import InputRow, Setting, WatermarkStep
from cutover.panes.watermarks import estimate_watermark, steps


@dataclass(frozen=True, slots=True)
class Comes:
    """A row arrives."""

    row: InputRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """A moment ends: all its rows are in."""

    at: int  # processing time
    watermark: int  # from here on
    epoch_ends: bool


@dataclass(slots=True)
class _Coming:
    rows: deque[InputRow]
    steps: deque[WatermarkStep]
    epochs: deque[int]
    watermark: int = -FOREVER
    seen: list[int] = field(default_factory=list)  # event times

    def next_moment(self, due: int | None) -> int | None:
        coming = [queue[0].processing_time for queue in (self.rows, self.steps) if queue]
        timers = [] if due is None else [due]
        ending = [self.epochs[0]] if self.epochs else []
        return min([*coming, *timers, *ending], default=None)


def arriving(setting: Setting) -> tuple[InputRow, ...]:
    """Return the rows in the order in which they come."""
    return tuple(sorted(setting.rows, key=lambda row: row.processing_time))


def schedule_events(setting: Setting, due: Callable[[], int | None]) -> Iterator[Comes | Ends]:
    """Yield everything that happens, until nothing more can.

    Args:
        setting: Rows, watermark, epochs.
        due: Asked after each thing that happened: when the clock alone can make a window fire next.
    """
    coming = _Coming(deque(arriving(setting)), deque(steps(setting)), deque(sorted(setting.epochs)))
    while (now := coming.next_moment(due())) is not None:
        while coming.rows and coming.rows[0].processing_time == now:
            row = coming.rows.popleft()
            coming.seen.append(row.event_time)
            yield Comes(row)
        yield _end(setting, coming, now)


def _end(setting: Setting, coming: _Coming, now: int) -> Ends:
    while coming.steps and coming.steps[0].processing_time == now:
        coming.watermark = max(coming.watermark, coming.steps.popleft().watermark)
    coming.watermark = max(coming.watermark, estimate_watermark(setting, max(coming.seen, default=None)))
    coming.seen = [max(coming.seen)] if coming.seen else []
    epoch_ends = bool(coming.epochs) and coming.epochs[0] == now
    if epoch_ends:
        coming.epochs.popleft()
    return Ends(at=now, watermark=coming.watermark, epoch_ends=epoch_ends)
