"""Which windows an audit looks at: drawn by a seed, by nothing else. Pure."""

import hashlib
from collections.abc import Iterable

from cutover.definition.windows.window_fn import Interval


def draw(windows: Iterable[Interval], count: int, seed: int) -> tuple[Interval, ...]:
    """Draw windows, each set of them as likely as any other; the same seed draws the same, in whatever order they come.

    Each window has a rank that follows from seed and start alone, so that no order and no tie takes part.
    """
    ranked = sorted((_rank(window, seed), window) for window in windows)
    return tuple(sorted(one for _, one in ranked[:count]))


def _rank(interval: Interval, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{interval.start}".encode()).digest()
