"""Backpressure: the log fills faster than it is read; two thresholds keep the state from flickering."""

from typing import Literal

Pace = Literal["RUNNING", "BACKPRESSURED"]
HIGH_EPOCHS = 10
LOW_EPOCHS = 2


def next_pace(now: Pace, *, lag: int, cap: int) -> Pace:
    """Decide by the lag; between two bounds the state stays as it is.

    Args:
        now: The state so far.
        lag: Records unread.
        cap: Most records of one epoch. Above 10 epochs' worth the state turns on, below 2 it turns off.
    """
    if lag > HIGH_EPOCHS * cap:
        return "BACKPRESSURED"
    return "RUNNING" if lag < LOW_EPOCHS * cap else now
