"""Propagation of a watermark's event time, which Spark stores as column metadata, through the steps of a query."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from cutover.parity.jobs.values import Comparison, Frame, JobColumn, list_ancestors

UNIONS = frozenset({"union", "unionAll", "unionByName"})
"""Operations that take columns and metadata from the first DataFrame."""

RENAMES = frozenset({"toDF", "withColumnsRenamed"})
"""Steps whose new column names are not tracked."""

UNPUSHABLE = frozenset({"limit", "offset", "sample", "mapInPandas", "mapInArrow"})
"""Steps below which Spark pushes no filter."""

NO_NAMES = frozenset[str]()


def has_event_time(state: Frame, watermark: Frame, frames: Sequence[Frame]) -> bool | None:
    """Return whether the event time of a watermark, or a window of it, is among the keys of a state.

    None: unknown.
    """
    if state.keys is None or not watermark.columns or not watermark.columns[0].names:
        return None
    names = _find_event_time_columns(state, watermark, {}, for_keys=True)
    keys = [(key, find_window(key, frames)) for key in state.keys]
    if any(_carries(window if window is not None else key, names) for key, window in keys):
        return True
    has_unknown_key = any(key.varies or (not key.names and not key.is_window) for key in state.keys)
    may_be_renamed = watermark.columns[0].varies or any(
        frame.op in {"opaque", "unknown"} or frame.subject in RENAMES for frame in frames
    )
    return None if has_unknown_key or may_be_renamed else False


class JoinBound(StrEnum):
    """Sides of a join whose event time the condition bounds."""

    BOTH = "both"
    ONE = "one"
    NONE = "none"
    UNKNOWN = "unknown"


def push_down_filters(lineage: Sequence[Frame], join: Frame) -> list[Frame]:
    """Return an inner join once per path to it, with the filters after it in its condition, as Spark plans it."""
    if join.how not in {"inner", "?"}:
        return [join]
    joins: list[Frame] = []
    pending: list[tuple[Frame, tuple[JobColumn, ...]]] = [(lineage[0], ())]
    visited = set[tuple[int, tuple[JobColumn, ...]]]()
    while pending:
        frame, conditions = pending.pop()
        if (id(frame), conditions) in visited:
            continue
        visited.add((id(frame), conditions))
        if frame is join:
            pairs = tuple(pair for condition in conditions for pair in condition.comparisons)
            keys = None if join.keys is None else (*join.keys, *(key for key in conditions if key.varies))
            is_unknown = join.selects_new_rows is None or (join.how == "?" and bool(pairs))
            selects_new_rows = None if is_unknown else join.selects_new_rows
            joins.append(
                replace(join, comparisons=(*join.comparisons, *pairs), keys=keys, selects_new_rows=selects_new_rows)
            )
        else:
            pending += [(parent, _push_through(frame, conditions)) for parent in frame.parents]
    return joins


def _push_through(frame: Frame, conditions: tuple[JobColumn, ...]) -> tuple[JobColumn, ...]:
    """Return the conditions that Spark pushes below an operation, over the columns before it."""
    if frame.op == "filter":
        return (*conditions, *(frame.keys or ()))
    if frame.op not in {"step", "branch"} or len(frame.parents) != 1 or frame.subject in UNPUSHABLE:
        return ()
    sources = {column.alias: column.names for column in frame.columns if column.alias}
    if not sources:
        return conditions
    return tuple(
        replace(condition, comparisons=tuple(_rename_sides(pair, sources) for pair in condition.comparisons))
        for condition in conditions
    )


def _rename_sides(comparison: Comparison, sources: Mapping[str, frozenset[str]]) -> Comparison:
    lesser, greater = (NO_NAMES.union(*(sources.get(name, {name}) for name in names)) for names in comparison)
    return lesser, greater


def find_bounded_sides(join: Frame) -> JoinBound:
    """Find the sides of a join on which the condition bounds the event time by that of the other side.

    Source:
        Spark's `StreamingJoinHelper`: rows of a side are removed by an inequality between its watermark column and that
        of the other side; inequalities between other columns do not bound time.
    """
    if join.selects_new_rows is None:
        return JoinBound.UNKNOWN
    ancestors = list_ancestors(join)[1:]
    left_times, right_times = (_list_times(side) for side in join.parents)
    keys = join.keys or ()
    if any(find_window(key, ancestors) or (key.is_plain and key.names & left_times & right_times) for key in keys):
        return JoinBound.BOTH
    upper_bounds = [pair for pair in join.comparisons if pair[0] & left_times and pair[1] & right_times]
    lower_bounds = [pair for pair in join.comparisons if pair[0] & right_times and pair[1] & left_times]
    if (
        upper_bounds and lower_bounds and len(upper_bounds + lower_bounds) > 1 + (upper_bounds == lower_bounds)
    ):  # `a.at > b.at` has one name on both sides
        return JoinBound.BOTH
    if any(frame.op in {"opaque", "unknown"} or frame.subject in RENAMES for frame in ancestors) or any(
        key.varies and not key.names for key in keys
    ):
        return JoinBound.UNKNOWN
    return JoinBound.ONE if upper_bounds or lower_bounds else JoinBound.NONE


def _list_times(side: Frame) -> frozenset[str]:
    """List the columns of one side of a join that carry the event time of a watermark."""
    watermarks = [frame for frame in list_ancestors(side) if frame.op == "watermark"]
    return NO_NAMES.union(*(_find_event_time_columns(side, watermark, {}) for watermark in watermarks))


def find_window(key: JobColumn, frames: Iterable[Frame]) -> JobColumn | None:
    """Find the time window that a key is, or that an earlier step named like the key."""
    if key.is_window:
        return key
    if not key.is_plain:
        return None
    step_columns = (column for frame in frames for column in frame.columns)
    return next(
        (column for column in step_columns if column.is_window and (column.alias or "window") in key.names), None
    )


def find_loss(state: Frame, watermark: Frame) -> Frame | None:
    """Find the operation after which the watermark column no longer carries the event time."""
    names_by_frame: dict[int, frozenset[str]] = {}
    _find_event_time_columns(state, watermark, names_by_frame, for_keys=True)
    descendants = [
        frame for frame in list_ancestors(state)[1:] if watermark in list_ancestors(frame) and frame is not watermark
    ]
    losses = [
        frame
        for frame in descendants
        if frame.op != "branch"
        and not _find_event_time_columns(frame, watermark, names_by_frame) & watermark.columns[0].names
    ]
    return losses[-1] if losses else None


def _carries(column: JobColumn, names: frozenset[str]) -> bool:
    return column.is_plain and bool(column.names & names)


def _find_event_time_columns(
    frame: Frame, watermark: Frame, names_by_frame: dict[int, frozenset[str]], *, for_keys: bool = False
) -> frozenset[str]:
    """Find the columns of a DataFrame, or of its input if `for_keys`, that carry the event time."""
    if frame is watermark:
        return watermark.columns[0].names
    if id(frame) not in names_by_frame:
        parents = frame.parents[:1] if frame.subject in UNIONS else frame.parents
        input_names = NO_NAMES.union(
            *(_find_event_time_columns(parent, watermark, names_by_frame) for parent in parents)
        )
        names_by_frame[id(frame)] = input_names if for_keys else _propagate_columns(frame, input_names)
    return names_by_frame[id(frame)]


def _propagate_columns(frame: Frame, names: frozenset[str]) -> frozenset[str]:
    """Return the columns that carry the event time after an operation, given those before it."""
    if frame.op == "aggregate" and frame.keys is not None:
        parents = frame.parents
        pairs = [(key, find_window(key, parents) or key) for key in frame.keys]
        return frozenset(name for key, column in pairs if _carries(column, names) for name in _get_output_names(key))
    if frame.op != "step":
        return names
    columns_by_alias = {column.alias: column for column in frame.columns if column.alias}
    kept_aliases = {
        alias
        for alias, column in columns_by_alias.items()
        if _carries(column, names) or (column.is_window and names & {alias, "window"})
    }
    return frozenset({*(names - columns_by_alias.keys()), *kept_aliases})


def _get_output_names(key: JobColumn) -> frozenset[str]:
    """Return the column names of a key after its grouping."""
    return frozenset({key.alias}) if key.alias else frozenset({"window"}) if key.is_window else key.names
