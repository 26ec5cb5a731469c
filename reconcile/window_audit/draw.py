"""Which windows an audit looks at: drawn by a seed, by nothing else. Pure."""

import hashlib
from collections.abc import Iterable, Iterator

from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, newest, oldest


def list_windows(window: AlignedWindowFn, first: int, end: int) -> Iterator[Interval]:
    """Yield the windows that end after `first` and at `end` at the latest, ascending; those without records too."""
    one = oldest(window, first)
    while one.end <= end:
        if one.end > first:
            yield one
        one = newest(window, window.following(one.start))


def draw(windows: Iterable[Interval], count: int, seed: int) -> tuple[Interval, ...]:
    """Draw windows, each set of them as likely as any other; the same seed draws the same, in whatever order they come.

    Each window has a rank that follows from seed and start alone, so that no order and no tie takes part.
    """
    ranked = sorted((_rank(one, seed), one) for one in windows)
    return tuple(sorted(one for _, one in ranked[:count]))


def _rank(one: Interval, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{one.start}".encode()).digest()
