"""Sample of windows for an audit: a pure function of the seed."""

import hashlib
from collections.abc import Iterable

from cutover.definition.windows.window_fn import Interval


def draw(windows: Iterable[Interval], count: int, seed: int) -> tuple[Interval, ...]:
    """Draw windows uniformly; the same seed draws the same windows, whatever their order.

    Each window has a rank that depends only on the seed and its start, so neither order nor ties matter.
    """
    ranked = sorted((_rank(window, seed), window) for window in windows)
    return tuple(sorted(window for _, window in ranked[:count]))


def _rank(interval: Interval, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{interval.start}".encode()).digest()
