"""Sample of the records of a topic: columns that JSON shows, or the schemas of writers in Avro."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any

from cutover.adoption.draft import MAX_VALUES
from cutover.counts import count_noun
from cutover.definition.checks.measures import SUMMABLE_DIGITS
from cutover.definition.model.topic import (
    JsonField,
    JsonPath,
    ParseForm,
    Topic,
    format_path,
    list_fields,
    normalize_type,
)
from cutover.errors import DefinitionError
from cutover.log.kafka import LogClient, RawRecord
from cutover.output.cells import visible
from cutover.records.csv_files import make_name
from cutover.records.parsing.avro_layout import list_readable_columns
from cutover.records.parsing.parsed_record import JsonNumber, JsonObject
from cutover.records.parsing.writer_schemas import HEAD_BYTES, find_schema
from cutover.records.proposal.change_events import find_envelope, flatten_event, name_event_fields
from cutover.records.proposal.columns import ColumnValues, is_time_text
from cutover.records.proposal.guess import Column, Guess, Survey
from cutover.records.proposal.names import is_reference_name, is_time_name
from cutover.records.record_files import format_json_value
from cutover.records.reference.parse import parse_object, parse_record
from cutover.timestamps import format_micros

SAMPLED_AT_EACH_END = 2_000
"""Records of a partition, the oldest and the newest ones, from which the schema is inferred."""

MIN_NUMBERS = MIN_TIMES = 0.9
"""Share of the values of a field that have to be numbers, or times, so that it is tried as one."""

_NUMBER = re.compile(r"[+-]?([0-9]+)(?:[.]([0-9]*))?(?:[eE][+-]?[0-9]{1,2})?")
_MAX_DEPTH = 5  # of objects in a record whose fields become columns


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSample:
    """Records of a topic, and what was inferred from them."""

    guess: Guess
    records: int
    malformed: int  # that are no JSON objects
    values: Mapping[str, frozenset[str]]  # column -> distinct values, as texts
    paths: Mapping[str, str]  # column -> path in the JSON, if it is not the field of its name
    offsets: int  # offsets in the sampled ranges: more than records if the topic has transactions or is compacted
    parse: ParseForm = "from_json"
    text_numbers: Mapping[str, int] = field(default_factory=dict)
    """Column whose values are mostly numbers, of which some are texts -> values that are no numbers."""
    text_times: Mapping[str, "TimeTexts"] = field(default_factory=dict)
    """Column at least half of whose values are times, and some are not."""

    def state_types(self, types: Mapping[str, str]) -> "RecordSample":
        """Return the sample with types that the caller states; they win over inference.

        Raises:
            DefinitionError: The records have no such field, or are in Avro, or definitions have no such type.
        """
        columns = {column.name: column for column in self.guess.columns}
        for name, text in types.items():
            if self.parse == "avro":
                msg = "--type: expected records in JSON, got values in Avro, whose fields have the types of their "
                raise DefinitionError(msg + "schemas.\nHint: leave the option out.")
            if name not in columns and name not in self.guess.omitted:
                msg = f"--type {name}: expected a field of the records, they have {', '.join(columns) or 'none'}."
                raise DefinitionError(msg + "\nHint: `--type FIELD=TYPE`, such as `--type fare=decimal(10,2)`.")
            try:
                kind = normalize_type(text)
            except DefinitionError as error:
                msg = f"--type {name}: {error}\nHint: such as `--type {name}=decimal(10,2)`."
                raise DefinitionError(msg) from None
            form = "iso" if kind == "timestamp" else ""
            columns[name] = replace(columns.get(name, Column(name=name, type=kind, form=form)), type=kind)
        return replace(self, guess=replace(self.guess, columns=tuple(columns.values())))

    def reject_times(self, topic: str, expected_name: str | None) -> DefinitionError:
        """Return the error of records without an event time.

        Args:
            topic: Its name.
            expected_name: Field that has to be the event time, if one is known.
        """
        if not self.records:
            msg = f"Topic `{topic}`: expected records by which a definition can be tested, it holds none."
            return DefinitionError(msg + "\nHint: its retention may have removed those that the query has read.")
        fields = ", ".join(f"{column.name} ({column.type})" for column in self.guess.columns) or "none"
        named = f" `{expected_name}`" if expected_name else ""
        msg = f"Topic `{topic}`: expected records in JSON or Avro with a time{named}, got "
        msg += count_noun(self.records, "record")
        if self.malformed:
            msg += f", {self.malformed:,} of them in another format"
        msg = " ".join((f"{msg}, with the fields {fields}.", *map(TimeTexts.describe, self.text_times.values())))
        hint = "`--event-time FIELD` names the time, and `--time-format PATTERN` how it is written."
        return DefinitionError(f"{msg}\nHint: {hint}")


def sample_records(client: LogClient, topic: str, time_format: str | None = None) -> RecordSample:
    """Read the oldest and the newest records of each partition, and infer columns from them.

    Args:
        client: The cluster.
        topic: Its name.
        time_format: Pattern of times that the user states.

    Raises:
        LogError: No broker responds, or the topic does not exist.
    """
    earliest, latest = client.earliest(topic), client.latest(topic, "read_uncommitted")
    sampler = RecordSampler(time_format)
    offsets = 0
    for partition, end in sorted(latest.items()):
        start = earliest[partition]
        middle = max(start, end - SAMPLED_AT_EACH_END)
        for first, last in ((start, min(start + SAMPLED_AT_EACH_END, middle)), (middle, end)):
            if first < last:
                offsets += last - first
                for record in client.read_ranges(topic, {partition: (first, last)}, "read_uncommitted"):
                    sampler.add(record)
    return replace(sampler.infer(), offsets=offsets)


class RecordSampler:
    """Sample of records whose fields, also those in nested objects, become columns."""

    def __init__(self, time_format: str | None = None) -> None:
        self._survey = Survey(is_cells=False, stated_format=time_format)
        self._names: dict[JsonPath, str] = {}
        self._records = 0
        self._framed: list[RawRecord] = []  # as a registry's clients write them
        self._numbers: dict[str, NumberTexts] = {}
        self._times: dict[str, TimeTexts] = {}
        self._time_format = time_format

    def add(self, record: RawRecord) -> None:
        """Add a record; one that is no JSON object is counted."""
        self._records += 1
        if _is_framed(record):
            self._framed.append(record)
            return
        try:
            document = parse_object((record.value or b"").decode("utf-8"))
        except (ValueError, RecursionError):
            self._survey.malformed += 1
            return
        members = dict(document.members)
        if self._survey.rows == 0:
            self._survey.envelope = find_envelope(members)
        values = self._name_values(members)
        self._survey.add(record.offset, values, record.partition)
        for name, value in values.items():
            if value is not None:
                self._numbers.setdefault(name, NumberTexts()).add(value)
                if name not in self._times:
                    self._times[name] = TimeTexts(ColumnValues(name, is_cell=False, stated_format=self._time_format))
                self._times[name].add(record.offset, value)

    def _name_values(self, members: Mapping[str, Any]) -> dict[str, Any]:
        if self._survey.envelope is not None:
            values = flatten_event(members, self._survey.envelope)
            for path, name in zip(values, name_event_fields(values), strict=True):
                self._names.setdefault(path, name)
        else:
            values = dict(_flatten((), members))
        return {self._name(path): value for path, value in values.items()}

    def _name(self, path: JsonPath) -> str:
        if path not in self._names:
            used = {name.lower() for name in self._names.values()}
            candidates = (make_name(str(path[-1]), 1), make_name("_".join(map(str, path)), 1))
            free = (name for name in candidates if name.lower() not in used)
            self._names[path] = next(free, f"{candidates[-1]}_{len(used)}")
        return self._names[path]

    def infer(self) -> RecordSample:
        """Infer the columns; those of values in Avro have the types of their schemas.

        Raises:
            DefinitionError: Values are in Avro, and the settings name no registry.
            LogError: The registry does not respond.
        """
        types: dict[str, str] = {}
        is_avro = 2 * len(self._framed) > self._records
        if is_avro:
            topic, paths = _make_avro_topic(self._framed)
            names = {column: self._name(path) for column, path in paths.items()}
            types = {names[field.name]: field.type for field in list_fields(topic)} if paths else {}
            for record in self._framed:
                values = {names[column]: value for column, value in _list_avro_values(record, topic)} if paths else {}
                if values:
                    self._survey.add(record.offset, values, record.partition)
                else:
                    self._survey.malformed += 1
        else:
            self._survey.malformed += len(self._framed)
        text_times = {} if is_avro else self._replace_text_times()
        guess = self._survey.guess()
        columns = tuple(
            column if column.type == "timestamp" else replace(column, type=types.get(column.name, column.type))
            for column in guess.columns
        )
        guess, text_numbers = _add_text_numbers(replace(guess, columns=columns), {} if is_avro else self._numbers)
        return RecordSample(
            guess=guess,
            records=self._records,
            malformed=self._survey.malformed,
            values={name: frozenset(column.distinct) for name, column in self._survey.columns.items()},
            paths={name: format_path(path) for path, name in self._names.items() if path != (name,)},
            offsets=self._records,
            parse="avro" if is_avro else "from_json",
            text_numbers=text_numbers,
            text_times=text_times,
        )

    def _replace_text_times(self) -> dict[str, "TimeTexts"]:
        """List fields with times and other values; those that are mostly times are inferred from the times alone."""
        mixed = {name: times for name, times in self._times.items() if times.are_mixed}
        for name, times in mixed.items():
            if times.are_usual:
                self._survey.columns[name] = times.times
        return mixed


@dataclass(slots=True)
class TimeTexts:
    """Values of a field that are times in text, and those that are not."""

    times: ColumnValues
    others: int = 0
    example: Any = None  # first value that is no time
    has_numbers: bool = False  # which `from_json` reads as seconds

    def add(self, offset: int, value: Any) -> None:
        """Add a value that is not null."""
        if isinstance(value, str) and is_time_text(value, self.times.stated_format):
            self.times.add(offset, value)
        else:
            self.example = value if not self.others else self.example
            self.others += 1
            self.has_numbers |= isinstance(value, JsonNumber)

    @property
    def are_mixed(self) -> bool:
        """Return whether at least half of the values are times, and the others would be null in a job."""
        return 0 < self.others <= self.times.value_count and not self.has_numbers

    @property
    def are_usual(self) -> bool:
        """Return whether so few values are no times that a job which reads them as null is likely."""
        return self.times.value_count >= MIN_TIMES * (self.times.value_count + self.others)

    def describe(self) -> str:
        """Describe how many values are no times."""
        others = f"{self.others:,} of {count_noun(self.times.value_count + self.others, 'value')}"
        example = visible(format_json_value(self.example))
        option = f"`--type {self.times.name}=timestamp`"
        return f"`{self.times.name}` is no time in {others}, such as {example}: {option} reads these as null."

    def describe_nulls(self) -> str:
        """Describe how many values a job reads as null."""
        verb = "value is no time, and counts" if self.others == 1 else "values are no times, and count"
        return f"{self.others:,} sampled {verb} as null"


@dataclass(slots=True)
class NumberTexts:
    """Values of a field that are numbers, in text or not, and those that are not."""

    numbers: int = 0
    texts: int = 0  # of the numbers
    others: int = 0
    digits: tuple[int, int] = (1, 0)  # at most before and after the point
    has_codes: bool = False  # some number in text begins with a needless zero

    def add(self, value: Any) -> None:
        """Add a value that is not null."""
        text = value.text if isinstance(value, JsonNumber) else value
        number = _NUMBER.fullmatch(text) if isinstance(text, str) else None
        if number is None:
            self.others += 1
            return
        self.numbers += 1
        whole, fraction = number[1], number[2] or ""
        self.digits = max(self.digits[0], len(whole)), max(self.digits[1], len(fraction))
        if not isinstance(value, JsonNumber):
            self.texts += 1
            self.has_codes |= len(whole) > 1 and whole[0] == "0"

    def find_type(self, name: str) -> str | None:
        """Find the decimal type that holds all numbers of a field of which most values are numbers, some in text."""
        whole, fraction = self.digits
        is_code = not fraction and (self.has_codes or is_reference_name(name) or is_time_name(name))
        has_texts = self.texts or self.others
        is_rare = self.numbers < MIN_NUMBERS * (self.numbers + self.others)
        if not self.numbers or not has_texts or is_rare or is_code or whole + fraction > SUMMABLE_DIGITS:
            return None
        return f"decimal({min(SUMMABLE_DIGITS, max(whole + fraction, 18, 10 + fraction))},{fraction})"


def _add_text_numbers(guess: Guess, numbers: Mapping[str, NumberTexts]) -> tuple[Guess, dict[str, int]]:
    """Give fields that are numbers, but for some values, a type of numbers; return how many of their values are none.

    A text with few values remains one, since a filter may compare it with them.
    """
    kinds = {name: kind for name, values in numbers.items() if (kind := values.find_type(name)) is not None}
    columns, texts = {column.name: column for column in guess.columns}, dict[str, int]()
    for name, kind in kinds.items():
        known = columns.get(name)
        is_mixed = known is None and guess.omitted.get(name, "").startswith("no type accepts both")
        if known is None and not is_mixed:
            continue
        if known is None or (known.type == "string" and known.distinct > MAX_VALUES):
            columns[name] = replace(known or Column(name=name, type=kind), type=kind)
        if columns[name].type == "string" or columns[name].type.startswith("decimal"):
            texts[name] = numbers[name].others
    return replace(guess, columns=tuple(columns.values())), texts


def _flatten(path: JsonPath, members: Mapping[str, Any]) -> Iterator[tuple[JsonPath, Any]]:
    """Yield the values of an object and of the objects in it, by their paths."""
    for name, value in members.items():
        if isinstance(value, JsonObject) and len(path) < _MAX_DEPTH:
            yield from _flatten((*path, name), dict(value.members))
        else:
            yield (*path, name), value


def _is_framed(record: RawRecord) -> bool:
    """Return whether a value begins as those of the clients of a schema registry do."""
    return record.value is not None and record.value[:1] == b"\0" and len(record.value) >= HEAD_BYTES


def _make_avro_topic(records: Sequence[RawRecord]) -> tuple[Topic, Mapping[str, JsonPath]]:
    """Make a topic with a column for each field of the schemas of some records; return the paths of its columns.

    Raises:
        DefinitionError: The settings name no registry.
        LogError: The registry does not respond.
    """
    heads = sorted({(record.value or b"")[:HEAD_BYTES] for record in records})
    types: dict[JsonPath, str] = {}
    for head in heads:  # the newest schema has the largest id
        types |= list_readable_columns(find_schema(head))
    paths = {f"c{number}": path for number, path in enumerate(types)}
    topic = Topic(
        name="sample",
        schema=", ".join(f"{name} {types[path]}" for name, path in paths.items()),
        event_time=next(iter(paths), "c0"),
        parse="avro",
        fields={name: JsonField(path=format_path(path)) for name, path in paths.items()},
    )
    return topic, paths


def _list_avro_values(record: RawRecord, topic: Topic) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a record with their values as JSON has them; none of a record that cannot be read."""
    parsed = parse_record(record.value, topic)
    types = {field.name: field.type for field in list_fields(topic)}
    for name, value in parsed.values.items():
        yield name, _to_json(value, types[name])


def _to_json(value: Any, kind: str) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if kind == "timestamp":
        return format_micros(value)
    if isinstance(value, date):
        return value.isoformat()
    return JsonNumber(str(value) if isinstance(value, int | Decimal) else repr(value))
