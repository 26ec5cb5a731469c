"""Panes and held windows as rows of the epoch log: written with each epoch, read at a start.

`_kind` `pane`: what came out; `_class` is early, on_time, late or retraction, or `dropped`: rows that no pane shows,
since the trigger had come to its end. `_kind` `held`: a window and key after an epoch that changed it; its newest row
counts, and `_class` `gone` says that it became a part of another session.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import RowKind, epoch_log_schema, kind_sql
from cutover.panes.held_windows import Arrival, Held
from cutover.panes.machine import begin, dump_machine, load_machine
from cutover.panes.model import Key, Pane, Timing
from cutover.quoting import literal
from cutover.records.fold import fold_sql
from cutover.records.watermark import is_closed_sql
from cutover.streaming.compaction.merge import newest_held_sql
from cutover.streaming.panes import values
from cutover.streaming.panes.operator import Emission, RestoredWindows
from cutover.streaming.panes.values import Partial

Row = dict[str, Any]
Shown = Mapping[tuple[Key, Interval, int], Pane]  # by key, window and index


def to_rows(emission: Emission, pipeline: Pipeline, epoch: int) -> pa.Table:
    """Return one table in the epoch log's schema: panes, held windows, dropped rows."""
    rows = [
        *_make_pane_rows(emission, pipeline),
        *_make_held_rows(emission, pipeline),
        *_make_dropped_rows(emission, pipeline),
    ]
    schema = epoch_log_schema(pipeline)
    return pa.Table.from_pylist([{**row, "_epoch": epoch} for row in rows], schema=schema)


def _make_pane_rows(emission: Emission, pipeline: Pipeline) -> Iterator[Row]:
    for order, pane in enumerate(emission.panes):
        (value,) = pane.value
        about = {
            "order": order,
            "index": pane.index,
            "timing": pane.timing.value,
            "processing_time": pane.processing_time,
        }
        yield _row(RowKind.PANE, pane.kind, pane.window, pane.key, pipeline) | _value(value, pipeline) | _record(about)


def _make_held_rows(emission: Emission, pipeline: Pipeline) -> Iterator[Row]:
    for (key, window), held_window in emission.changed_windows.items():
        if held_window is None:
            yield _row(RowKind.HELD, "gone", window, key, pipeline)
            continue
        about = {
            "machine": dump_machine(held_window.machine),
            "due": held_window.due,
            "is_touched": (key, window) in emission.touched,
            "fresh": held_window.fresh,
            "is_punctual": held_window.is_punctual,
            "firings": held_window.firings,
            "panes": [[*pane.window, pane.index] for pane in held_window.panes],
            "accumulation": pipeline.accumulation.value,
        }
        value = _value(held_window.contents[0], pipeline) if held_window.contents else {"_n": 0}
        yield _row(RowKind.HELD, "held", window, key, pipeline) | value | _record(about)


def _make_dropped_rows(emission: Emission, pipeline: Pipeline) -> Iterator[Row]:
    for arrival in emission.dropped:
        row = _row(RowKind.PANE, "dropped", arrival.window, arrival.key, pipeline)
        yield row | _value(arrival.contents[0], pipeline)


def _row(kind: str, name: str, window: Interval, key: Key, pipeline: Pipeline) -> Row:
    return {"_kind": kind, "_class": name, **values.bounds(window), **values.make_key_columns(key, pipeline)}


def _value(partial: Partial, pipeline: Pipeline) -> Row:
    return values.state_columns(partial, pipeline)


def _record(about: Row) -> Row:
    return {"_record": json.dumps(about, sort_keys=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneHistory:
    """All panes of an epoch log, from the first epoch on."""

    panes: tuple[Pane, ...]  # in order; the value is one partial aggregate
    dropped: tuple[tuple[int, Interval], ...]  # epoch and window of rows whose trigger had come to its end
    unshown_rows: tuple[tuple[Interval, Key, int], ...]  # window, key, rows that no pane has shown


def read_history(table: DeltaTable, pipeline: Pipeline) -> PaneHistory:
    """Return all panes and the held rows, closed windows included."""
    order = "ORDER BY _epoch, CAST(_record->>'$.order' AS bigint)"
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", table, kinds=(RowKind.PANE, RowKind.HELD))
        with delta.naming(table):
            rows = queries.query_table(connection, f"SELECT * FROM log WHERE {kind_sql(RowKind.PANE)} {order}")  # noqa: S608
            held_rows = queries.query_table(connection, _newest(pipeline, None))
    dropped = pc.equal(rows["_class"], pa.scalar("dropped"))
    dropped_rows = rows.filter(dropped)
    waiting = [(window, key, about["fresh"]) for window, key, _, about in _read(held_rows, pipeline)]
    return PaneHistory(
        panes=tuple(_restore_panes(rows.filter(pc.invert(dropped)), pipeline)),
        dropped=tuple(
            zip(values.list_values(dropped_rows["_epoch"]), values.list_row_windows(dropped_rows), strict=True)
        ),
        unshown_rows=tuple(waiting),
    )


def _restore_panes(rows: pa.Table, pipeline: Pipeline) -> Iterator[Pane]:
    names = rows["_class"].to_pylist()
    for (window, key, partial, about), name in zip(_read(rows, pipeline), names, strict=True):
        yield Pane(
            window=window,
            key=key,
            value=(partial,),
            timing=Timing(about["timing"]),
            index=about["index"],
            processing_time=about["processing_time"],
            is_retraction=name == "retraction",
        )


def restore_windows(
    table: DeltaTable, pipeline: Pipeline, trigger: Trigger, *, watermark: int | None, is_same: bool
) -> RestoredWindows:
    """Return the windows from which panes continue.

    Args:
        table: The epoch log.
        pipeline: The definition.
        trigger: Its trigger.
        watermark: After the newest epoch; windows that it has closed are left out, unless a period can still end.
        is_same: The newest epoch ended under this trigger and accumulation. If not, each open window starts again: what
            it holds comes as rows of the next epoch, its panes continue where they were.
    """
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", table, kinds=_kinds(pipeline, is_same=is_same))
        with delta.naming(table):
            rows = queries.query_table(connection, _newest(pipeline, watermark))
            shown_panes = _read_shown_panes(connection, pipeline, rows)
            if is_same:
                return RestoredWindows(windows=tuple(_restore_windows(rows, pipeline, trigger, shown_panes)))
            held_windows = tuple(_restart_windows(rows, pipeline, trigger, shown_panes))
            return RestoredWindows(windows=held_windows, backlog=tuple(_backlog(connection, pipeline, watermark)))


def _kinds(pipeline: Pipeline, *, is_same: bool) -> tuple[RowKind, ...]:
    """Return what `read` reads: panes where they may be retracted, partial rows where windows start again."""
    panes = (RowKind.PANE,) if pipeline.accumulation is Accumulation.RETRACTING else ()
    return (RowKind.HELD, *panes, *(() if is_same else (RowKind.PARTIAL,)))


def _newest(pipeline: Pipeline, watermark: int | None) -> str:
    """Return the query of the held state of every window and key that can still fire."""
    newest = newest_held_sql(pipeline, f"(SELECT * FROM log WHERE {kind_sql(RowKind.HELD)})")  # noqa: S608 -- ours
    idle = "(_record->>'$.due') IS NULL AND (_record->>'$.is_touched') <> 'true'"
    over = f"{is_closed_sql(pipeline, watermark)} AND {idle}"
    return f"SELECT * FROM ({newest}) WHERE _class = 'held' AND NOT ({over})"  # noqa: S608 -- quoted


def _read_shown_panes(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, table: pa.Table) -> Shown:
    """Return the panes that may have to be retracted; none without retractions."""
    if pipeline.accumulation is not Accumulation.RETRACTING:
        return {}
    connection.register("held", table)
    timings = ", ".join(literal(timing.value) for timing in Timing)
    # Panes of what became one session lie within it.
    in_held_windows = "window_start >= (SELECT min(window_start) FROM held)"
    query = f"SELECT * FROM log WHERE {kind_sql(RowKind.PANE)} AND _class IN ({timings}) AND {in_held_windows}"  # noqa: S608 -- quoted
    rows = queries.query_table(connection, query)
    return {(pane.key, pane.window, pane.index): pane for pane in _restore_panes(rows, pipeline)}


def _read(rows: pa.Table, pipeline: Pipeline) -> Iterator[tuple[Interval, Key, Partial, Row]]:
    places = values.list_row_windows(rows), values.keys(rows, pipeline)
    about = [json.loads(text) for text in values.list_values(rows["_record"])]
    return zip(*places, values.partials(rows, pipeline), about, strict=True)


def _restore_windows(rows: pa.Table, pipeline: Pipeline, trigger: Trigger, shown_panes: Shown) -> Iterator[Held]:
    for window, key, partial, about in _read(rows, pipeline):
        yield Held(
            window=window,
            key=key,
            machine=load_machine(trigger, about["machine"]),
            contents=(partial,) if partial.records else (),
            fresh=about["fresh"],
            is_punctual=about["is_punctual"],
            panes=_of(key, about, shown_panes),
            firings=about["firings"],
        )


def _restart_windows(rows: pa.Table, pipeline: Pipeline, trigger: Trigger, shown_panes: Shown) -> Iterator[Held]:
    """Return the same windows with a fresh trigger; panes of discarding windows cannot be retracted."""
    for window, key, _, about in _read(rows, pipeline):
        parts = about["accumulation"] == Accumulation.DISCARDING.value
        panes = () if parts else _of(key, about, shown_panes)
        yield Held(window=window, key=key, machine=begin(trigger), panes=panes, firings=about["firings"])


def _of(key: Key, about: Row, shown_panes: Shown) -> tuple[Pane, ...]:
    """Return the panes to retract."""
    if not shown_panes:
        return ()
    return tuple(shown_panes[key, Interval(start, end), index] for start, end, index in about["panes"])


def _backlog(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, watermark: int | None) -> Sequence[Arrival]:
    """Return what every open window holds, folded."""
    # A session that is open may have begun with rows that alone would be closed.
    held_sql = fold_sql(pipeline, f"(SELECT * FROM log WHERE {kind_sql(RowKind.PARTIAL)})")  # noqa: S608 -- ours
    rows = queries.query_table(connection, f"SELECT * FROM ({held_sql}) WHERE NOT {is_closed_sql(pipeline, watermark)}")  # noqa: S608
    return values.arrivals(rows, pipeline)
