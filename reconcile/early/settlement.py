"""Completeness of the log, and accuracy of the stream's result, by the age of windows.

Until a window closes both are the same, because the stream's result contains all records read so far. Afterwards a late
record completes the log, but the stream drops it, so the stream's result stays as it was at closing. A window counts at
every age that it had reached at the cut; before closing, only if its result at that age is known. Results of sessions,
which grow, are unknown before they close. Records that arrive after the cut are unknown: the windows that closed last
may still miss some.

The result at an age follows from the event time reached before and after each epoch: a row is missing at an age if its
window had reached that age before the epoch that read the row. Files of folds, forks and adopted rows contain rows of
several epochs, so the earliest and the latest possible epoch count for these.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import fetch_number, fetch_row
from cutover.lake.epochs.epoch_log import EpochRecord, Span, find_span
from cutover.lake.epochs.read_speed import measure_read_speed
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.result.parts import (
    FEW,
    MISSING_AT_MOST,
    NEARLY_ALL,
    AgreementPoint,
    Settlement,
    SettlementPoint,
    rate,
)
from cutover.records.classes import Class

MINUTE = 60_000_000
AGES = tuple(MINUTE * minutes for minutes in (1, 5, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 7200, 14_400, 43_200))
"""Ages that are measured, microseconds, in addition to multiples of the last one and the age at which windows close."""

_ENDS = "epoch_ends"
"""Table of the event time reached before and after each epoch: `__before`, `__after`."""

UNKNOWN, FOREVER = -(1 << 62), 1 << 62
"""Event time before any record was read; an age that no window reaches."""


def list_ages(limit: int) -> Iterator[int]:
    """Yield the measured ages below a limit, ascending; beyond 30 days, four per doubling.

    Args:
        limit: Microseconds, exclusive.
    """
    yield from (age for age in AGES if age < limit)
    doubled = AGES[-1]
    while doubled < limit:
        yield from (age for age in (doubled * quarters // 4 for quarters in (5, 6, 7, 8)) if age < limit)
        doubled *= 2


def find_closing_age(pipeline: Pipeline) -> int:
    """Return the time between the end of a window and its closing, in event time, microseconds."""
    lateness = pipeline.lateness
    return lateness.out_of_orderness_micros + pipeline.window.closes_after + lateness.allowed_micros


def find_event_time(pipeline: Pipeline, records: Sequence[EpochRecord]) -> int:
    """Return the event time that the slowest partition had reached at the cut, or UNKNOWN.

    The final epoch of a version closes all windows, so its watermark is no event time.
    """
    marks = [record.watermark_after for record in records if not record.final and record.watermark_after is not None]
    return max(marks) + pipeline.lateness.out_of_orderness_micros if marks else UNKNOWN


def make_epoch_tables(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, records: Sequence[EpochRecord], spans: Sequence[Span]
) -> None:
    """Create the tables of event time by epoch.

    Args:
        connection: Connection of the comparison.
        pipeline: The definition.
        records: All epochs up to the cut.
        spans: Ranges of epochs whose rows are in one file.
    """
    ahead = pipeline.lateness.out_of_orderness_micros
    reached_before = {record.epoch: _reach(record.watermark_before, ahead) for record in records}
    ends = [(epoch, find_span(spans, epoch)) for epoch in reached_before]
    columns = {
        "__epoch": list(reached_before),
        "__before": list(reached_before.values()),
        "__first": [reached_before.get(low, UNKNOWN) for _, (low, _) in ends],
        "__last": [
            max((reached_before[e] for e in (epoch, high) if e in reached_before), default=UNKNOWN)
            for epoch, (_, high) in ends
        ],
    }
    connection.register(SharedTable.EPOCH_REACHED, _table(columns))
    marks = {
        "__before": list(reached_before.values()),
        "__end": [_reach(record.watermark_after, ahead) for record in records],
    }
    connection.register("epoch_marks", _table(marks))
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {_ENDS} AS SELECT __before, max(__end) AS __after FROM epoch_marks GROUP BY 1"
    )


def _reach(watermark: int | None, ahead: int) -> int:
    return UNKNOWN if watermark is None else watermark + ahead


def _table(columns: dict[str, list[int]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def age_sql(reached_sql: str, end: str) -> str:
    """Return SQL for the age of a window at an event time; UNKNOWN if the event time is unknown."""
    return f"(CASE WHEN {reached_sql} > {UNKNOWN} THEN {reached_sql} - {end} ELSE {UNKNOWN} END)"


def select_known_sql(windows: str, rows: str, age: int, following: int, event_time: int) -> str:
    """Return the query of the windows whose result at an age before their closing is known.

    Excluded are windows that are younger, windows that reached the following age in the same epoch (they had no result
    at this one), and windows with a fold that hides whether a row was read before or after the age.

    Args:
        windows: Relation with `window_start` and `window_end`.
        rows: Relation with `window_start`, and `__low` and `__high`: ages between which a row was read.
        age: Microseconds.
        following: The next larger age that is measured.
        event_time: Event time reached at the cut, microseconds.
    """
    end = "epoch_us(w.window_end)"
    return (
        f"SELECT w.window_start FROM {windows} w ASOF JOIN {_ENDS} e ON {end} + {age} > e.__before"
        f" WHERE {event_time} - {end} >= {age} AND e.__after - {end} < {following} AND NOT EXISTS"
        f" (SELECT 1 FROM {rows} r WHERE r.window_start = w.window_start AND __low < {age} AND __high >= {age})"
    )


_WINDOWS, _ROWS, _LATE, _DIFFERENT = "settled_windows", "settled_rows", "settled_late", "settled_different"
"""Tables of this module: windows; accepted rows read after the first age; late records; rows that differ."""

_ALL = f"SELECT __id FROM {_WINDOWS}"


def measure_settlement(sides: Sides, pipeline: Pipeline, records: Sequence[EpochRecord]) -> Settlement | None:
    """Measure both curves; None if no window was compared, or if windows have no end to measure an age from.

    Args:
        sides: Open sides with causes attributed, and the tables of `ages`.
        pipeline: The definition.
        records: All epochs up to the cut.
    """
    closing, event_time = find_closing_age(pipeline), find_event_time(pipeline, records)
    windows = _make_windows(sides)
    if not windows or pipeline.window.reach is None:
        return None
    early = () if pipeline.window.merges else tuple(list_ages(closing))
    _make_late(sides)
    _make_different(sides)
    _make_rows(sides, pipeline, early[0] if early else None)
    log, stream, agreement = list[SettlementPoint](), list[SettlementPoint](), list[AgreementPoint]()
    for age, following in pairwise((*early, closing)):
        known_windows = f"SELECT __id FROM {_WINDOWS} s SEMI JOIN ({_select_known(age, following, event_time)}) k"
        known_windows += " ON k.window_start = s.window_start"
        if fetch_number(sides.connection, f"SELECT count(*) FROM ({known_windows})"):
            log.append(_measure_missing(sides, age, known_windows, late_from=age, is_answer=False))
            stream.append(_measure_missing(sides, age, known_windows, late_from=None, is_answer=True))
            agreement.append(_measure_agreement(sides, age, known_windows))
    stream.append(_measure_missing(sides, closing, _ALL, late_from=None, is_answer=True))
    agreement.append(_measure_agreement(sides, closing, _ALL))
    log += _measure_log(sides, closing, event_time)
    speed = measure_read_speed(records)
    other_causes = fetch_number(sides.connection, f"SELECT count(*) FROM {_WINDOWS} WHERE __other")
    return Settlement(
        closing_minutes=closing / MINUTE,
        windows=windows,
        other_causes=other_causes,
        log=tuple(log),
        stream=tuple(stream),
        agreement=tuple(agreement),
        is_replay=speed.is_replay,
        read_speed=speed.speed,
    )


def _measure_log(sides: Sides, closing: int, event_time: int) -> list[SettlementPoint]:
    """Measure the log's points from closing on, up to an age at which no window misses a record.

    In addition to round ages, these are the first ones from which on it is complete: in enough windows, and in any.
    A window that was closed by the final epoch of a version counts only at ages that it had reached in event time.
    """
    points = list[SettlementPoint]()
    windows = _list_completed(sides, event_time)
    reached = sorted((window.reached for window in windows), reverse=True)
    # The largest age that permits a conclusion is that of the tenth oldest window.
    ages = {closing, reached[:FEW][-1], *list_ages(reached[0] + 1)}
    ages |= {age for fewest in (1, FEW) if (age := find_complete_age(windows, closing, fewest)) is not None}
    for age in sorted(age for age in ages if closing <= age <= reached[0]):
        if points and not points[-1].largest:
            break
        old_windows = f"SELECT __id FROM {_WINDOWS} WHERE {event_time} - __end >= {age}"
        points.append(_measure_missing(sides, age, old_windows, late_from=age, is_answer=False))
    return points


@dataclass(frozen=True, slots=True)
class CompletedWindow:
    """Ages of a window: at the cut, and from which on the log has nearly all of its records; microseconds."""

    reached: int
    completed: int


def _list_completed(sides: Sides, event_time: int) -> list[CompletedWindow]:
    """List the ages at which windows were complete, by their late records."""
    ranked = f"SELECT *, row_number() OVER (PARTITION BY __id ORDER BY __age DESC) AS __rank FROM {_LATE}"
    exceeds = f"l.__rank / greatest(w.__records, 1) > {MISSING_AT_MOST}"
    query = (
        f"SELECT {event_time} - any_value(w.__end), coalesce(max(l.__age) FILTER ({exceeds}), {UNKNOWN}) + 1"
        f" FROM {_WINDOWS} w LEFT JOIN ({ranked}) l ON l.__id = w.__id GROUP BY w.__id"
    )
    rows = sides.connection.execute(query).fetchall()
    return [CompletedWindow(int(reached), int(completed)) for reached, completed in rows]


def find_complete_age(windows: Sequence[CompletedWindow], closing: int, fewest: int) -> int | None:
    """Find the first age from closing on from which on nearly all windows of that age are complete; None without one.

    Args:
        windows: Compared windows.
        closing: Age at which windows close, microseconds.
        fewest: Number of windows of an age that permits a conclusion.
    """
    reached = sorted(window.reached for window in windows)
    completed = sorted(min(window.completed, window.reached + 1) for window in windows)
    # Between these ages no window becomes complete, and none is too young.
    changes = {closing, *(age for age in (*completed, *(age + 1 for age in reached)) if age > closing)}
    first = None
    for age in sorted(changes, reverse=True):
        younger = bisect_left(reached, age)
        old_windows = len(reached) - younger
        if old_windows < fewest:
            continue
        if bisect_right(completed, age) - younger < NEARLY_ALL * old_windows:
            break
        first = age
    return first


def _make_windows(sides: Sides) -> int:
    """Create the table of compared windows (for sessions: components) of either side; return their number."""
    place = _list_place(sides)
    names, same_place = ", ".join(place), " AND ".join(f"o.{name} IS NOT DISTINCT FROM w.{name}" for name in place)
    either = (
        f"SELECT {names}, window_end, _n AS __n, 1 AS __rows FROM {stage(1)}"
        f" UNION ALL SELECT {names}, window_end, 0, 0 FROM {SharedTable.EXPECTED}"
    )
    # `_explained` is the number of the class that makes the sides equal, and late records are the first class.
    has_other_cause = (
        f"SELECT 1 FROM {SharedTable.TOUCHED} o WHERE {same_place} AND o._kind <> 'masked' AND o._explained <> 1"
    )
    sides.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {_WINDOWS} AS SELECT row_number() OVER () AS __id, {names},"
        f" max(window_end) AS __ends, epoch_us(max(window_end)) AS __end, sum(__n)::BIGINT AS __records,"
        f" EXISTS ({has_other_cause}) AS __other FROM ({either}) w GROUP BY {names}"
    )
    return fetch_number(sides.connection, f"SELECT count(*) FROM {_WINDOWS}")


def _list_place(sides: Sides) -> list[str]:
    """Return the columns that identify a window; for sessions the component and the key."""
    layout = sides.layout
    return list(map(identifier, layout.place if layout.component else layout.place[:1]))


def _join_windows(sides: Sides, alias: str) -> str:
    conditions = (f"w.{name} IS NOT DISTINCT FROM {alias}.{name}" for name in _list_place(sides))
    return f"JOIN {_WINDOWS} w ON {' AND '.join(conditions)}"


def _make_late(sides: Sides) -> None:
    """Create the table of late records: window, and age at which each was read; compaction never folds the ledger."""
    sides.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {_LATE} AS SELECT w.__id, {age_sql('e.__before', 'w.__end')} AS __age"
        f" FROM {SharedTable.LEDGER} l {_join_windows(sides, 'l')}"
        f" JOIN {SharedTable.EPOCH_REACHED} e ON e.__epoch = l._epoch WHERE l._class = '{Class.LATE}'"
    )


def _make_different(sides: Sides) -> None:
    """Create the table of the rows in which the stream's final result differs from batch."""
    keys = ", ".join(f"t.{identifier(name)}" for name in sides.layout.keys)
    sides.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {_DIFFERENT} AS SELECT w.__id, {keys} FROM {SharedTable.TOUCHED} t"
        f" {_join_windows(sides, 't')} WHERE t._kind <> 'masked'"
    )


def _make_rows(sides: Sides, pipeline: Pipeline, age: int | None) -> None:
    """Create the table of accepted rows read after their window had reached an age; empty if the age is None."""
    keys = ", ".join(f"r.{identifier(name)}" for name in ("window_start", *pipeline.key))
    low, high = (age_sql(name, "w.__end") for name in ("e.__first", "e.__last"))
    rows = f"SELECT *, 0 AS __n, 0 AS __low FROM {_DIFFERENT} WHERE false"
    if age is not None:
        rows = (
            f"SELECT w.__id, {keys}, r._n AS __n, {low} AS __low, {high} AS __high FROM {SharedTable.STREAM_LOG} r"
            f" JOIN {SharedTable.EPOCH_REACHED} e ON e.__epoch = r._epoch"
            f" JOIN {_WINDOWS} w ON w.window_start = r.window_start"
            f" WHERE r._class = '{Class.ACCEPTED}' AND {high} >= {age}"
        )
    sides.connection.execute(f"CREATE OR REPLACE TEMP TABLE {_ROWS} AS {rows}")


def _select_known(age: int, following: int, event_time: int) -> str:
    windows = f"(SELECT window_start, __ends AS window_end FROM {_WINDOWS})"
    return select_known_sql(windows, _ROWS, age, following, event_time)


def _measure_missing(
    sides: Sides, age: int, windows: str, *, late_from: int | None, is_answer: bool
) -> SettlementPoint:
    """Measure the records that windows miss at an age.

    Args:
        sides: The comparison.
        age: Microseconds.
        windows: Query of the ids of windows that count at it.
        late_from: Late records read from this age on count as missing; None: all of them.
        is_answer: Windows that differ for a cause other than late records never count as complete.
    """
    late = f"SELECT __id, count(*) AS __n FROM {_LATE} WHERE __age >= {UNKNOWN if late_from is None else late_from}"
    late_rows = f"SELECT __id, sum(__n) AS __n FROM {_ROWS} WHERE __low >= {age}"
    query = f"""
        WITH missed AS (SELECT __id, sum(__n) AS __missed
                        FROM ({late} GROUP BY 1 UNION ALL {late_rows} GROUP BY 1) GROUP BY 1),
        error AS (SELECT coalesce(m.__missed, 0) / greatest(w.__records, 1) AS __error, w.__other
                  FROM {_WINDOWS} w SEMI JOIN ({windows}) k ON k.__id = w.__id LEFT JOIN missed m ON m.__id = w.__id)
        SELECT count(*), count(*) FILTER (__error <= {MISSING_AT_MOST} AND NOT (__other AND {is_answer})),
               quantile_disc(__error, [0.5, 0.9, 0.99]), max(__error) FROM error
    """
    window_count, complete_count, (p50, p90, p99), largest = fetch_row(sides.connection, query)
    return SettlementPoint(
        minutes=age / MINUTE,
        within=rate(int(complete_count), int(window_count)),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        largest=float(largest),
    )


def _measure_agreement(sides: Sides, age: int, windows: str) -> AgreementPoint:
    """Count the rows of windows in which the stream's result at an age differs from batch."""
    keys = ", ".join(map(identifier, sides.layout.keys))
    final = f"SELECT __id, {keys} FROM {_DIFFERENT}"
    late_rows = f"SELECT __id, {keys} FROM {_ROWS} WHERE __low >= {age}"
    row_ids = (
        f"SELECT w.__id FROM {stage(0)} s {_join_windows(sides, 's')}"
        f" UNION ALL SELECT w.__id FROM {SharedTable.TOUCHED} s {_join_windows(sides, 's')} WHERE s._kind = 'missing'"
    )
    window_count, rows, different = (
        fetch_number(sides.connection, f"SELECT count(*) FROM ({query}) SEMI JOIN ({windows}) k USING (__id)")
        for query in (_ALL, row_ids, f"{final} UNION {late_rows}")
    )
    return AgreementPoint(minutes=age / MINUTE, windows=window_count, rows=rows, different=different)
