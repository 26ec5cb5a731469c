"""Both sides as tables of one DuckDB connection: what batch computed, and the stream's fold after each further class.

Tables: `batch_side`; `stage_0` (accepted rows folded: what the stream serves), `stage_1` (late rows merged too) and,
where the batch is a team's SQL, `stage_2` (future rows merged too). All hold only windows that are judged: closed at
the cut, covered by the batch, in the range asked for. `stream_log` is the epoch log up to the cut.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import duckdb

from cutover.definition.pipeline import Pipeline, SameDefinition
from cutover.lake import tables
from cutover.lake.batch_runs import Range
from cutover.lake.tables import identifier
from cutover.records.classes import Class
from cutover.records.fold import finished_sql
from cutover.settings import Settings
from reconcile.layout import Layout, additive, value_of, wide_columns
from reconcile.query import number
from reconcile.seal import Evidence

BATCH = "batch_side"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """An open comparison of one pipeline."""

    connection: duckdb.DuckDBPyConnection
    layout: Layout
    merged: tuple[Class, ...]  # classes that stages 1, 2, ... merge, in the documented order
    same_definition: bool
    open_windows: int
    incomplete_windows: int


def stage(number: int) -> str:
    """Return the name of the stream's side after `number` further classes."""
    return f"stage_{number}"


@contextmanager
def opened(
    settings: Settings,
    pipeline: Pipeline,
    evidence: Evidence,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Iterator[Sides]:
    """Open both sides for window starts in `[start, end)`, and close them at the end."""
    with tables.connect(tables.reading(settings)) as connection:
        evidence.epoch_log.relation(connection, "stream_log", epoch=evidence.run.epoch)
        tables.bind(connection, "batch_table", evidence.batch)
        same = isinstance(pipeline.batch, SameDefinition)
        merged = (Class.LATE,) if same else (Class.LATE, Class.FUTURE)
        within = _within(start, end)
        judged = f"{within} AND {closed_sql(pipeline, evidence)} AND NOT ({_uncovered_sql(pipeline, evidence)})"
        connection.execute(f"CREATE TEMP TABLE {BATCH} AS SELECT * FROM batch_table WHERE {judged}")
        for number in range(len(merged) + 1):
            _fold(connection, pipeline, (Class.ACCEPTED, *merged[:number]), number, judged)
        yield Sides(
            connection=connection,
            layout=_layout(connection, pipeline, same=same),
            merged=merged,
            same_definition=same,
            open_windows=_count(connection, f"{within} AND NOT {closed_sql(pipeline, evidence)}"),
            incomplete_windows=_count(
                connection, f"{within} AND {closed_sql(pipeline, evidence)} AND ({_uncovered_sql(pipeline, evidence)})"
            ),
        )


def closed_sql(pipeline: Pipeline, evidence: Evidence) -> str:
    """Return SQL that is true for windows that were closed at the cut."""
    if evidence.watermark is None:
        return "false"
    wait = pipeline.window.size + pipeline.lateness.allowed_micros
    return f"(epoch_us(window_start) + {wait} <= {evidence.watermark})"


def _fold(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, classes: tuple[Class, ...], number: int, judged: str
) -> None:
    """Materialise one stage: rows of all `classes` folded as if they had been accepted."""
    folded = finished_sql(pipeline, "stream_log", keep=classes)
    connection.execute(f"CREATE TEMP TABLE all_{number} AS {folded}")
    connection.execute(f"CREATE VIEW {stage(number)} AS SELECT * FROM all_{number} WHERE {judged}")


def _layout(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, *, same: bool) -> Layout:
    """Return what is compared: measures, and with the same definition their states and the number of records."""
    described = connection.execute(f"DESCRIBE {stage(0)}").fetchall()
    types = {str(row[0]): str(row[1]) for row in described}
    keys = ("window_start", *pipeline.key)
    rest = [name for name in types if name not in {*keys, "window_end", *pipeline.measures}] if same else []
    summed = {*additive(pipeline), "_n"}
    values = tuple(
        replace(value_of(name, types[name]), additive=name in summed) for name in (*pipeline.measures, *rest)
    )
    return Layout(keys=keys, values=values, group="window_start", wide=wide_columns(types))


def _within(start: datetime | None, end: datetime | None) -> str:
    lower = f"window_start >= {_timestamp(start)}" if start else "true"
    upper = f"window_start < {_timestamp(end)}" if end else "true"
    return f"({lower} AND {upper})"


def _timestamp(moment: datetime) -> str:
    return f"make_timestamptz({round(moment.timestamp() * 1_000_000)})"


def uncovered(evidence: Evidence) -> tuple[Range, ...]:
    """Return the ranges that the batch run does not answer for: a window lies in one if it lies wholly inside."""
    # An entry of `incomplete` may span many windows: all those before the oldest record that the log still holds.
    gone = tuple((entry.window_start, entry.window_end) for entry in evidence.run.incomplete)
    return (*evidence.run.stale, *gone)


def _uncovered_sql(pipeline: Pipeline, evidence: Evidence) -> str:
    """Return SQL that is true for closed windows that the batch run does not answer for."""
    start, size = "epoch_us(window_start)", pipeline.window.size
    inside = (f"({start} >= {int(a)} AND {start} + {size} <= {int(b)})" for a, b in uncovered(evidence))
    return " OR ".join(inside) or "false"


def _count(connection: duckdb.DuckDBPyConnection, condition: str) -> int:
    return number(connection, f"SELECT count(DISTINCT window_start) FROM all_1 WHERE {condition}")


def key_columns(layout: Layout) -> str:
    """Return the key columns, quoted, as a list for SQL."""
    return ", ".join(map(identifier, layout.keys))
