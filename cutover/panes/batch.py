"""Batch runner: one pane per window and key, once all input has arrived. It needs no trigger; no row is late."""

from bisect import bisect_right
from collections.abc import Sequence

from cutover.definition.measures.kinds import Measure
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.panes.model import InputRow, Key, Outcome, Pane, Setting, Timing, find_end_of_input, in_order
from cutover.records.reference.measures import finish_measure, merge_measure

Group = tuple[Key, Interval]


def run(setting: Setting) -> Outcome:
    """Return the result of every window and key, by end of the window, start, key.

    All panes are emitted once all input has arrived. Trigger, accumulation and allowed lateness do not matter; of the
    watermark, only the time at which it reaches the end does.

    Source:
        Akidau et al., The Dataflow Model, VLDB 2015, figures 6 and 10.
    """
    completed_at = find_end_of_input(setting.rows, setting.watermark)
    groups = _group_rows(setting)
    return Outcome(
        panes=tuple(
            Pane(
                window=window,
                key=key,
                value=_compute_measure(setting.measure, groups[key, window]),
                timing=Timing.ON_TIME,
                index=0,
                processing_time=completed_at,
            )
            for key, window in sorted(groups, key=lambda group: in_order(group[1], group[0]))
        )
    )


def _compute_measure(measure: Measure, rows: Sequence[InputRow]) -> object:
    """Fold all rows and finish the measure; ties are broken by arrival."""
    column = measure.expression
    values = [None if column is None else row.columns[column] for row in rows]
    places = [(row.event_time, 0, position) for position, row in enumerate(rows)]
    return finish_measure(measure, merge_measure(measure, values, places))


def _group_rows(setting: Setting) -> dict[Group, list[InputRow]]:
    groups: dict[Group, list[InputRow]] = {}
    sessions = _merge_sessions(setting)
    for row in setting.rows:
        for window in setting.window.assign_windows(row.event_time):
            merged = sessions.get(row.key)
            session = window if merged is None else merged[bisect_right(merged, window.start, key=_start) - 1]
            groups.setdefault((row.key, session), []).append(row)
    return groups


def _start(window: Interval) -> int:
    return window.start


def _merge_sessions(setting: Setting) -> dict[Key, tuple[Interval, ...]]:
    """Return the sessions of every key; an empty mapping for other kinds of window."""
    if not setting.window.merges:
        return {}
    windows: dict[Key, list[Interval]] = {}
    for row in setting.rows:
        windows.setdefault(row.key, []).extend(setting.window.assign_windows(row.event_time))
    return {key: merge_intervals(intervals) for key, intervals in windows.items()}
