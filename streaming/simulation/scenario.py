"""A scenario as a pipeline and a log: what is sent, how it is defined, and what the epoch log says of it."""

import json
from dataclasses import replace
from decimal import Decimal

from cutover.definition.measures.kinds import Avg, Count, Measure
from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.definition.model.topic import Topic
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.panes.event_schedule import arriving
from cutover.panes.model import Dropped, DropReason, InputRow, Key, Outcome, Pane, Setting, Waiting, in_order
from cutover.records.classes import Class
from cutover.records.reference.measures import finish_measure
from cutover.streaming.panes import rows as pane_rows
from cutover.streaming.panes import values as pane_values
from cutover.streaming.panes.values import Partial
from cutover.timestamps import from_micros

DIGITS = 38
LAST_EPOCH = 2**62


def pipeline_of(setting: Setting, topic: str) -> Pipeline:
    """Return the pipeline that does with a topic what a setting says.

    Raises:
        DefinitionError: Its numbers do not fit into a column.
    """
    return Pipeline(
        name="scenario",
        source=Topic(
            name=topic,
            schema=f"key string, event_time timestamp NOT NULL, value {_number_type(setting)}",
            event_time="event_time",
        ),
        key=("key",),
        window=setting.window,
        measures={"value_": _measure(setting.measure)},
        lateness=Lateness(allowed=f"{(setting.allowed_lateness or 0) // 1000} milliseconds"),
        trigger=setting.trigger,
        accumulation=setting.accumulation,
        max_rows_per_epoch=1,
    )


def record_of(setting: Setting, row: InputRow) -> bytes:
    """Write `key`, `event_time` and `value` as JSON bytes."""
    moment = from_micros(row.event_time).isoformat()
    value = _value(setting, row)
    number = "null" if value is None else f"{value:f}"
    return f'{{"key": {json.dumps(_key_text(row.key))}, "event_time": "{moment}", "value": {number}}}'.encode()


def outcome_of(setting: Setting, pipeline: Pipeline, log: EpochLog) -> Outcome:
    """Return what an epoch log says came out, if each of its epochs with data holds one row of the one partition.

    Raises:
        LakeError: It does not hold every row, as the scenario has it.
    """
    _reject_lost(setting, log)
    story = pane_rows.read_history(log.table, pipeline)
    waiting = [Waiting(window=window, key=_key(key), rows=rows) for window, key, rows in story.unshown_rows if rows]
    return Outcome(
        panes=tuple(_pane(setting, pane) for pane in story.panes),
        dropped=_collect_dropped(setting, log, story),
        waiting=tuple(sorted(waiting, key=lambda waiting_row: in_order(waiting_row.window, waiting_row.key))),
    )


def _reject_lost(setting: Setting, log: EpochLog) -> None:
    records = log.records()
    windowed = (Class.ACCEPTED, Class.LATE)
    other = sum(n for record in records for name, n in record.counts.items() if name not in windowed)
    read = sum(record.end.get(0, 0) - record.start.get(0, 0) for record in records)
    if other or read != len(setting.rows):
        msg = f"Scenario: expected an epoch log that holds each of {len(setting.rows)} points, it has read {read} "
        msg += f"and refused {other}.\nHint: `--runner reference` takes any text as a key."
        raise LakeError(msg)


def _pane(setting: Setting, pane: Pane) -> Pane:
    value = _finish_measure(setting.measure, pane.value[0])
    return replace(pane, key=_key(pane.key), value=value)


def _collect_dropped(setting: Setting, log: EpochLog, story: pane_rows.PaneHistory) -> tuple[Dropped, ...]:
    rows, began = arriving(setting), {record.epoch: record.start.get(0, 0) for record in log.records()}
    ended = [(began[epoch], window, DropReason.TRIGGER_ENDED) for epoch, window in story.dropped]
    late = [(offset, window, DropReason.TOO_LATE) for offset, window in _list_late_rows(log)]
    return tuple(
        Dropped(row=rows[offset], window=window, reason=reason) for offset, window, reason in sorted([*ended, *late])
    )


def _list_late_rows(log: EpochLog) -> list[tuple[int, Interval]]:
    """(offset, window) of each row of class late in the ledger."""
    with queries.connect() as connection:
        log.relation(connection, "ledger", epoch=LAST_EPOCH)
        query = f"SELECT *, _positions[1].offset AS at FROM ledger WHERE _class = '{Class.LATE}'"  # noqa: S608 -- ours
        table = queries.read_table(connection, query)
    return list(zip(pane_values.list_values(table["at"]), pane_values.windows(table), strict=True))


def _measure(measure: Measure) -> Measure:
    return measure if isinstance(measure, Count) else replace(measure, expression="value")


def _finish_measure(measure: Measure, partial: Partial) -> object:
    return finish_measure(measure, partial.states if isinstance(measure, Avg) else partial.states[0])


def _value(setting: Setting, row: InputRow) -> Decimal | None:
    column = setting.measure.expression
    value = None if column is None else row.columns[column]
    return None if value is None else Decimal(value)


def _number_type(setting: Setting) -> str:
    """Return a type that takes every number of a setting, and their sum."""
    values = [value for row in setting.rows if (value := _value(setting, row)) is not None]
    scale = max((-int(value.as_tuple().exponent) for value in values), default=0)
    scale = max(scale, 0)
    total = sum(abs(value) for value in values)
    if total >= 10 ** (DIGITS - scale):
        msg = f"points: expected numbers whose sum has at most {DIGITS} digits with {scale} behind the point."
        raise DefinitionError(msg + "\nHint: `--runner reference` takes any.")
    return f"decimal({DIGITS},{scale})"


def _key_text(key: Key) -> str | None:
    """Put the type first, so that texts sort as the keys of a pane do."""
    return None if key is None else f"{type(key).__name__} {key}"


def _key(text: Key) -> Key:
    if not isinstance(text, str):
        return None
    kind, _, key = text.partition(" ")
    return int(key) if kind == "int" else key
