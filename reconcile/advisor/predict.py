"""Predicted effect of settings of lateness: a pure function of the delay of each record.

A record's delay is how far the newest event time of the slowest partition was, before its epoch, beyond the end of its
window. The watermark is that time less the out-of-orderness o, and a window accepts rows until the watermark has passed
its end by the allowed lateness a. So a record is late if and only if its delay is at least o + a: which records count,
and how many windows are kept, depends on the sum alone; when the on-time answer comes depends on o alone. Proposed
lengths of time are whole units, as large as the window allows.

A stream that is never behind would have known the event time of each append. The epochs of a replayed log do not show
it: time moves from one to the next, and an epoch of a replay holds hours. The log timestamps do. A record is appended
at the latest log timestamp of its partition so far, since producers may set timestamps that go back; records that were
appended at once do not judge one another.

Source: Akidau et al., The Dataflow Model, VLDB 2015, sections 2.3 and 3.1 (watermarks, allowed lateness); the rule
itself: `cutover/records/watermark.py`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cutover.definition.windows.window_fn import WindowFn
from cutover.lake.epochs.read_speed import ReadSpeed
from cutover.reconcile.result.parts import LateOutcome, NamedSetting, Prediction
from cutover.timestamps import MICROSECONDS

UNITS = tuple(sorted(MICROSECONDS.values(), reverse=True))
"""Day, hour, minute, second, millisecond, in microseconds."""

_LONGER = 10
"""A whole unit may lengthen a wait by one part in this many; otherwise the next smaller unit is used."""


def find_unit(window: WindowFn) -> int:
    """Return the largest unit that is not longer than a window, or than the distance between two that overlap."""
    length = window.slice_micros or window.reach or UNITS[0]
    return next((unit for unit in UNITS if unit <= length), UNITS[-1])


def find_smaller_unit(unit: int) -> int:
    """Return the next smaller unit; for the smallest one the unit itself."""
    place = UNITS.index(unit)
    return UNITS[min(place + 1, len(UNITS) - 1)]


def round_up(minimum: int, unit: int) -> int:
    """Round a length up to whole units, or to the next smaller unit if the larger one would lengthen it too much.

    Args:
        minimum: Microseconds; 0 or less needs no time.
        unit: Unit of the windows.
    """
    if minimum <= 0:
        return 0
    length = -(-minimum // unit) * unit
    if (length - minimum) * _LONGER <= minimum:
        return length
    smaller = find_smaller_unit(unit)
    return -(-minimum // smaller) * smaller


Micros = NDArray[np.int64]
ALWAYS = -(1 << 62)
"""Delay of a record that cannot be late: no event time was known before its epoch."""

STEPS = tuple(
    count * MICROSECONDS[unit]
    for unit, counts in {
        "second": (1, 2, 5, 10, 15, 30),
        "minute": (1, 2, 5, 10, 15, 30),
        "hour": (1, 2, 4, 8, 12),
        "day": (1, 2, 4, 7, 14, 30, 90, 180, 365),
    }.items()
    for count in counts
)
"""Lengths of time that people set, microseconds."""

ON_TIME, NEARLY = 0.99, 0.999
"""Shares of windows: exact in the on-time answer; exact in the end, of the balanced setting."""

SHARES = (0.5, 0.75, 0.9, 0.95, ON_TIME, 0.995, NEARLY, 0.9999)
"""Shares of windows and records whose delays are tried as lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDelays:
    """Delays of records under one way of reading them, each ascending."""

    windows: Micros  # of each window: the largest delay of its records
    rows: Micros  # of each (window, key) row: the largest delay
    records: Micros  # of each (record, window) pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Delays of the records of a log."""

    read: RecordDelays  # as the epochs read them
    real: RecordDelays | None  # had each been read when it was appended; None: log timestamps do not show it
    is_live: bool  # the epochs read the log as it was produced
    firsts: Micros  # the smallest delay of each row, that of the epoch that begins it; in the order of `first_epochs`
    first_epochs: Micros  # number of the epoch that begins each row, ascending
    closing_firsts: Micros  # the same delays, in the order of `closes`
    closes: Micros  # time at which each row closes without any wait, ascending
    passes: Micros  # time at which windows have ended, ascending, each once
    epochs: Micros  # numbers of all epochs, without data too, ascending
    newest: Micros  # of each: newest event time seen, of all partitions; ALWAYS: none yet
    slowest: Micros  # of each: watermark after it and out-of-orderness; ALWAYS: none yet
    unit: int  # of lengths, as long as the windows allow: microseconds

    @property
    def chosen_by(self) -> RecordDelays:
        """Return the delays that settings are chosen by: at real speed if the log may have been replayed."""
        return self.read if self.is_live or self.real is None else self.real


def predict(delays: Delays, out_of_orderness: int, allowed: int) -> Prediction:
    """Predict the outcome of a setting.

    Args:
        delays: Of a log.
        out_of_orderness: Microseconds.
        allowed: Microseconds.
    """
    total = out_of_orderness + allowed
    half, nearly_all = measure_delay(delays.passes, delays.newest, delays.slowest - out_of_orderness)
    read, pairs = count_outcome(delays.read, out_of_orderness, allowed), len(delays.read.records)
    return Prediction(
        out_of_orderness=out_of_orderness,
        allowed=allowed,
        windows=len(delays.read.windows),
        exact=read.exact,
        on_time=read.on_time,
        late_rows=read.late_rows,
        late=read.late,
        late_share=read.late / pairs if pairs else 0.0,
        real=None if delays.real is None else count_outcome(delays.real, out_of_orderness, allowed),
        held=count_held(
            delays.first_epochs[delays.firsts < total],
            delays.closes[delays.closing_firsts < total],
            delays.epochs,
            delays.slowest - total,
        ),
        delay_p50=half,
        delay_p99=nearly_all,
    )


def count_outcome(delays: RecordDelays, out_of_orderness: int, allowed: int) -> LateOutcome:
    """Return how many windows are exact, and how many records and rows are late, under a setting."""
    total = out_of_orderness + allowed
    return LateOutcome(
        exact=int(np.searchsorted(delays.windows, total, side="left")),
        on_time=int(np.searchsorted(delays.windows, out_of_orderness, side="left")),
        late_rows=len(delays.rows) - int(np.searchsorted(delays.rows, total, side="left")),
        late=len(delays.records) - int(np.searchsorted(delays.records, total, side="left")),
    )


def count_held(begins: Micros, closes: Micros, epochs: Micros, marks: Micros) -> int:
    """Return the maximum number of (window, key) rows that are open after an epoch.

    Args:
        begins: Number of the epoch that begins each row, ascending.
        closes: Time at which each row closes, ascending.
        epochs: Numbers, ascending.
        marks: Event time after each epoch that closes rows.
    """
    open_rows = np.searchsorted(begins, epochs, side="right") - np.searchsorted(closes, marks, side="right")
    return int(np.max(open_rows, initial=0))


def measure_delay(passes: Micros, newest: Micros, watermarks: Micros) -> tuple[int | None, int | None]:
    """Measure the event time from the end of windows to their on-time answer: median and 99 % quantile.

    The answer comes with the first epoch after which the watermark has passed the end: the wait is the
    out-of-orderness, how far the slowest partition is behind the newest event time, and what an epoch reads at once.

    Args:
        passes: Time at which windows have ended, ascending.
        newest: Of each epoch the newest event time seen, of all partitions.
        watermarks: After each epoch, ascending.

    Returns:
        Microseconds; None where the watermark has passed no window.
    """
    answering_epochs = np.searchsorted(watermarks, passes, side="left")
    is_answered = answering_epochs < len(watermarks)
    waits = newest[answering_epochs[is_answered]] - passes[is_answered]
    if not len(waits):
        return None, None
    half, nearly_all = np.quantile(waits, [0.5, ON_TIME], method="inverted_cdf")
    return int(half), int(nearly_all)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Predictions of the tried settings, one for each outcome: of equal ones that with the shortest wait."""

    setting_count: int
    predictions: tuple[Prediction, ...]  # by both lengths


def make_grid(delays: Delays, current: tuple[int, int]) -> Grid:
    """Predict lengths at which outcomes change and lengths that people usually set, with equal outcomes merged.

    Args:
        delays: Of a log.
        current: Out-of-orderness and allowed lateness in force; always included.
    """
    lengths = list_lengths(delays)
    pairs = {(o, total - o) for total in lengths for o in lengths if o <= total} | {current}
    by_outcome: dict[Prediction, Prediction] = {}
    for o, a in sorted(pairs, key=lambda pair: (pair[0] + pair[1], pair[0])):
        prediction = predict(delays, o, a)
        by_outcome.setdefault(replace(prediction, out_of_orderness=0, allowed=0), prediction)
    by_lengths = {(prediction.out_of_orderness, prediction.allowed): prediction for prediction in by_outcome.values()}
    by_lengths[current] = predict(delays, *current)
    return Grid(setting_count=len(pairs), predictions=tuple(prediction for _, prediction in sorted(by_lengths.items())))


def list_lengths(delays: Delays) -> tuple[int, ...]:
    """List the lengths to try, ascending, from 0 to the one at which no record is late."""
    exact, chosen_by = find_exact(delays), delays.chosen_by
    minimums = (find_needed(values, share) for values in (chosen_by.windows, chosen_by.records) for share in SHARES)
    common = (step for step in STEPS if step % find_smaller_unit(delays.unit) == 0)
    lengths = {0, exact, *(round_up(length, delays.unit) for length in minimums), *common}
    return tuple(sorted(length for length in lengths if length <= exact))


def find_needed(values: Micros, share: float) -> int:
    """Find the smallest length that is longer than a share of some delays; 0 if no wait is needed.

    Args:
        values: Delays, ascending.
        share: Of them.
    """
    if not len(values):
        return 0
    place = max(math.ceil(share * len(values) - 1e-9), 1) - 1
    return max(int(values[place]) + 1, 0)


def find_exact(delays: Delays) -> int:
    """Return the smallest length in the unit of the windows at which no record is late."""
    return round_up(find_needed(delays.chosen_by.records, 1.0), delays.unit)


def choose_settings(delays: Delays) -> tuple[NamedSetting, ...]:
    """Choose three Pareto-optimal settings: no other one is better in one respect and no worse in the others.

    fastest: the on-time answer comes without any wait, and windows stay open until nearly all are exact. balanced: the
    on-time answer of 99 % of the windows is exact already, 99.9 % are in the end. exact: as balanced, with no late
    record. All of this is at real speed if the log may have been replayed and its timestamps show real speed.
    """
    exact = find_exact(delays)
    nearly, on_time = (
        min(round_up(find_needed(delays.chosen_by.windows, share), delays.unit), exact) for share in (NEARLY, ON_TIME)
    )
    on_time = min(on_time, nearly)
    pairs = {"fastest": (0, nearly), "balanced": (on_time, nearly - on_time), "exact": (on_time, exact - on_time)}
    return tuple(NamedSetting(name=name, prediction=predict(delays, o, a)) for name, (o, a) in pairs.items())


UNKNOWN = -(1 << 62)
"""Event time where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Records in the order of partition and offset; microseconds."""

    partitions: Micros
    log_times: Micros
    events: Micros  # UNKNOWN: the record has none that moves the watermark


def compute_watermarks(records: Appended, idle_after: int) -> Micros:
    """Find the watermark just before each record was appended, for an out-of-orderness of 0.

    Args:
        records: Records of a log, in the order of partition and offset.
        idle_after: Time for which a partition without new records holds the watermark, microseconds.

    Returns:
        Microseconds in the order of the records; UNKNOWN where no event time had been seen.
    """
    if not len(records.partitions):
        return np.array([], np.int64)
    appended = find_append_times(records)
    times, steps = np.unique(appended, return_inverse=True)
    next_times = np.append(times[1:], times[-1])  # a state lasts until the next records come
    # The partitions with the latest append always hold the watermark, so it stays where it is once all are idle.
    latest = np.full(len(times), UNKNOWN, np.int64)
    for newest, last_append in _trace(records, appended, steps):
        latest = np.where(newest > UNKNOWN, np.maximum(latest, last_append), latest)
    low = np.full(len(times), -UNKNOWN, np.int64)
    for newest, last_append in _trace(records, appended, steps):
        is_active = (newest > UNKNOWN) & ((next_times - last_append < idle_after) | (last_append == latest))
        low = np.where(is_active, np.minimum(low, newest), low)
    event_times = np.maximum.accumulate(np.where(low == -UNKNOWN, UNKNOWN, low))
    previous_times = np.append(np.array([UNKNOWN], np.int64), event_times[:-1])
    micros: Micros = previous_times[steps]
    return micros


def _trace(records: Appended, appended: Micros, steps: Micros) -> Iterator[tuple[Micros, Micros]]:
    """Yield for each partition its newest event time and its last append after each step."""
    size = int(steps.max()) + 1
    for partition in np.unique(records.partitions):
        is_in_partition = records.partitions == partition
        newest, last_append = np.full(size, UNKNOWN, np.int64), np.full(size, UNKNOWN, np.int64)
        np.maximum.at(newest, steps[is_in_partition], records.events[is_in_partition])
        last_append[steps[is_in_partition]] = appended[is_in_partition]
        yield np.maximum.accumulate(newest), np.maximum.accumulate(last_append)


def find_append_times(records: Appended) -> Micros:
    """Find when each record was appended: no earlier than any previous one in its partition."""
    appended = records.log_times.copy()
    for partition in np.unique(records.partitions):
        is_in_partition = records.partitions == partition
        appended[is_in_partition] = np.maximum.accumulate(appended[is_in_partition])
    return appended


def find_pace(read_speed: ReadSpeed, records: Appended) -> float | None:
    """Find the pace of event time by log time: that of the epochs, by which all commands decide, else of the records.

    Args:
        read_speed: Of the epochs that read the records.
        records: Records of the log.
    """
    return compute_pace(records) if read_speed.pace is None else read_speed.pace


def compute_pace(records: Appended) -> float | None:
    """Compute how far the newest event time advanced per log time; None if log time did not advance.

    The first and last hundredth of the records are ignored, so that one wrong clock does not change the result.
    """
    has_event = records.events > UNKNOWN
    if not has_event.any():
        return None
    appended = find_append_times(records)[has_event]
    order = np.argsort(appended, kind="stable")
    logged, lived = (
        np.subtract(*np.quantile(times, [0.99, 0.01], method="inverted_cdf"))
        for times in (appended[order], np.maximum.accumulate(records.events[has_event][order]))
    )
    return float(lived / logged) if logged > 0 else None
