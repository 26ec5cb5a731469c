"""What settings of lateness would have come to: a pure function of how late each record was.

A record's delay is how far the newest event time of the slowest partition was, before its epoch, beyond the end of its
window. The watermark is that time less the out-of-orderness o, and a window takes rows until the watermark has passed
its end by the allowed lateness a. So a record is late exactly where its delay is at least o + a: which records count,
and how many windows are held, depends on the sum alone; when the on-time answer comes, on o alone.

Source: Akidau et al., The Dataflow Model, VLDB 2015, sections 2.3 and 3.1 (watermarks, allowed lateness).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Micros = NDArray[np.int64]
ALWAYS = -(1 << 62)
"""Delay of a record that no watermark could call late: nothing was known of time before its epoch."""

_MINUTE, _HOUR, _DAY = 60_000_000, 3_600_000_000, 86_400_000_000
STEPS = (
    *(n * _MINUTE for n in (0, 1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 4, 8, 12)),
    *(n * _DAY for n in (1, 2, 4, 7, 14, 30)),
)
"""Lengths of time that people set, microseconds."""

ON_TIME, NEARLY = 0.99, 0.999
"""Shares of windows: exact in the on-time answer; exact in the end, of the balanced setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How late the records of a log were."""

    windows: Micros  # of each window: the largest delay of its records
    rows: Micros  # of each (window, key) row: the largest delay
    row_starts: Micros  # of all (window, key) rows, ascending
    row_ends: Micros  # the same, ascending
    records: Micros  # (record, window) pairs, ascending by delay
    newest: Micros  # of each epoch: newest event time seen, of all partitions
    slowest: Micros  # of each epoch: watermark after it and out-of-orderness


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What one setting would have come to on this log."""

    out_of_orderness: int  # microseconds
    allowed: int
    windows: int
    exact: int  # windows without a late record
    on_time: int  # windows whose on-time answer had all records
    late_rows: int  # (window, key) rows that batch and stream would differ in
    late: int  # (record, window) pairs
    late_share: float  # of all of them
    held: int  # (window, key) rows that are held at once, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSetting:
    """A setting worth choosing."""

    name: str  # fastest, balanced or exact
    prediction: Prediction


def predict(delays: Delays, out_of_orderness: int, allowed: int) -> Prediction:
    """Return what a setting would have come to.

    Args:
        delays: Of a log.
        out_of_orderness: Microseconds.
        allowed: Microseconds.
    """
    total = out_of_orderness + allowed
    late = len(delays.records) - int(np.searchsorted(delays.records, total, side="left"))
    return Prediction(
        out_of_orderness=out_of_orderness,
        allowed=allowed,
        windows=len(delays.windows),
        exact=int(np.count_nonzero(delays.windows < total)),
        on_time=int(np.count_nonzero(delays.windows < out_of_orderness)),
        late_rows=int(np.count_nonzero(delays.rows >= total)),
        late=late,
        late_share=late / len(delays.records) if len(delays.records) else 0.0,
        held=count_held(delays, total),
    )


def count_held(delays: Delays, total: int) -> int:
    """Return the most (window, key) rows that are begun and not closed after any epoch.

    Args:
        delays: Of a log.
        total: Out-of-orderness and allowed lateness, microseconds.
    """
    begun = np.searchsorted(delays.row_starts, delays.newest, side="right")
    closed = np.searchsorted(delays.row_ends, delays.slowest - total, side="right")
    return int(np.max(begun - closed, initial=0))


def make_grid(delays: Delays, current: tuple[int, int]) -> tuple[Prediction, ...]:
    """Return predictions for settings that people would try, with the one in force; by both lengths.

    Args:
        delays: Of a log.
        current: Out-of-orderness and allowed lateness in force.
    """
    needed = find_exact(delays)
    steps = [step for step in STEPS if step <= needed]
    pairs = {(o, a) for o in steps for a in (0, *steps) if o + a <= needed} | {current, (0, needed)}
    return tuple(predict(delays, o, a) for o, a in sorted(pairs))


def find_exact(delays: Delays) -> int:
    """Return the smallest length that people set at which no record is late; beyond all of them, in whole days."""
    most = int(delays.records[-1]) if len(delays.records) else ALWAYS
    return next((step for step in STEPS if most < step), (most // _DAY + 1) * _DAY)


def choose(delays: Delays) -> tuple[NamedSetting, ...]:
    """Return three settings on the front: no other one is better in one respect and no worse in the others.

    fastest: the on-time answer comes at once, and windows are held until nearly all are exact. balanced: the on-time
    answer of 99 % of the windows is exact already, 99.9 % are in the end. exact: as balanced, and no record is late.
    """
    exact = find_exact(delays)
    nearly = _find_share(delays, NEARLY, exact)
    on_time = min(_find_share(delays, ON_TIME, exact), nearly)
    pairs = {"fastest": (0, nearly), "balanced": (on_time, nearly - on_time), "exact": (on_time, exact - on_time)}
    return tuple(NamedSetting(name=name, prediction=predict(delays, o, a)) for name, (o, a) in pairs.items())


def _find_share(delays: Delays, share: float, otherwise: int) -> int:
    """Return the smallest length that people set at which a share of the windows has no late record."""
    wanted = share * len(delays.windows)
    return next((step for step in STEPS if np.count_nonzero(delays.windows < step) >= wanted), otherwise)
