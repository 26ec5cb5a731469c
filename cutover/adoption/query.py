"""What the operators in the state of a streaming query say about its grouping, its aggregates and its deduplication."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutover.errors import DefinitionError
from cutover.positions.spark_checkpoint import (
    DEDUPLICATIONS,
    GROUPING,
    JOIN,
    SESSIONS,
    LateRule,
    Operator,
    SparkCheckpoint,
    StateField,
)

SUM_DIGITS = 10
"""Digits that Spark adds to the precision of a decimal that it sums."""

DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)", re.IGNORECASE)
_BUFFERS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("n", "avg", "m2"), ("Variance", "Stddev")),
    (("sum", "isEmpty"), ("Sum",)),
    (("sum", "count"), ("Avg",)),
    (("sum",), ("Sum",)),
    (("count",), ("Count",)),
    (("max",), ("Max",)),
    (("min",), ("Min",)),
)
"""Names of successive buffers in the state, and the measures that have them; the longest match counts."""

SCHEMA_TYPES: Mapping[str, str] = {
    "long": "bigint",
    "integer": "int",
    "short": "int",
    "byte": "int",
    "double": "double",
    "float": "double",
    "string": "string",
    "boolean": "boolean",
    "timestamp": "timestamp",
    "date": "date",
}
"""Type as Spark names it in a schema in JSON -> type of our schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Aggregate of a grouping, decoded from its buffers."""

    measures: tuple[str, ...]  # classes of measures with these buffers; empty: none that a followed job may have
    buffers: tuple[str, ...]  # names of the buffers

    def describe(self) -> str:
        """Describe the aggregate for people."""
        return " or ".join(self.measures) or f"unknown ({', '.join(self.buffers)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryShape:
    """Shape of a query: one topic, an optional deduplication by an id, and an optional grouping by windows."""

    topic: str
    is_grouped: bool
    keys: tuple[StateField, ...]  # of the grouping, without the window
    aggregates: tuple[Aggregate, ...]  # in the order of the query
    deduplicated_by: str | None  # name of the id in the query; None: the state has no deduplication
    deduplicated_time: str | None  # name of the event time, if it is in the state of the deduplication
    delay: int | None  # of the watermark, microseconds; None: no operator has one
    drops_late: bool  # outside of complete mode; sessions there, too
    has_sessions: bool = False
    day: StateField | None = None  # time by which the query groups without `window`, such as a day of a zone

    def describe_operators(self) -> str:
        """Describe the operators for people."""
        window = "session" if self.has_sessions else "window" if self.day is None else self.day.name
        grouping = f"grouping by {window}, {', '.join(key.name for key in self.keys)}" if self.is_grouped else ""
        once = f"deduplication by {self.deduplicated_by}" if self.deduplicated_by else ""
        return " behind a ".join(filter(None, (grouping, once))) or "no state"


def describe_query(checkpoint: SparkCheckpoint) -> QueryShape:
    """Describe the shape of a query.

    Raises:
        DefinitionError: It reads several topics, or has operators that `cutover follow` cannot repeat.
    """
    topics = sorted({topic for batch in checkpoint.batches for topic in batch.ends})
    if len(topics) > 1 and any(operator.name == JOIN for operator in checkpoint.operators):
        msg = f"--checkpoint: expected a query whose definition can be proposed, it joins {' and '.join(topics)}."
        hint = "\nHint: the condition of a join is not in its checkpoint. docs/follow.md shows a definition with "
        raise DefinitionError(msg + hint + "`Join(between=...)` to write by hand; `cutover follow` repeats it.")
    if len(topics) != 1:
        msg = f"--checkpoint: expected a query that reads one topic, its offsets name {', '.join(topics) or 'none'}."
        raise DefinitionError(msg + "\nHint: docs/follow.md lists which jobs can be followed.")
    reason = next(_list_obstacles(checkpoint.operators), None)
    if reason is not None:
        operators = ", ".join(f"{operator.name} ({operator.late_rule})" for operator in checkpoint.operators)
        msg = f"--checkpoint: expected a query whose definition can be proposed, it has {operators}: {reason}."
        hint = "\nHint: docs/follow.md lists which jobs can be followed, and shows a definition to write by hand."
        raise DefinitionError(msg + hint)
    grouping = next((operator for operator in checkpoint.operators if operator.name in {GROUPING, SESSIONS}), None)
    once = next((operator for operator in checkpoint.operators if operator.name in DEDUPLICATIONS), None)
    delays = [operator.watermark_delay for operator in checkpoint.operators if operator.watermark_delay is not None]
    day = None if grouping is None else _find_day(grouping)
    return QueryShape(
        topic=topics[0],
        is_grouped=grouping is not None,
        keys=() if grouping is None else tuple(field for field in _list_keys(grouping) if field != day),
        aggregates=() if grouping is None else tuple(decode_aggregates(_list_buffers(grouping))),
        deduplicated_by=None if once is None else _list_ids(once)[0],
        deduplicated_time=None if once is None else next(iter(_list_times(once)), None),
        delay=min(delays, default=None),
        drops_late=any(operator.late_rule in {LateRule.WINDOW, LateRule.ROW} for operator in checkpoint.operators),
        has_sessions=grouping is not None and grouping.name == SESSIONS,
        day=day,
    )


def _list_keys(grouping: Operator) -> list[StateField]:
    """List the keys of a grouping, without its window; of sessions, the last field is the start of a session."""
    keys = [field for field in grouping.fields if field.is_key and not field.is_window]
    return keys[:-1] if grouping.name == SESSIONS else keys


def _list_buffers(grouping: Operator) -> list[StateField]:
    """List the buffers of a grouping; the state of sessions has them behind the keys and the session."""
    values = [field for field in grouping.fields if not field.is_key]
    return values[len(_list_keys(grouping)) + 1 :] if grouping.name == SESSIONS else values


def _find_day(grouping: Operator) -> StateField | None:
    """Find the time by which a query groups without the function `window`; None: it has a window, or no such time."""
    if grouping.name != GROUPING or any(field.is_window for field in grouping.fields):
        return None
    return next((field for field in grouping.fields if field.is_key and field.type in {"date", "timestamp"}), None)


def _list_obstacles(operators: Sequence[Operator]) -> Iterator[str]:
    """Yield why a query cannot be followed."""
    for operator in operators:
        yield from _list_operator_obstacles(operator)
    for names in ({GROUPING, SESSIONS}, {*DEDUPLICATIONS}):
        if sum(operator.name in names for operator in operators) > 1:
            yield "several operators of one kind may have watermarks that the checkpoint does not show"
    names = {operator.name for operator in operators}
    if SESSIONS in names and len(names) > 1:
        yield "a deduplication before sessions cannot be followed"


def _list_operator_obstacles(operator: Operator) -> Iterator[str]:
    columns = ", ".join(operator.columns) or "unknown columns"
    if operator.name not in {GROUPING, SESSIONS, *DEDUPLICATIONS}:
        yield f"which records {operator.name} drops is not in the checkpoint, or differs from our rule"
    elif operator.late_rule is LateRule.UNKNOWN:
        yield f"which records {operator.name} by {columns} drops is unknown"
    elif operator.name in DEDUPLICATIONS and len(_list_ids(operator)) != 1:
        yield f"it deduplicates by {columns}, not by one id"
    elif operator.name in {GROUPING, SESSIONS}:
        day = _find_day(operator)
        if operator.name == GROUPING and day is None and not any(field.is_window for field in operator.fields):
            yield f"its grouping by {columns} has no window of the function `window`, and no time"
        if not [field for field in _list_keys(operator) if field != day]:
            yield "its grouping has no key besides the window"


def _list_ids(operator: Operator) -> list[str]:
    times = set(_list_times(operator))
    return [field.name for field in operator.fields if field.is_key and field.name not in times]


def _list_times(operator: Operator) -> list[str]:
    timed = [field.name for field in operator.fields if field.is_key and field.is_timed]
    return timed or [field.name for field in operator.fields if field.is_key and field.type == "timestamp"]


def decode_aggregates(buffers: Sequence[StateField]) -> Iterator[Aggregate]:
    """Decode the aggregates of a grouping from their buffers, in the order of the query.

    `Count` has a `count` that is never null, `Avg` one that may be: so a sum before a count is told from an average.
    """
    remaining = list(buffers)
    while remaining:
        names, measures = next(
            (known for known in _BUFFERS if _has_buffers(remaining, known[0])), ((remaining[0].name,), ())
        )
        yield Aggregate(measures=measures, buffers=names)
        remaining = remaining[len(names) :]


def _has_buffers(fields: Sequence[StateField], names: tuple[str, ...]) -> bool:
    if tuple(field.name for field in fields[: len(names)]) != names:
        return False
    return "count" not in names or fields[len(names) - 1].nullable is (names != ("count",))
