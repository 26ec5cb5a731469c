"""Ages of windows by epoch: the event time reached before and after each epoch, for results by age.

A row is missing at an age if its window had reached that age before the epoch that read the row. Files of folds, forks
and adopted rows contain rows of several epochs, so the earliest and the latest possible epoch count for these.
"""

# ruff: noqa: S608 -- names of tables are constants

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.merged_epochs import Span, find_span
from cutover.reconcile.comparison.shared_tables import SharedTable

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
