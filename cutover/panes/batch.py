"""Classic batch: one pane a window and key, once all input is in. Needs no trigger; nothing is late."""

from cutover.definition.windows import Interval, Sessions, merged
from cutover.panes.model import Key, Outcome, Pane, Row, Setting, Timing, in_order
from cutover.panes.reference import measured
from cutover.panes.watermarks import all_in

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
                value=measured(setting, groups[key, window]),
                timing=Timing.ON_TIME,
                index=0,
                processing_time=done,
            )
            for key, window in sorted(groups, key=lambda group: in_order(group[1], group[0]))
        )
    )


def _groups(setting: Setting) -> dict[Group, list[Row]]:
    groups: dict[Group, list[Row]] = {}
    sessions = _sessions(setting)
    for row in setting.rows:
        for window in setting.window.intervals(row.event_time):
            whole = next((one for one in sessions.get(row.key, ()) if one.start <= window.start < one.end), window)
            groups.setdefault((row.key, whole), []).append(row)
    return groups


def _sessions(setting: Setting) -> dict[Key, tuple[Interval, ...]]:
    """Return the sessions of every key; none of other windows."""
    if not isinstance(setting.window, Sessions):
        return {}
    alone: dict[Key, list[Interval]] = {}
    for row in setting.rows:
        alone.setdefault(row.key, []).extend(setting.window.intervals(row.event_time))
    return {key: merged(intervals) for key, intervals in alone.items()}
