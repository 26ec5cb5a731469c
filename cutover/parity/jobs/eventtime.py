"""Which columns carry the event time of a watermark: Spark keeps it as metadata of a column, and loses it in others."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from cutover.parity.jobs.values import Frame, JobColumn, list_ancestors

UNIONS = frozenset({"union", "unionAll", "unionByName"})
"""Operations whose columns are those of the first DataFrame, with its metadata."""

RENAMES = frozenset({"toDF", "withColumnsRenamed"})
"""Steps that give names which are not followed."""

NO_NAMES = frozenset[str]()


def has_event_time(state: Frame, mark: Frame, frames: Sequence[Frame]) -> bool | None:
    """Return whether the event time of a watermark, or a window of it, is among the keys of a state.

    None: it cannot be told.
    """
    if state.keys is None or not mark.columns or not mark.columns[0].names:
        return None
    names = _carry(state, mark, {}, into_keys=True)
    keys = [(key, find_window(key, frames)) for key in state.keys]
    if any(_carries(window if window is not None else key, names) for key, window in keys):
        return True
    hidden = any(key.varies or (not key.names and not key.is_window) for key in state.keys)
    lost = mark.columns[0].varies or any(frame.op in {"opaque", "unknown"} or frame.what in RENAMES for frame in frames)
    return None if hidden or lost else False


class JoinBound(StrEnum):
    """Sides of a join whose event time is bounded by its condition."""

    BOTH = "both"
    ONE = "one"
    NONE = "none"
    UNKNOWN = "unknown"


def bound_join(join: Frame) -> JoinBound:
    """Return the sides of a join on which its condition bounds the event time by that of the other side.

    Source:
        Spark's `StreamingJoinHelper`: a side lets rows go by an inequality between its column of the watermark and that
        of the other side; other columns, whatever they hold, say nothing about time.
    """
    if join.is_bounded is None:
        return JoinBound.UNKNOWN
    parent = list_ancestors(join)[1:]
    left, right = (_list_times(side) for side in join.parents)
    keys = join.keys or ()
    if any(find_window(key, parent) or (key.is_plain and key.names & left & right) for key in keys):
        return JoinBound.BOTH
    upper = [pair for pair in join.comparisons if pair[0] & left and pair[1] & right]
    lower = [pair for pair in join.comparisons if pair[0] & right and pair[1] & left]
    if upper and lower and len(upper + lower) > 1 + (upper == lower):  # `a.at > b.at` has one name on both sides
        return JoinBound.BOTH
    if any(frame.op in {"opaque", "unknown"} or frame.what in RENAMES for frame in parent) or any(
        key.varies and not key.names for key in keys
    ):
        return JoinBound.UNKNOWN
    return JoinBound.ONE if upper or lower else JoinBound.NONE


def _list_times(side: Frame) -> frozenset[str]:
    """Return the columns of one side of a join that carry the event time of a watermark."""
    marks = [frame for frame in list_ancestors(side) if frame.op == "watermark"]
    return NO_NAMES.union(*(_carry(side, mark, {}) for mark in marks))


def find_window(key: JobColumn, frames: Iterable[Frame]) -> JobColumn | None:
    """Return the window of time that a key is, or that a step before named so."""
    if key.is_window:
        return key
    if not key.is_plain:
        return None
    named = (column for frame in frames for column in frame.columns)
    return next((item for item in named if item.is_window and (item.alias or "window") in key.names), None)


def find_loss(state: Frame, mark: Frame) -> Frame | None:
    """Return the operation after which the column of a watermark no longer carries the event time."""
    names_by_frame: dict[int, frozenset[str]] = {}
    _carry(state, mark, names_by_frame, into_keys=True)
    behind = [frame for frame in list_ancestors(state)[1:] if mark in list_ancestors(frame) and frame is not mark]
    lost = [
        frame
        for frame in behind
        if frame.op != "arm" and not _carry(frame, mark, names_by_frame) & mark.columns[0].names
    ]
    return lost[-1] if lost else None


def _carries(column: JobColumn, names: frozenset[str]) -> bool:
    return column.is_plain and bool(column.names & names)


def _carry(
    frame: Frame, mark: Frame, names_by_frame: dict[int, frozenset[str]], *, into_keys: bool = False
) -> frozenset[str]:
    """Return the columns of a DataFrame, or those that its keys are made of, that carry the event time."""
    if frame is mark:
        return mark.columns[0].names
    if id(frame) not in names_by_frame:
        parents = frame.parents[:1] if frame.what in UNIONS else frame.parents
        before = NO_NAMES.union(*(_carry(parent, mark, names_by_frame) for parent in parents))
        names_by_frame[id(frame)] = before if into_keys else _pass_on(frame, before)
    return names_by_frame[id(frame)]


def _pass_on(frame: Frame, names: frozenset[str]) -> frozenset[str]:
    """Return which columns carry the event time behind an operation, by those before it."""
    if frame.op == "aggregate" and frame.keys is not None:
        parents = frame.parents
        pairs = [(key, find_window(key, parents) or key) for key in frame.keys]
        return frozenset(name for key, column in pairs if _carries(column, names) for name in _name(key))
    if frame.op != "step":
        return names
    columns_by_alias = {column.alias: column for column in frame.columns if column.alias}
    retained = {
        alias
        for alias, column in columns_by_alias.items()
        if _carries(column, names) or (column.is_window and names & {alias, "window"})
    }
    return frozenset({*(names - columns_by_alias.keys()), *retained})


def _name(key: JobColumn) -> frozenset[str]:
    """Return how a key is called behind its grouping."""
    return frozenset({key.alias}) if key.alias else frozenset({"window"}) if key.is_window else key.names
