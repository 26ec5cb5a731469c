"""Plan of a replay: the ends of its epochs and its number of tasks, a pure function of a seed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from cutover.records.reading.scan import Offsets

MOST_EPOCHS = 6
MOST_TASKS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One way through a log."""

    number: int
    epochs: tuple[Offsets, ...]  # in order; together every offset once
    tasks: int  # that the records of an epoch are dealt out to
    seed: int  # of the dealing


def whole(span: Offsets) -> Replay:
    """Return the replay in one epoch that all others are compared with."""
    return Replay(number=0, epochs=(span,), tasks=1, seed=0)


def draw_batch_replay(span: Offsets, number: int, seed: int) -> Replay:
    """Draw a replay in one epoch, as batch reads, whose records are dealt out to other tasks.

    Args:
        span: As for `draw_replay`.
        number: Of the replay.
        seed: As for `draw_replay`.
    """
    draw = random.Random(f"{seed}/{number}/batch")  # noqa: S311 -- no secret
    return Replay(number=number, epochs=(span,), tasks=draw.randint(2, MOST_TASKS), seed=draw.randint(0, 2**31))


def draw_replay(span: Offsets, number: int, seed: int) -> Replay:
    """Draw a replay of offsets.

    Args:
        span: Partition -> `[from, to)`, none of them empty.
        number: Of the replay, from 1.
        seed: The same seed and number draw the same replay.
    """
    draw = random.Random(f"{seed}/{number}")  # noqa: S311 -- no secret
    count = draw.randint(2, MOST_EPOCHS)
    borders = {p: sorted(draw.randint(start, end) for _ in range(count - 1)) for p, (start, end) in span.items()}
    epochs = (_epoch(span, borders, turn) for turn in range(count))
    return Replay(
        number=number,
        epochs=tuple(epoch for epoch in epochs if epoch),
        tasks=draw.randint(1, MOST_TASKS),
        seed=draw.randint(0, 2**31),
    )


def _epoch(span: Offsets, borders: Mapping[int, list[int]], turn: int) -> Offsets:
    ends = {p: (start, *borders[p], end) for p, (start, end) in span.items()}
    return {p: (at[turn], at[turn + 1]) for p, at in ends.items() if at[turn] < at[turn + 1]}
