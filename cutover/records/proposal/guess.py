"""Inference of a draft definition from records: types, time columns, key and a measure, which people then correct.

Types, lateness and window are inferred from all records; the key from the first records only.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

from cutover.counts import count_noun
from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import IDENTIFIER, RESERVED, RESERVED_PREFIX
from cutover.records.proposal.columns import LOG_WORDS, WIDE_WHOLE, ColumnValues
from cutover.records.proposal.pace import Pace, RecordTimes, measure_pace
from cutover.records.record_files import convert_cell, format_json_value
from cutover.records.reference.from_json import UnreadableError, read_field
from cutover.records.reference.parse import parse_value
from cutover.records.reference.values import InvalidValueError

SAMPLE = 1_000
"""Number of first records from which the key is inferred; for a topic, the newest records."""

MAX_KEYS = 100_000
"""Maximum number of distinct keys counted; for more, even the longest proposed window, a day, would be too short."""

EVENT_WORDS = ("event", "occur", "happen", "schedul", "creat", "start", "order", "click", "time", "date", "ts", "at")
ID_WORDS = ("id", "seq", "number", "uuid", "key")
SPAN_WORDS = ("delay", "duration", "latency", "lag", "wait", "elapsed", "age", "took", "gap", "offset")
"""Words for durations, whose sum has no meaning."""
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
"""Words for ratios and levels, whose sum has no meaning either."""
MAX_DISTINCT_SHARE = 0.5
NESTED = "it is nested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Field of the records."""

    name: str
    type: str
    form: str = ""  # format of a timestamp
    nulls: int = 0
    distinct: int = 0  # in the sample
    time_form: str | None = None  # description of an unsupported time format
    example: str = ""
    needs_from_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Draft of a definition."""

    columns: tuple[Column, ...]
    omitted: Mapping[str, str]  # name -> reason
    event_time: str | None
    log_time: str | None
    time_format: str
    key: str | None  # None: all records are one series
    amount: str | None  # numeric column to sum, or to average
    adds_up: bool  # True: sum; False: average
    rows: int
    malformed: int  # records that are malformed under any schema
    pace: Pace


@dataclass(slots=True)
class Survey:
    """Statistics of the records: of all records for the types, of the first ones for the key."""

    is_cells: bool  # True: values are cells of CSV; False: JSON values
    columns: dict[str, ColumnValues] = field(default_factory=dict)
    sample: list[Mapping[str, Any]] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)  # of the sample
    rows: int = 0
    malformed: int = 0

    def declare(self, names: Iterable[str]) -> None:
        """Add columns that may have no value in any record."""
        for name in names:
            self.columns.setdefault(name, ColumnValues(name, self.is_cells))

    def add(self, line: int, record: Mapping[str, Any], partition: int = 0) -> None:
        """Add one record: column -> value; None or an empty cell is null."""
        self.rows += 1
        if len(self.sample) < SAMPLE:
            self.sample.append(record)
            self.partitions.append(partition)
        for name, value in record.items():
            if name not in self.columns:
                self.declare([name])
            if self._is_given(value):
                self.columns[name].add(line, value)

    def guess(self, rescan: Iterable[Mapping[str, Any]] | None = None) -> Guess:
        """Infer columns with types, event time and key; omitted fields have a reason.

        Args:
            rescan: The same records again, of one partition, since the time columns are known only after all records;
                None: the sample contains all records.
        """
        omissions = self._find_omissions()
        candidates = [self._make_column(column) for name, column in self.columns.items() if name not in omissions]
        times = [column for column in candidates if column.type == "timestamp"]
        event = _choose_event_time(times) or _choose_event_time(
            [column for column in candidates if column.type == "date"]
        )
        time_format: str = event.form or "iso" if event else "iso"
        columns = tuple(_use_topic_format(column, time_format, event) for column in candidates)
        log = _choose_log_time([column for column in columns if column.type == "timestamp"], event)
        key, amount = _choose_key(columns, len(self.sample)), _choose_amount(columns)
        return Guess(
            columns=columns,
            omitted=omissions,
            event_time=event.name if event else None,
            log_time=log,
            time_format=time_format,
            key=key,
            amount=amount,
            adds_up=amount is not None and _is_additive(amount),
            rows=self.rows,
            malformed=self.malformed,
            pace=self._measure_pace(
                zip(self.sample, self.partitions, strict=True) if rescan is None else zip(rescan, repeat(0)),
                event=None if event is None else event.name,
                log=log,
                time_format=time_format,
                key=key,
            ),
        )

    def _find_omissions(self) -> dict[str, str]:
        reasons: dict[str, str] = {}
        names_used: dict[str, str] = {}  # names in lower case
        for name, column in self.columns.items():
            reason = _explain_omission(column, names_used)
            if reason is not None:
                reasons[name] = reason
            else:
                names_used[name.lower()] = name
        return reasons

    def _make_column(self, values: ColumnValues) -> Column:
        kind, form = values.proposed_type
        present = (record.get(values.name) for record in self.sample)
        return Column(
            name=values.name,
            type=kind,
            form=form,
            nulls=self.rows - values.value_count,
            distinct=len({str(value) for value in present if self._is_given(value)}),
            time_form=values.time_form,
            needs_from_json=values.job_type is not None,
            example="" if values.example is None else format_json_value(values.example.value),
        )

    def _is_given(self, value: Any) -> bool:
        """Return whether a value is not null; an empty cell is null, an empty JSON string is not."""
        return value is not None and not (self.is_cells and value == "")

    def _measure_pace(
        self,
        records: Iterable[tuple[Mapping[str, Any], int]],
        *,
        event: str | None,
        log: str | None,
        time_format: str,
        key: str | None,
    ) -> Pace:
        """Measure lateness and window from the records with all times; `records` are (record, partition) pairs."""
        if event is None:
            return Pace()
        times, keys = RecordTimes(is_logged=log is not None), set[str]()
        for record, partition in records:
            self._add_times(times, record, partition, event, log, time_format)
            if key is not None and len(keys) < MAX_KEYS:
                keys.add(str(record.get(key)))
        return measure_pace(times, _count_keys(key, len(keys)), len(keys))

    def _add_times(
        self,
        times: RecordTimes,
        record: Mapping[str, Any],
        partition: int,
        event: str,
        log: str | None,
        time_format: str,
    ) -> None:
        moment = self._read_time(record.get(event), time_format)
        logged = None if log is None else self._read_time(record.get(log), time_format)
        if moment is not None and (log is None or logged is not None):
            times.add(moment, logged, partition)

    def _read_time(self, value: Any, time_format: str) -> int | None:
        json_value = (
            convert_cell(value, "timestamp", time_format) if self.is_cells and isinstance(value, str) else value
        )
        for read in (parse_value, read_field):  # of which the second is `from_json`
            try:
                return None if json_value is None else int(read(json_value, "timestamp", time_format))
            except (InvalidValueError, UnreadableError):
                continue
        return None


def _explain_omission(column: ColumnValues, names_used: Mapping[str, str]) -> str | None:
    name = column.name
    if not IDENTIFIER.match(name):
        renamed = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:60]
        better = renamed if IDENTIFIER.match(renamed) else f"column_{renamed}"
        holds = f"{column.proposed_type[0]}; " if column.value_count and not column.is_nested else ""
        form = f"{column.time_form}; " if column.time_form else ""
        return f"{holds}{form}its name is no identifier, such as `{better}`"
    if name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX):
        return "Cutover uses this name itself"
    if name.lower() in names_used:
        return f"its name differs from `{names_used[name.lower()]}` only by case"
    if column.is_nested:
        return NESTED
    if column.conflict is not None and column.example is not None and column.job_type is None:
        values = (
            f"{format_json_value(example.value)} (line {example.line})" for example in (column.example, column.conflict)
        )
        return f"no type accepts both {' and '.join(values)}"
    return None


def _count_keys(key: str | None, count: int) -> str:
    if key is None:
        return "one series"
    if count >= MAX_KEYS:
        return f"{count_noun(count, 'key')} and more"
    return count_noun(count, "key")


def _rank_by_words(name: str, words: Sequence[str]) -> int:
    return next((place for place, word in enumerate(words) if word in name.lower()), len(words))


def _choose_event_time(times: Sequence[Column]) -> Column | None:
    """Choose the column whose name best matches an event time and not a log time; the first one of equals."""
    if not times:
        return None
    return min(
        times,
        key=lambda c: (
            _rank_by_words(c.name, LOG_WORDS) < len(LOG_WORDS),
            c.nulls > 0,
            _rank_by_words(c.name, EVENT_WORDS),
        ),
    )


def _choose_log_time(times: Sequence[Column], event: Column | None) -> str | None:
    other_times = [column for column in times if event is None or column.name != event.name]
    log_times = [column for column in other_times if _rank_by_words(column.name, LOG_WORDS) < len(LOG_WORDS)]
    return log_times[0].name if log_times and log_times[0].nulls == 0 else None


def _use_topic_format(column: Column, time_format: str, event: Column | None) -> Column:
    """Change a timestamp of another format to a string or bigint, since a topic has one timestamp format.

    A date that is the event time becomes a timestamp at midnight.
    """
    if column is event and column.type == "date":
        return replace(column, type="timestamp", form="iso")
    if column.type != "timestamp" or column.form == time_format:
        return column
    kind = "bigint" if column.form in EPOCH_FORMATS else "string"
    return replace(
        column, type=kind, form="", time_form=f"{column.form}; a topic has one format of times", needs_from_json=False
    )


def _choose_key(columns: Sequence[Column], rows: int) -> str | None:
    """Choose the key: a string column with few values, or an id that repeats; None if there is none."""
    usable = [c for c in columns if c.name.lower() not in KEYWORDS]
    texts = [c for c in usable if c.type == "string" and c.distinct and c.time_form is None]
    few = [c for c in texts if 1 < c.distinct <= max(2, rows * MAX_DISTINCT_SHARE)]
    groups = [c for c in texts if c.distinct < rows or not _is_id(c.name)]
    ids = [
        c
        for c in usable
        if c.type in {"bigint", WIDE_WHOLE} and _is_id(c.name) and 1 < c.distinct <= rows * MAX_DISTINCT_SHARE
    ]
    return next((column.name for column in (*few, *groups, *ids)), None)


def _choose_amount(columns: Sequence[Column]) -> str | None:
    """Choose the numeric column to measure: additive ones first, integers before doubles."""
    numbers = [c for c in columns if _is_measured(c.type) and not _is_id(c.name) and c.time_form is None]
    return next((c.name for c in sorted(numbers, key=lambda c: (not _is_additive(c.name), c.type != "bigint"))), None)


def _is_measured(kind: str) -> bool:
    return kind in {"bigint", "double"} or (kind.startswith("decimal") and kind != WIDE_WHOLE)


def _is_additive(name: str) -> bool:
    return not _split_name(name) & {*SPAN_WORDS, *LEVEL_WORDS}


def _is_id(name: str) -> bool:
    return bool(_split_name(name) & set(ID_WORDS))


def _split_name(name: str) -> set[str]:
    return {part.lower() for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}
