"""Conversion of CSV and JSON-lines records to messages: key, value and log timestamp, validated before sending.

Records are validated by the reference parser that Spark's is tested against, so malformed ones are known, with line and
column, before they are in the log. Columns of a CSV file may go to nested places of the JSON.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Field, JsonPath, Topic, list_fields
from cutover.errors import DefinitionError
from cutover.records.classes import Reason
from cutover.records.csv_files import convert_cell, find_dialect, find_marks, name_fields, read_csv
from cutover.records.json_files import JsonLayout, find_json_layout, read_json_records
from cutover.records.parsing.parsed_record import InvalidField, JsonNumber, JsonObject, ParsedRecord, select_member
from cutover.records.record_files import (
    JsonValue,
    describe_invalid_value,
    encode_value,
    format_name,
    is_json,
    parse_line,
    reject_line,
)
from cutover.records.reference.from_json import parse_job_value
from cutover.records.reference.parse import parse_fields

MAX_MESSAGE = 8 * 1024 * 1024
HASH_BYTES = 8  # of each record
_REPORT_EVERY = 1_000  # records


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """Record of a file that is to be sent."""

    number: int  # in its file, from 0
    line: int
    log_micros: int | None  # None: the topic has no `log_time`
    key: bytes | None
    value: bytes
    malformed: "Malformed | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """Reason that both paths will classify a record as malformed; expressions are not evaluated here."""

    reason: Reason
    cells: int  # number of cells that are invalid for their type
    example: str  # the first invalid cell, or the defect of the whole record


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTimeRange:
    """Range `[start, end)` of log times in microseconds, which selects the records to send; None: unbounded."""

    start: int | None = None
    end: int | None = None

    def contains(self, log_micros: int | None) -> bool:
        """Return whether a log time is in the range; always true without a log time."""
        if log_micros is None:
            return True
        return (self.start is None or self.start <= log_micros) and (self.end is None or log_micros < self.end)


ALL_TIMES = LogTimeRange()
"""Range of all records of a file."""


@dataclass(slots=True)
class FileContent:
    """Hashes of the records of a file, independent of its encoding; added while it is read."""

    ignored_columns: list[str] = field(default_factory=list)  # of a CSV file, not in the schema
    layout: JsonLayout | None = None  # of a JSON file
    is_hashed: bool = True  # False: records are only counted and checked
    hashes: bytearray = field(default_factory=bytearray)  # HASH_BYTES of the header, then of each record

    def add(self, content: bytes) -> None:
        """Add the hash of the header or of a record."""
        self.hashes += hashlib.blake2b(content, digest_size=HASH_BYTES).digest()

    @property
    def records(self) -> int:
        """Number of records read so far."""
        return max(0, len(self.hashes) // HASH_BYTES - 1)


def read_rows(
    path: Path, pipeline: Pipeline, content: FileContent, log_times: LogTimeRange, advance: Callable[[int], None]
) -> Iterator[FileRecord]:
    """Yield the records of a file in a log-time range, in file order; of the other records only the times are checked.

    Args:
        path: The file.
        pipeline: The definition.
        content: Collects the hashes of all records.
        log_times: The range of records to yield.
        advance: Called with the number of records read since the last call.

    Raises:
        DefinitionError: The file cannot be read, a line is not a record, a time does not have the format of the
            definition, a log time is missing, all event times are missing, or a record is larger than MAX_MESSAGE. The
            message contains the line, and for a time the column.
    """
    try:
        records = _read_records(path, pipeline, content)
        dated = 0
        for number, (row, parsed) in enumerate(records, start=1):
            dated += parsed.values[pipeline.source.event_time] is not None
            if number % _REPORT_EVERY == 0:
                advance(_REPORT_EVERY)
            if log_times.contains(row.log_micros):
                if len(row.value) > MAX_MESSAGE:
                    reject_line(path, row.line, f"a message of at most {MAX_MESSAGE:,} bytes, got {len(row.value):,}")
                yield row
        if content.records and not dated:
            event_time = _find_column(pipeline.source, pipeline.source.event_time)
            expected = f"a time in {event_time.time_format} in column {_format_column(event_time)} of some record"
            reject_line(path, 1, f"{expected}, got none in {content.records:,}")
    except DefinitionError as error:
        has_hint = "\nHint: " in str(error)
        msg = f"{error} Nothing was sent." if has_hint else f"{error}\nHint: nothing was sent."
        raise DefinitionError(msg) from error


def find_line(path: Path, number: int, layout: JsonLayout | None) -> int:
    """Find the line of a record that is numbered from 0; -1 is the header, in line 1.

    Args:
        path: The file.
        number: Number of the record.
        layout: Place of the records in a JSON file; None for CSV.
    """
    if number < 0:
        return 1
    records = islice(read_csv(path), 1, None) if layout is None else read_json_records(path, layout)
    return next(islice(records, number, None), (1,))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRecord:
    """Record of a file as the parsers of both paths read it."""

    line: int
    document: JsonObject
    value: bytes  # of the message
    parsed: ParsedRecord
    malformed: Malformed | None


def read_checked_records(path: Path, topic: Topic, content: FileContent) -> Iterator[CheckedRecord]:
    """Yield the records of a file with what the parsers of both paths read; expressions are not evaluated.

    Raises:
        DefinitionError: The file cannot be read, or a line is not a record.
    """
    read = _read_json_records if is_json(path) else _read_csv_records
    for line, document, value, beyond in read(path, topic, content):
        yield check_record(line, document, value, topic, beyond=beyond)


def check_record(
    line: int, document: JsonObject, value: bytes, topic: Topic, *, beyond: str | None = None
) -> CheckedRecord:
    """Parse a record, and find the reason if it is malformed.

    Args:
        line: Its line in the file.
        document: The object.
        value: The message.
        topic: The topic.
        beyond: What exceeds the limits of a record.
    """
    parsed = (
        parse_fields(document, value.decode("utf-8", "replace"), topic)
        if topic.parse == "strict"
        else parse_job_value(value, topic)
    )
    malformed = _find_malformed(value, parsed, topic, beyond)
    return CheckedRecord(line=line, document=document, value=value, parsed=parsed, malformed=malformed)


def _read_records(path: Path, pipeline: Pipeline, content: FileContent) -> Iterator[tuple[FileRecord, ParsedRecord]]:
    topic = pipeline.source
    paths = {item.name: item.path for item in list_fields(topic)}
    keys = [paths[name] for name in pipeline.key if name in paths]
    for record in read_checked_records(path, topic, content):
        _check_times(path, record.line, record.parsed, topic)
        row = FileRecord(
            number=content.records - 1,
            line=record.line,
            log_micros=None if topic.log_time is None else record.parsed.values[topic.log_time],
            key=_encode_key(record.document, keys) if keys else None,
            value=record.value,
            malformed=record.malformed,
        )
        yield row, record.parsed


def _check_times(path: Path, line: int, parsed: ParsedRecord, topic: Topic) -> None:
    """Reject a time that does not have the format of the definition, and a missing log time.

    Such a record would be malformed on both paths. It is most likely a mistake that concerns the whole file and is
    cheap to fix before it is sent. A missing event time only makes its own record malformed.
    """
    for invalid_field in parsed.invalid_fields:
        if invalid_field.type == "timestamp" and invalid_field.value is not None:
            expected, _, actual = describe_invalid_value(
                invalid_field.value, invalid_field.type, invalid_field.time_format
            ).partition(", got ")
            column = _format_column(_find_column(topic, invalid_field.name))
            reject_line(path, line, f"{expected.removeprefix('expected ')} in column {column}, got {actual}")
    if topic.log_time is not None and parsed.values[topic.log_time] is None:
        log_time = _find_column(topic, topic.log_time)
        reject_line(path, line, f"a time in {log_time.time_format} in column {_format_column(log_time)}, got none")


def _find_column(topic: Topic, name: str) -> Field:
    return next(column for column in list_fields(topic) if column.name == name)


def _format_column(column: Field) -> str:
    return f"`{column.name}`" if column.label == column.name else f"`{column.name}` ({column.label})"


def _find_malformed(value: bytes, parsed: ParsedRecord, topic: Topic, beyond: str | None) -> Malformed | None:
    """Find the reason that a record is malformed, in the order of `Reason`; None if it is well formed."""
    cells = [invalid_field for invalid_field in parsed.invalid_fields if invalid_field.reason is Reason.TYPE]
    if len(value) > topic.max_value_bytes:
        example = f"{len(value):,} bytes, more than `max_value_bytes` {topic.max_value_bytes:,}"
        return Malformed(reason=Reason.TOO_LARGE, cells=len(cells), example=example)
    if beyond is not None and topic.parse == "strict":
        return Malformed(reason=Reason.JSON, cells=len(cells), example=beyond)
    if parsed.reason is None:
        return None
    first_invalid_field = next(
        invalid_field for invalid_field in parsed.invalid_fields if invalid_field.reason is parsed.reason
    )
    return Malformed(reason=parsed.reason, cells=len(cells), example=_describe_cell(first_invalid_field, topic))


def _describe_cell(cell: InvalidField, topic: Topic) -> str:
    column = _format_column(_find_column(topic, cell.name))
    if cell.value is None:
        requirement = "the event time" if cell.reason is Reason.EVENT_TIME else "NOT NULL"
        return f"column {column}: expected a value ({requirement}), got none"
    return f"column {column}: {describe_invalid_value(cell.value, cell.type, cell.time_format)}"


_RawRecord = tuple[int, JsonObject, bytes, str | None]
"""Line, object, message, and a description of what exceeds the limits of a record, or None."""


def _read_csv_records(path: Path, topic: Topic, content: FileContent) -> Iterator[_RawRecord]:
    records = read_csv(path, find_dialect(path))
    _, header = next(records, (1, []))
    names = name_fields(header)
    _check_columns(path, header, names, topic)
    by_name = sorted(range(len(header)), key=header.__getitem__)
    content.add(b"csv" + _encode_cells([header[place] for place in by_name]))
    columns = [(place, item) for place, item in enumerate(match_columns(header, names, topic)) if item is not None]
    matched = {place for place, _ in columns}
    content.ignored_columns = [text for place, text in enumerate(header) if place not in matched]
    is_flat = all(len(item.path) == 1 for _, item in columns)
    marks = find_marks(path, {names[place]: item.type for place, item in columns})
    for line, cells in records:
        if content.is_hashed:
            content.add(_encode_cells([cells[place] for place in by_name]))
        values = [
            (item.path, convert_cell(cells[place], item.type, item.time_format, marks.get(names[place], ".")))
            for place, item in columns
        ]
        document = (
            JsonObject(tuple([(str(path[0]), value) for path, value in values])) if is_flat else nest_values(values)
        )
        yield line, document, encode_parsed_json(document).encode(), None


def encode_cells(values: Mapping[str, JsonValue]) -> bytes:
    """Encode the values of a record of CSV as a message."""
    return f"{{{','.join([f'{encode_value(name)}:{encode_value(value)}' for name, value in values.items()])}}}".encode()


def _encode_cells(cells: list[str]) -> bytes:
    return json.dumps(cells, ensure_ascii=False).encode()


def _check_columns(path: Path, header: list[str], names: list[str], topic: Topic) -> None:
    for name in (topic.event_time, topic.log_time):
        column = None if name is None else _find_column(topic, name)
        if column is not None and column not in match_columns(header, names, topic):
            reject_line(
                path,
                1,
                f"a header with the column `{column.label}`, got "
                f"{', '.join(map(format_name, header[:20])) or 'nothing'}",
            )


def _read_json_records(path: Path, topic: Topic, content: FileContent) -> Iterator[_RawRecord]:
    content.add(b"json")
    content.layout = find_json_layout(path, {str(item.path[0]) for item in list_fields(topic)})
    for number, line in read_json_records(path, content.layout):
        document, beyond = parse_line(path, number, line)
        if content.is_hashed:
            content.add(line if beyond is not None else _encode_members(document))
        yield number, document, line, beyond


def _encode_members(document: JsonObject) -> bytes:
    return json.dumps(_sort_members(document), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _sort_members(value: Any) -> Any:
    """Normalize a JSON value: objects become lists of members sorted by name; numbers keep their text."""
    if isinstance(value, JsonObject):
        members = sorted(value.members, key=lambda member: member[0])  # stable: the last of equal names counts
        return [[name, _sort_members(member)] for name, member in members]
    if isinstance(value, list):
        return {"list": [_sort_members(item) for item in value]}
    return {"number": value.text} if isinstance(value, JsonNumber) else value


def _encode_key(document: JsonObject, keys: list[JsonPath]) -> bytes:
    """Encode a message key: the JSON array of the key columns' values."""
    values = (select_member(document, path) for path in keys)
    scalars = (value if isinstance(value, bool | str | JsonNumber) else None for value in values)
    return f"[{','.join(map(encode_value, scalars))}]".encode("utf-8", "replace")


def match_columns(header: Sequence[str], names: Sequence[str], topic: Topic) -> list[Field | None]:
    """Match the columns of a header with those of a topic: by the path in the header, else by the valid name.

    Args:
        header: Texts of the header.
        names: A valid name of each.
        topic: The topic.
    """
    by_label = {column.label: column for column in list_fields(topic)}
    return [by_label.get(text) or by_label.get(name) for text, name in zip(header, names, strict=True)]


def nest_values(values: Sequence[tuple[JsonPath, Any]]) -> JsonObject:
    """Make an object with values at their paths; elements of arrays that no path leads to are null."""
    root: dict[str, Any] = {}
    for path, value in values:
        node: Any = root
        for step, following in pairwise(path):
            inner: Any = [] if isinstance(following, int) else {}
            if isinstance(step, int):
                node.extend([None] * (step + 1 - len(node)))
                node[step] = inner if node[step] is None else node[step]
                node = node[step]
            else:
                node = node.setdefault(step, inner)
        last = path[-1]
        if isinstance(last, int):
            node.extend([None] * (last + 1 - len(node)))
        node[last] = value
    return _make_object(root)


def _make_object(node: dict[str, Any]) -> JsonObject:
    return JsonObject(tuple((name, _make_json(inner)) for name, inner in node.items()))


def _make_json(node: Any) -> Any:
    if isinstance(node, list):
        return list(map(_make_json, node))
    return _make_object(node) if isinstance(node, dict) else node


def encode_parsed_json(value: Any) -> str:
    """Encode a parsed value as JSON; numbers keep their text."""
    if isinstance(value, JsonObject):
        members = [f"{encode_basestring(name)}:{encode_parsed_json(inner)}" for name, inner in value.members]
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(encode_parsed_json, value))}]"
    return encode_value(value)
