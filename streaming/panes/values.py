"""Values of panes: partial aggregates of a window and key, folded as everywhere else."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.kinds import can_merge
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.panes.held_windows import Arrival, Contents
from cutover.panes.model import Key, in_order
from cutover.records.classes import Class
from cutover.records.fold import fold_sql
from cutover.records.watermark import compute_closing_watermark


class Partial(NamedTuple):
    """A partial aggregate of some window and key."""

    states: tuple[Any, ...]  # the state columns
    records: int


def of_nothing(pipeline: Pipeline) -> Partial:
    """Return the partial aggregate of no rows: what a pane shows that comes always, where there is nothing new."""
    return Partial(tuple(state.empty_value for state in compile_pipeline(pipeline).states), 0)


def filter_accepted(rows: pa.Table) -> pa.Table:
    """Late rows and others come with their class and make no pane."""
    return rows.filter(pc.equal(rows["_class"], pa.scalar(Class.ACCEPTED.value)))


def arrivals(rows: pa.Table, pipeline: Pipeline) -> list[Arrival]:
    """One arrival for each accepted partial aggregate, in the order of the rows."""
    triples = zip(list_row_windows(rows), keys(rows, pipeline), partials(rows, pipeline), strict=True)
    return [
        Arrival(window=window, key=key, contents=(partial,), rows=partial.records) for window, key, partial in triples
    ]


def list_row_windows(rows: pa.Table) -> list[Interval]:
    """Read `window_start` and `window_end`, microseconds; one for each row, in order."""
    starts, ends = (list_values(rows[name].cast(pa.int64())) for name in ("window_start", "window_end"))
    return [Interval(start, end) for start, end in zip(starts, ends, strict=True)]


def list_values(column: "pa.ChunkedArray[Any]") -> list[Any]:
    """Return the values of a column that holds no null."""
    values: list[Any] = column.to_pylist()
    return values


def bounds(window: Interval) -> dict[str, int]:
    """`window_start` and `window_end`, microseconds; the inverse of `list_row_windows`."""
    return {"window_start": window.start, "window_end": window.end}


def keys(rows: pa.Table, pipeline: Pipeline) -> list[Key]:
    """Return the keys of rows: the value of the one key column, a tuple where there are several."""
    columns = [rows[name].to_pylist() for name in pipeline.key]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def make_key_columns(key: Key, pipeline: Pipeline) -> dict[str, Any]:
    """Column to value; the inverse of `keys`."""
    values = key if len(pipeline.key) != 1 and isinstance(key, tuple) else (key,)
    return dict(zip(pipeline.key, values, strict=True))


def partials(rows: pa.Table, pipeline: Pipeline) -> list[Partial]:
    """Return the state columns and `_n` of rows."""
    columns = [rows[state.column].to_pylist() for state in compile_pipeline(pipeline).states]
    return [Partial(tuple(states), int(n)) for *states, n in zip(*columns, rows["_n"].to_pylist(), strict=True)]


def state_columns(partial: Partial, pipeline: Pipeline) -> dict[str, Any]:
    """Column to state, and `_n`: how many records; the inverse of `partials`."""
    names = (state.column for state in compile_pipeline(pipeline).states)
    return {**dict(zip(names, partial.states, strict=True)), "_n": partial.records}


def merge_arrivals(arrivals: Iterable[Arrival], pipeline: Pipeline) -> list[Arrival]:
    """Return arrivals with those of one window and key as one (of sessions: those that touch), by end, start, key."""
    touches = can_merge if pipeline.window.merges else Interval.__eq__
    by_key: dict[Key, list[Arrival]] = {}
    for arrival in arrivals:
        by_key.setdefault(arrival.key, []).append(arrival)
    merged = [joined for several in by_key.values() for joined in _merge_sessions(several, touches)]
    return sorted(merged, key=lambda merged_arrival: in_order(merged_arrival.window, merged_arrival.key))


def _merge_sessions(several: list[Arrival], touches: Callable[[Interval, Interval], bool]) -> list[Arrival]:
    arrivals: list[Arrival] = []
    for later_arrival in sorted(several, key=lambda arrival: arrival.window):
        if arrivals and touches(arrivals[-1].window, later_arrival.window):
            previous = arrivals.pop()
            window = Interval(previous.window.start, max(previous.window.end, later_arrival.window.end))
            contents, rows = (*previous.contents, *later_arrival.contents), previous.rows + later_arrival.rows
            arrivals.append(Arrival(window=window, key=later_arrival.key, contents=contents, rows=rows))
        else:
            arrivals.append(later_arrival)
    return arrivals


def make_fold_function(pipeline: Pipeline, several: Iterable[Contents]) -> Callable[[Contents], Contents]:
    """Return a function that gives of each of these contents what they fold to: one partial aggregate, or none."""
    groups = {_name(contents): contents for contents in several if len(contents) > 1}
    merged = dict(zip(groups, _fold(pipeline, list(groups.values())), strict=True)) if groups else {}
    return lambda contents: merged.get(_name(contents), contents)


def _name(contents: Contents) -> tuple[int, ...]:
    return tuple(id(partial) for partial in contents)


def _fold(pipeline: Pipeline, groups: Sequence[Contents]) -> list[Contents]:
    """Return one partial aggregate for each group; the number of the group takes the window's place."""
    rows = [
        {"window_start": number, "window_end": number, "_class": Class.ACCEPTED.value}
        | state_columns(partial, pipeline)
        for number, contents in enumerate(groups)
        for partial in contents
    ]
    with queries.open_duckdb() as connection:
        connection.register("several", pa.Table.from_pylist(rows, schema=partial_schema(pipeline)))
        table = queries.query_table(connection, f"{fold_sql(pipeline, 'several')} ORDER BY window_start")
    return [(partial,) for partial in partials(table, pipeline)]


def is_closed(pipeline: Pipeline, window: Interval, watermark: int) -> bool:
    """Return whether no row can come into a window any more."""
    return compute_closing_watermark(pipeline.window, pipeline.lateness, window.end) <= watermark
