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

from cutover.reconcile.result.advice import NamedSetting, Prediction

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
    firsts: Micros  # the smallest delay of each row, that of the epoch that begins it; in the order of `begun`
    begun: Micros  # the number of that epoch, ascending
    closing_firsts: Micros  # the same delays, in the order of `closes`
    closes: Micros  # time at which each row closes without any wait, ascending
    passes: Micros  # time at which windows have ended, ascending, each once
    records: Micros  # (record, window) pairs, ascending by delay
    epochs: Micros  # numbers of all epochs, without data too, ascending
    newest: Micros  # of each: newest event time seen, of all partitions; ALWAYS: none yet
    slowest: Micros  # of each: watermark after it and out-of-orderness; ALWAYS: none yet


def predict(delays: Delays, out_of_orderness: int, allowed: int) -> Prediction:
    """Return what a setting would have come to.

    Args:
        delays: Of a log.
        out_of_orderness: Microseconds.
        allowed: Microseconds.
    """
    total = out_of_orderness + allowed
    half, nearly_all = measure_delay(delays.passes, delays.newest, delays.slowest - out_of_orderness)
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
        held=count_held(
            delays.begun[delays.firsts < total],
            delays.closes[delays.closing_firsts < total],
            delays.epochs,
            delays.slowest - total,
        ),
        delay_p50=half,
        delay_p99=nearly_all,
    )


def count_held(begun: Micros, closes: Micros, epochs: Micros, reached: Micros) -> int:
    """Return the most (window, key) rows that are begun and not closed after any epoch.

    Args:
        begun: Of each row the number of the epoch that begins it, ascending.
        closes: Of each row the time at which it closes, ascending.
        epochs: Numbers, ascending.
        reached: Of each epoch the time that it has come to, by which rows close.
    """
    open_rows = np.searchsorted(begun, epochs, side="right") - np.searchsorted(closes, reached, side="right")
    return int(np.max(open_rows, initial=0))


def measure_delay(passes: Micros, newest: Micros, watermarks: Micros) -> tuple[int | None, int | None]:
    """Return how far event time had come beyond the end of windows when their on-time answer came: half, 99 % within.

    The answer comes with the first epoch after which the watermark has passed the end: the wait is the
    out-of-orderness, how far the slowest partition is behind the newest event time, and what an epoch reads at once.

    Args:
        passes: Time at which windows have ended, ascending.
        newest: Of each epoch the newest event time seen, of all partitions.
        watermarks: After each epoch, ascending.

    Returns:
        Microseconds; None where the watermark has passed no window.
    """
    first = np.searchsorted(watermarks, passes, side="left")
    is_answered = first < len(watermarks)
    waits = newest[first[is_answered]] - passes[is_answered]
    if not len(waits):
        return None, None
    half, nearly_all = np.quantile(waits, [0.5, ON_TIME], method="inverted_cdf")
    return int(half), int(nearly_all)


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
