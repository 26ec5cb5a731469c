"""Guess a schema from sample values: types, time columns, a key, something to add up. People correct what is wrong."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Literal

from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.model.instants import micros_of
from cutover.definition.model.schema import IDENTIFIER, RESERVED, RESERVED_PREFIX
from cutover.definition.model.topic import TimeFormat
from cutover.definition.proposal.pace import Pace, SampleTime, pace

ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
WHOLE = re.compile(r"-?(0|[1-9]\d*)")
BIGINT_BITS, BIGINT_DIGITS = 63, 20
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
YEARS_2000_TO_2100 = (946_684_800, 4_102_444_800)
LOG_WORDS = ("arriv", "receiv", "ingest", "log", "process", "publish", "produced", "sent", "load")
EVENT_WORDS = ("event", "occur", "happen", "schedul", "creat", "start", "order", "click", "time", "date", "ts", "at")
ID_WORDS = ("id", "seq", "number", "uuid", "key")
SPAN_WORDS = ("delay", "duration", "latency", "lag", "wait", "elapsed", "age", "took", "gap", "offset")
"""Numbers that say how long: the sum of delays tells nobody anything."""
LEVEL_WORDS = (
    "rate",
    "ratio",
    "share",
    "percent",
    "pct",
    "temperature",
    "price",
    "score",
    "speed",
    "lat",
    "lon",
    "avg",
)
"""Numbers that say how much of something there is at a time: they do not add up either."""
FEW = 0.5

Form = Literal["seconds", "millis", "iso", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field of the sample."""

    name: str
    type: str
    form: Form = ""  # how a timestamp is written
    nulls: int = 0
    distinct: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What a definition can start from."""

    columns: tuple[Column, ...]
    left_out: Mapping[str, str]  # name to why
    event_time: str | None
    log_time: str | None
    time_format: TimeFormat
    key: str | None
    amount: str | None  # a number to add up, or to average
    adds_up: bool
    rows: int
    pace: Pace


def guess(sample: Sequence[Mapping[str, Any]], partitions: Sequence[int] = ()) -> Guess:
    """Propose columns with types, event time and key; what cannot be a column is named with its reason.

    Args:
        sample: Records: JSON values, or the cells of a CSV file as text with None for an empty one.
        partitions: Of each record the partition that it lies in; empty: they have one order.
    """
    names = list(dict.fromkeys(name for record in sample for name in record))
    left_out = {name: why for name in names if (why := _explain_omission(name, sample))}
    found = [_column(name, [record.get(name) for record in sample]) for name in names if name not in left_out]
    times = [column for column in found if column.type == "timestamp"]
    event = _event_time(times) or _event_time([column for column in found if column.type == "date"])
    time_format: TimeFormat = event.form or "iso" if event else "iso"
    columns = tuple(_one_format(column, time_format, event) for column in found)
    log = _log_time([column for column in columns if column.type == "timestamp"], event)
    key, amount = _key(columns, len(sample)), _amount(columns)
    return Guess(
        columns=columns,
        left_out=left_out,
        event_time=event.name if event else None,
        log_time=log,
        time_format=time_format,
        key=key,
        amount=amount,
        adds_up=amount is not None and _adds_up(amount),
        rows=len(sample),
        pace=pace(
            _times(sample, partitions, event, log, time_format),
            next((column.distinct for column in columns if column.name == key), 1),
        ),
    )


def _times(
    sample: Sequence[Mapping[str, Any]],
    partitions: Sequence[int],
    event: Column | None,
    log: str | None,
    time_format: TimeFormat,
) -> list[SampleTime]:
    """Return event time, arrival and partition of each record that has the times."""
    found = []
    for record, partition in zip(sample, partitions or repeat(0), strict=False) if event is not None else ():
        moment = _micros(record.get(event.name), time_format) if event is not None else None
        arrival = None if log is None else _micros(record.get(log), time_format)
        if moment is not None and (log is None or arrival is not None):
            found.append(SampleTime(moment, arrival, partition))
    return found


def _micros(given: Any, time_format: TimeFormat) -> int | None:
    try:
        if time_format != "iso" and isinstance(given, str) and WHOLE.fullmatch(given):
            given = int(given)  # a cell
        return micros_of(given, time_format)
    except ValueError:
        return None


def _explain_omission(name: str, sample: Sequence[Mapping[str, Any]]) -> str | None:
    if not IDENTIFIER.match(name):
        return "its name is no identifier"
    if name.lower() in RESERVED or name.startswith(RESERVED_PREFIX):
        return "Cutover uses this name itself"
    if any(isinstance(record.get(name), (dict, list)) for record in sample):
        return "it is nested"
    return None


def _column(name: str, values: Sequence[Any]) -> Column:
    given = [value for value in values if value is not None]
    kind, form = _type(name, given)
    return Column(name=name, type=kind, form=form, nulls=len(values) - len(given), distinct=len(set(map(str, given))))


def _type(name: str, given: Sequence[Any]) -> tuple[str, Form]:
    texts = ["true" if v is True else "false" if v is False else str(v) for v in given]
    quoted = any(isinstance(value, str) for value in given)
    if not texts:
        return "string", ""
    if all(text in {"true", "false"} for text in texts):
        return "boolean", ""
    if all(WHOLE.fullmatch(text) for text in texts):
        if any(len(text) > BIGINT_DIGITS or int(text).bit_length() > BIGINT_BITS for text in texts):
            return "string", ""  # an id as a rule: a double would make several of them one
        form = _unix(name, [int(text) for text in texts])
        return ("timestamp", form) if form else ("bigint", "")
    if all(NUMBER.fullmatch(text) and math.isfinite(float(text)) for text in texts):
        return "double", ""
    return _text_type(texts) if quoted else ("string", "")


def _unix(name: str, numbers: Sequence[int]) -> Form:
    """Return the unit of Unix times: a telling name, and years from 2000 to 2100."""
    if not any(word in name.lower() for word in ("time", "date", "ts", "_at", *LOG_WORDS)) and name.lower() != "at":
        return ""
    low, high = YEARS_2000_TO_2100
    if all(low <= number < high for number in numbers):
        return "seconds"
    return "millis" if all(low * 1000 <= number < high * 1000 for number in numbers) else ""


def _text_type(texts: Sequence[str]) -> tuple[str, Form]:
    if all(ISO.fullmatch(text) for text in texts):
        return ("timestamp", "iso") if all(_micros(text, "iso") is not None for text in texts) else ("string", "")
    return ("date" if all(DATE.fullmatch(text) for text in texts) else "string"), ""


def _rank(name: str, words: Sequence[str]) -> int:
    return next((place for place, word in enumerate(words) if word in name.lower()), len(words))


def _event_time(times: Sequence[Column]) -> Column | None:
    """Return the column whose name speaks most of the event and least of the log; of equals the first."""
    if not times:
        return None
    return min(times, key=lambda c: (_rank(c.name, LOG_WORDS) < len(LOG_WORDS), _rank(c.name, EVENT_WORDS)))


def _log_time(times: Sequence[Column], event: Column | None) -> str | None:
    others = [column for column in times if event is None or column.name != event.name]
    speaking = [column for column in others if _rank(column.name, LOG_WORDS) < len(LOG_WORDS)]
    return speaking[0].name if speaking and speaking[0].nulls == 0 else None


def _one_format(column: Column, time_format: TimeFormat, event: Column | None) -> Column:
    """Return a timestamp of another form as what it stands for: a topic writes all its timestamps in one form.

    A date that is the event time is a timestamp, its midnight.
    """
    if column is event and column.type == "date":
        return replace(column, type="timestamp", form="iso")
    if column.type != "timestamp" or column.form == time_format:
        return column
    kind = "string" if column.form == "iso" else "bigint"
    return Column(name=column.name, type=kind, nulls=column.nulls, distinct=column.distinct)


def _key(columns: Sequence[Column], rows: int) -> str | None:
    usable = [c for c in columns if c.type not in {"timestamp", "double"} and c.name.lower() not in KEYWORDS]
    few = [c for c in usable if c.type == "string" and 1 < c.distinct <= max(2, rows * FEW)]
    rest = [c for c in usable if c.type == "string"] or usable
    return next((column.name for column in (*few, *rest)), None)


def _amount(columns: Sequence[Column]) -> str | None:
    """Return the number to measure: one that adds up before others, whole ones before doubles."""
    numbers = [c for c in columns if c.type in {"bigint", "double"} and not _is_id(c.name)]
    return next((c.name for c in sorted(numbers, key=lambda c: (not _adds_up(c.name), c.type != "bigint"))), None)


def _adds_up(name: str) -> bool:
    parts = re.split(r"_|(?<=[a-z])(?=[A-Z])", name)
    return not any(word in {part.lower() for part in parts} for word in (*SPAN_WORDS, *LEVEL_WORDS))


def _is_id(name: str) -> bool:
    parts = name.lower().split("_")
    return any(word in parts for word in ID_WORDS)
