"""Classic batch: one pane a window and key, once all input is in. Needs no trigger; nothing is late."""

from bisect import bisect_right
from collections.abc import Sequence

from cutover.definition.measures.kinds import Measure
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.panes.model import InputRow, Key, Outcome, Pane, Setting, Timing, in_order
from cutover.panes.watermarks import all_in
from cutover.records.reference.measures import finish, value_of

Group = tuple[Key, Interval]


def run(setting: Setting) -> Outcome:
    """Return the result of every window and key, by end of the window, start, key.

    All come out once all input is in. Trigger, accumulation and allowed lateness do not matter, and of the watermark
    only when it reaches the end.

    Source:
        Akidau et al., The Dataflow Model, VLDB 2015, figures 6 and 10.
    """
    done = all_in(setting.rows, setting.watermark)
    groups = _groups(setting)
    return Outcome(
        panes=tuple(
            Pane(
                window=window,
                key=key,
                value=_compute_measure(setting.measure, groups[key, window]),
                timing=Timing.ON_TIME,
                index=0,
                processing_time=done,
            )
            for key, window in sorted(groups, key=lambda group: in_order(group[1], group[0]))
        )
    )


def _compute_measure(measure: Measure, rows: Sequence[InputRow]) -> object:
    """Fold rows at once and finish; ties go by arrival."""
    column = measure.expression
    values = [None if column is None else row.columns[column] for row in rows]
    places = [(row.event_time, 0, arrived) for arrived, row in enumerate(rows)]
    return finish(measure, value_of(measure, values, places))


def _groups(setting: Setting) -> dict[Group, list[InputRow]]:
    groups: dict[Group, list[InputRow]] = {}
    sessions = _sessions(setting)
    for row in setting.rows:
        for window in setting.window.assign_windows(row.event_time):
            of_key = sessions.get(row.key)
            whole = window if of_key is None else of_key[bisect_right(of_key, window.start, key=_start) - 1]
            groups.setdefault((row.key, whole), []).append(row)
    return groups


def _start(window: Interval) -> int:
    return window.start


def _sessions(setting: Setting) -> dict[Key, tuple[Interval, ...]]:
    """Return the sessions of every key; none of other windows."""
    if not setting.window.merges:
        return {}
    alone: dict[Key, list[Interval]] = {}
    for row in setting.rows:
        alone.setdefault(row.key, []).extend(setting.window.assign_windows(row.event_time))
    return {key: merge_intervals(intervals) for key, intervals in alone.items()}
