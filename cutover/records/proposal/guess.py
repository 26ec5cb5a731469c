"""Inference of a draft definition from records: types, time columns, key and a measure, which people then correct.

All records are read. Lateness and window are measured when the columns are known, by reading the records again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cutover.counts import count_noun
from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import (
    IDENTIFIER,
    RESERVED,
    RESERVED_PREFIX,
    JsonField,
    JsonPath,
    Topic,
    format_path,
)
from cutover.records.csv_files import DecimalMark, choose_marks, convert_cell, make_name, rewrite_number
from cutover.records.parsing.parsed_record import InvalidValueError, JsonObject
from cutover.records.proposal.change_events import CHANGE_TIME, find_envelope, flatten_event, name_event_fields
from cutover.records.proposal.columns import MAX_DISTINCT, WIDE_WHOLE, ColumnValues
from cutover.records.proposal.names import (
    EVENT_WORDS,
    LOG_WORDS,
    is_additive_name,
    is_id_name,
    is_reference_name,
    rank_by_words,
)
from cutover.records.proposal.nested_fields import NestedFields, name_json_fields
from cutover.records.proposal.parsed_file import Pace, RecordTimes, measure_pace
from cutover.records.proposal.time_formats import is_clock_time
from cutover.records.record_files import format_json_value
from cutover.records.reference.from_json import read_field
from cutover.records.reference.job_reader import UnreadableError
from cutover.records.reference.scalars import parse_value

SAMPLE = 1_000
"""Number of newest records of a topic from which a definition is proposed."""

_DECORATED_NUMBER = re.compile(r"\(?[-+]?[$€£¥]?\s?[-+]?[0-9][0-9.,'\s]*[%$€£¥]\)?|[(+$€£¥-]+\s?[0-9][0-9.,'\s]*\)?")

MAX_DISTINCT_SHARE = 0.5
MIN_ROWS_COUNTED = 100
"""A column that counts up by one in more records than these is a number of rows, and no measure."""

NESTED = "it is nested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Field of the records."""

    name: str
    type: str
    form: str = ""  # format of a timestamp
    nulls: int = 0
    distinct: int = 0  # at most MAX_DISTINCT
    time_form: str | None = None  # description of an unsupported time format
    example: str = ""
    needs_from_json: bool = False
    is_row_number: bool = False
    notes: tuple[str, ...] = ()  # what is not certain, or what is changed when the file is sent


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
    renamed: Mapping[str, str] = field(default_factory=dict)  # name -> text of the header
    fields: Mapping[str, JsonField] = field(default_factory=dict)  # columns of JSON whose field has no valid name
    nested: Mapping[str, frozenset[str]] = field(default_factory=dict)  # name of an object -> names of its members
    pace: Pace = field(default_factory=Pace)
    where: str | None = None
    is_from_nested_fields: bool = False

    @property
    def schema(self) -> tuple[str, ...]:
        """Schema of the topic, a field per element."""
        return tuple(f"{c.name} {c.type}{' NOT NULL' if c.name == self.event_time else ''}" for c in self.columns)

    @property
    def needs_from_json(self) -> bool:
        """Return whether the strict form would reject values of a column."""
        return any(column.needs_from_json for column in self.columns)

    def make_topic(self, name: str) -> Topic:
        """Make the topic of the draft, which has an event time."""
        return Topic(
            name=name,
            schema=", ".join(self.schema),
            event_time=str(self.event_time),
            log_time=self.log_time,
            time_format=self.time_format,
            parse="from_json" if self.needs_from_json else "strict",
            fields=self.fields,
        )


@dataclass(slots=True)
class Survey:
    """Statistics of all records."""

    is_cells: bool  # True: values are cells of CSV; False: JSON values
    stated_format: str | None = None  # pattern of times that the user states
    columns: dict[str, ColumnValues] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)  # name -> text of the header
    nested: NestedFields | None = None  # fields inside of objects, if they are read
    paths: dict[str, JsonPath] = field(default_factory=dict)  # of the columns of change events, and inside of objects
    envelope: JsonPath | None = None  # path of the change event in each record
    sample: list[tuple[Mapping[str, Any], int]] = field(default_factory=list)  # first records, and their partitions
    rows: int = 0
    malformed: int = 0

    def declare(self, names: Iterable[str]) -> None:
        """Add columns that may have no value in any record."""
        for name in names:
            self.columns.setdefault(name, ColumnValues(name, self.is_cells, self.stated_format))

    def add(self, line: int, record: Mapping[str, Any], partition: int = 0) -> None:
        """Add one record: column -> value; None or an empty cell is null."""
        self.rows += 1
        if len(self.sample) < SAMPLE:
            self.sample.append((record, partition))
        for name, value in record.items():
            if name not in self.columns:
                self.declare([name])
            if value is not None and not (self.is_cells and value == ""):
                self.columns[name].add(line, value)

    def add_object(self, line: int, record: Mapping[str, Any], partition: int = 0) -> None:
        """Add one object of JSON: of a change event the row after the change, if the first record is one."""
        if self.nested is not None:
            self.add(line, self.nested.flatten(record), partition)
            self.paths = {name: path for path, name in self.nested.names.items()}
            return
        if self.rows == 0:
            self.envelope = find_envelope(record)
        if self.envelope is None:
            self.add(line, record, partition)
            return
        values = flatten_event(record, self.envelope)
        names = name_event_fields(values)
        self.paths |= dict(zip(names, values, strict=True))
        self.add(line, dict(zip(names, values.values(), strict=True)), partition)

    def add_cells(self, lines: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
        """Add successive records of CSV, with the cells of all declared columns."""
        self.rows += len(rows)
        for column, cells in zip(self.columns.values(), zip(*rows, strict=True), strict=True):
            column.add_cells(lines, cells)

    def guess(self) -> Guess:
        """Infer columns with types, event time, key and measure; omitted fields have a reason.

        Lateness and window are those of the first records; `complete_guess` measures them from all records of a file.
        """
        self._choose_marks()
        names = {} if self.is_cells or self.paths else name_json_fields(list(self.columns))
        omissions = self._find_omissions(names)
        candidates = [
            self._make_column(column, names.get(name, name))
            for name, column in self.columns.items()
            if name not in omissions
        ]
        times = [column for column in candidates if column.type == "timestamp"]
        changes = [column for column in times if self.envelope is not None and column.name == CHANGE_TIME]
        event = _choose_event_time(changes or times) or _choose_event_time(
            [column for column in candidates if column.type == "date"]
        )
        time_format: str = event.form or "iso" if event else "iso"
        columns = tuple(_use_topic_format(column, time_format, event) for column in candidates)
        log = _choose_log_time([column for column in columns if column.type == "timestamp"], event)
        amount = _choose_amount(columns, self.rows)
        guess = Guess(
            columns=columns,
            omitted=omissions,
            event_time=event.name if event else None,
            log_time=log,
            time_format=time_format,
            key=_choose_key(columns, self.rows),
            amount=amount,
            adds_up=amount is not None and is_additive_name(amount),
            rows=self.rows,
            malformed=self.malformed,
            renamed=self.renamed or {name: text for text, name in names.items() if text not in omissions},
            fields={
                names.get(text, text): JsonField(path=format_path(path))
                for text, path in (self.paths or {text: (text,) for text in names}).items()
                if text not in omissions
            },
            where="op <> 'd'" if self.envelope is not None else None,
            nested=self._list_nested(),
            is_from_nested_fields=self.nested is not None,
        )
        return guess if event is None else replace(guess, pace=self._measure_sample(guess))

    @property
    def marks(self) -> dict[str, DecimalMark]:
        """Decimal marks of the columns; a point where nothing shows another one."""
        return {name: column.mark or "." for name, column in self.columns.items()}

    def _choose_marks(self) -> None:
        """Choose the decimal mark of each column of numbers from all columns."""
        numbers = {
            name: column.marks for name, column in self.columns.items() if column.type in {"string", "double", "bigint"}
        }
        for name, mark in choose_marks(numbers).items():
            self.columns[name].mark = mark

    def _find_omissions(self, names: Mapping[str, str]) -> dict[str, str]:
        """Find the reasons for which columns are left out; `names` has those of fields with other names."""
        reasons = {} if self.nested is None else self.nested.find_conflicts()
        names_used: dict[str, str] = {}  # names in lower case
        for place, (name, column) in enumerate(self.columns.items(), start=1):
            reason = reasons.get(name) or _explain_omission(column, names.get(name, name), names_used, place)
            if reason is not None:
                reasons[name] = reason
            else:
                names_used[names.get(name, name).lower()] = name
        return reasons

    def _list_nested(self) -> dict[str, frozenset[str]]:
        examples = {name: column.example.value for name, column in self.columns.items() if column.example is not None}
        return {
            name: frozenset(member for member, _ in value.members)
            for name, value in examples.items()
            if isinstance(value, JsonObject)
        }

    def _make_column(self, values: ColumnValues, name: str) -> Column:
        orders = tuple(column.patterns.order for column in self.columns.values() if column.patterns.order)
        kind, form = values.propose_type(orders)
        is_text = kind == "string"
        doubts, nulls = _describe_doubt(values, kind, form, orders), _describe_nulls(values, kind)
        notes = [*doubts, *nulls, *_describe_text(values, kind)]
        return Column(
            name=name,
            type=kind,
            form=form,
            nulls=self.rows - values.value_count - (values.null_texts if is_text else 0),
            distinct=len(values.distinct),
            time_form=values.time_form,
            needs_from_json=values.job_type == kind,
            example="" if values.example is None else format_json_value(values.example.value),
            is_row_number=values.is_row_number,
            notes=tuple(notes),
        )

    def _measure_sample(self, guess: Guess) -> Pace:
        times, keys = RecordTimes(is_logged=guess.log_time is not None), set[str]()
        texts: Mapping[str, str] = {} if self.is_cells else guess.renamed  # name -> that of the field
        for record, partition in self.sample:
            event, log = (texts.get(str(name), str(name)) for name in (guess.event_time, guess.log_time))
            moment = self._read_time(record.get(event), guess.time_format)
            logged = None if guess.log_time is None else self._read_time(record.get(log), guess.time_format)
            if moment is not None and (guess.log_time is None or logged is not None):
                times.add(moment, logged, partition)
            if guess.key is not None:
                keys.add(str(record.get(texts.get(guess.key, guess.key))))
        return measure_pace(times, None if guess.key is None else len(keys))

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


def complete_guess(guess: Guess, times: RecordTimes, key_count: int | None) -> Guess:
    """Add lateness and window, measured from all records of a file.

    If its order is not one of arrival, as in a file with the newest record first, it is sent in the order of time.

    Args:
        guess: The draft.
        times: Times of all records.
        key_count: Number of distinct keys; a lower bound; None: there is no key.
    """
    pace = measure_pace(times, key_count, is_file=True)
    event = next(column for column in guess.columns if column.name == guess.event_time)
    log_time = event.name if pace.is_unordered and not event.nulls and guess.log_time is None else guess.log_time
    return replace(guess, pace=pace, log_time=log_time)


def _explain_omission(column: ColumnValues, name: str, names_used: Mapping[str, str], place: int) -> str | None:
    kind = column.propose_type()[0]
    if not IDENTIFIER.match(name):
        holds = f"{kind}; " if column.value_count and not column.is_nested else ""
        form = f"{column.time_form}; " if column.time_form else ""
        return f"{holds}{form}its name is no identifier, such as `{make_name(name, place)}`"
    if name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX):
        return "Cutover uses this name itself"
    if name.lower() in names_used:
        return f"its name differs from `{names_used[name.lower()]}` only by case"
    if column.is_nested:
        return NESTED
    if column.conflict is not None and column.example is not None and column.job_type is None:
        first, conflict = (
            f"{format_json_value(example.value)} (line {example.line})" for example in (column.example, column.conflict)
        )
        return f"no type accepts {first}" if first == conflict else f"no type accepts both {first} and {conflict}"
    return None


def _describe_doubt(values: ColumnValues, kind: str, form: str, orders: Sequence[Any]) -> Iterator[str]:
    """Describe what the values of a column do not show, and what was taken from other columns."""
    patterns = values.patterns.list_patterns(orders)
    if kind == "timestamp" and len(patterns) > 1:
        yield f"no value shows that it is `{form}` and not `{patterns[1]}`"
    comma = values.first_comma
    if values.is_cell and comma is not None and values.marks.are_numbers:
        if values.mark is None and values.marks.possible:
            readings = " or ".join(rewrite_number(comma.value, mark) for mark in (",", "."))
            yield f"string, since {format_json_value(comma.value)} (line {comma.line}) is {readings}"
        elif kind == "double":
            number = rewrite_number(comma.value, values.mark or ".")
            yield f"`produce` sends {format_json_value(comma.value)} as {number}"
    if kind == "double" and values.first_long is not None:
        text = format_json_value(values.first_long.value)
        yield f"double, which rounds {text} (line {values.first_long.line}); a decimal of enough digits is exact"


def _describe_nulls(values: ColumnValues, kind: str) -> Iterator[str]:
    example = values.null_example
    if example is not None and kind != "string" and values.value_count:
        text = format_json_value(example.value)
        cells = count_noun(values.null_texts, "cell")
        yield f"`produce` sends null for {cells} such as {text} (line {example.line})"


def _describe_text(values: ColumnValues, kind: str) -> Iterator[str]:
    """Describe texts that people may take for numbers or times."""
    text = values.example.value if values.example is not None else None
    if kind != "string" or not isinstance(text, str):
        return
    if _DECORATED_NUMBER.fullmatch(text.strip()):
        yield f"string, since {format_json_value(text)} is no number; write it without a sign, or CAST it in `derive`"
    elif is_clock_time(text):
        yield f"{format_json_value(text)} is a time without a date, and no part of any other column"


def _choose_event_time(times: Sequence[Column]) -> Column | None:
    """Choose the column whose name best matches an event time and not a log time; the first one of equals."""
    if not times:
        return None
    return min(
        times,
        key=lambda c: (
            rank_by_words(c.name, LOG_WORDS) < len(LOG_WORDS),
            c.nulls > 0,
            rank_by_words(c.name, EVENT_WORDS),
        ),
    )


def _choose_log_time(times: Sequence[Column], event: Column | None) -> str | None:
    other_times = [column for column in times if event is None or column.name != event.name]
    log_times = [column for column in other_times if rank_by_words(column.name, LOG_WORDS) < len(LOG_WORDS)]
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
    """Choose the key: a text with few values, or an identifier that repeats; None if there is none.

    A column with as many values as there are records groups nothing.
    """
    usable = [c for c in columns if c.name.lower() not in KEYWORDS and c.distinct < MAX_DISTINCT]
    texts = [c for c in usable if c.type == "string" and c.distinct and c.time_form is None]
    few = [c for c in texts if 1 < c.distinct <= max(2, rows * MAX_DISTINCT_SHARE)]
    flags = [c for c in usable if c.type == "boolean" and c.distinct > 1 and rows > c.distinct]
    groups = [c for c in texts if c.distinct < rows or (rows == 1 and not is_id_name(c.name))]
    ids = [
        c
        for c in usable
        if c.type in {"bigint", WIDE_WHOLE}
        and is_reference_name(c.name)
        and 1 < c.distinct <= rows * MAX_DISTINCT_SHARE
    ]
    plain = sorted(few, key=lambda c: is_id_name(c.name) and c.distinct > rows * MAX_DISTINCT_SHARE / 5)
    return next((column.name for column in (*plain, *groups, *ids, *flags)), None)


def _choose_amount(columns: Sequence[Column], rows: int) -> str | None:
    """Choose the numeric column to measure: additive ones first, integers before doubles; never an identifier."""
    numbers = [
        c
        for c in columns
        if _is_measured(c.type)
        and not (is_id_name(c.name) if c.type == "double" else is_reference_name(c.name))
        and c.time_form is None
        and not (c.is_row_number and rows > MIN_ROWS_COUNTED)
    ]
    return next(
        (
            c.name
            for c in sorted(numbers, key=lambda c: (not is_additive_name(c.name), c.is_row_number, c.type != "bigint"))
        ),
        None,
    )


def _is_measured(kind: str) -> bool:
    return kind in {"bigint", "double"} or (kind.startswith("decimal") and kind != WIDE_WHOLE)
