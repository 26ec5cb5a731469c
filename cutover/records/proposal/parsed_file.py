"""Records of a file as the parser of a proposed topic reads them: which it rejects, and the times of the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from cutover.counts import count_clause, count_noun
from cutover.definition.model.times import parse_iso_micros
from cutover.definition.model.topic import Topic, list_column_types
from cutover.records.csv_files import CHUNK, DecimalMark, convert_cell, find_marks, name_fields, read_csv
from cutover.records.parsing.parsed_record import InvalidValueError, JsonObject
from cutover.records.proposal.columns import USUAL_FORMS, USUAL_TIME
from cutover.records.proposal.pace import MAX_KEYS, RecordTimes
from cutover.records.record_files import JsonValue, is_json
from cutover.records.reference.scalars import parse_value
from cutover.records.sending.rows import (
    CheckedRecord,
    FileContent,
    check_record,
    encode_cells,
    read_checked_records,
)

MAX_EXAMPLES = 5

_INVALID = object()
_SECONDS = len("2026-03-02T00:00:00")
_MOST_BYTES = 6
"""Bytes of a character in JSON at most: `\\u0000`."""


@dataclass(slots=True)
class ParsedFile:
    """Result of reading all records of a file by the parser of a topic."""

    times: RecordTimes
    records: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of malformed records
    examples: list[str] = field(default_factory=list)  # of the first ones: line and reason
    keys: set[str] = field(default_factory=set)  # at most MAX_KEYS

    @property
    def malformed(self) -> int:
        """Number of records that both paths will classify as malformed."""
        return self.reasons.total()

    def describe(self) -> list[str]:
        """Describe how many records are accepted, and why the others are not."""
        if not self.malformed:
            return [f"Parser: {count_clause(self.records, 'record', 'is', 'are')} accepted, none is malformed."]
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        accepted = f"{self.records - self.malformed:,} of {count_noun(self.records, 'record')} are accepted"
        more = self.malformed - len(self.examples)
        return [
            f"Parser: {accepted}, {self.malformed:,} will be malformed ({reasons}):",
            *(f"  {example}" for example in self.examples),
            *([f"  ... and {more:,} more"] if more else []),
        ]

    def add_malformed(self, record: CheckedRecord) -> None:
        """Count a record if it is malformed."""
        if record.malformed is not None:
            self.reasons[record.malformed.reason.value] += 1
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(f"line {record.line}, {record.malformed.example}")


def parse_all_records(
    path: Path, topic: Topic, key: str | None, marks: Mapping[str, DecimalMark] | None = None
) -> ParsedFile:
    """Read all records of a file by the parser of a topic.

    Args:
        path: The file.
        topic: The topic.
        key: Column whose distinct values are counted.
        marks: Decimal marks of columns of CSV, as `find_marks` finds them; None: they are not known yet.

    Raises:
        DefinitionError: The file cannot be read, or a line is not a record.
    """
    parsed_file = ParsedFile(times=RecordTimes(is_logged=topic.log_time is not None))
    if topic.parse == "strict" and not is_json(path):
        _parse_cells(path, topic, key, parsed_file, marks)
        return parsed_file
    for record in read_checked_records(path, topic, FileContent(is_hashed=False)):
        parsed_file.records += 1
        parsed_file.add_malformed(record)
        values = record.parsed.values
        _add_times(parsed_file.times, [values.get(topic.event_time)], [values.get(topic.log_time or "")])
        if key is not None and len(parsed_file.keys) < MAX_KEYS:
            parsed_file.keys.add(str(values.get(key)))
    return parsed_file


def _add_times(times: RecordTimes, events: Sequence[Any], logged: Sequence[Any]) -> None:
    for event, log in zip(events, logged, strict=True):
        if isinstance(event, int) and (not times.is_logged or isinstance(log, int)):
            times.add(event, log if times.is_logged else None, 0)


@dataclass(slots=True)
class _CellParser:
    """Parser of CSV column by column: a record is accepted if each of its cells is valid for its column."""

    topic: Topic
    types: Mapping[str, str]
    places: Mapping[str, int]
    marks: Mapping[str, DecimalMark]
    midnights: dict[str, int] = field(default_factory=dict)  # text of a day -> microseconds

    def parse(self, columns: Sequence[Sequence[str]]) -> tuple[set[int], dict[str, list[Any]]]:
        """Return the rows that may be malformed, and the values of the time columns."""
        suspects: set[int] = self._find_long_rows(columns)
        times: dict[str, list[Any]] = {}
        for name, kind in self.types.items():
            if kind == "string":
                continue
            cells = columns[self.places[name]]
            read = {cell: self._read(cell, name) for cell in set(cells)}
            is_required = name == self.topic.event_time
            invalid = {cell for cell, value in read.items() if value is _INVALID or (is_required and value is None)}
            if invalid:
                suspects.update(row for row, cell in enumerate(cells) if cell in invalid)
            if name in {self.topic.event_time, self.topic.log_time}:
                times[name] = [read[cell] for cell in cells]
        return suspects, times

    def check(self, line: int, cells: Sequence[str]) -> CheckedRecord:
        """Parse one record whole."""
        values = {name: self._convert(cells[self.places[name]], name) for name in self.types}
        return check_record(line, JsonObject(tuple(values.items())), encode_cells(values), self.topic)

    def _read_usual_time(self, cell: str) -> int:
        """Convert a time of ISO 8601 to microseconds, in a quarter of the time; days are converted once."""
        midnight = self.midnights.get(cell[:10])
        if midnight is None:
            midnight = self.midnights[cell[:10]] = parse_iso_micros(cell[:10])
        rest = cell[19:]
        if len(cell) < _SECONDS or (rest and (rest[0] != "." or not rest[1:].rstrip("Z").isdigit()) and rest != "Z"):
            return parse_iso_micros(cell)  # without a time, or with an offset
        fraction = int(f"{rest[1:].rstrip('Z'):0<6}"[:6]) if rest[:1] == "." else 0
        return midnight + (int(cell[11:13]) * 3_600 + int(cell[14:16]) * 60 + int(cell[17:19])) * 1_000_000 + fraction

    def _find_long_rows(self, columns: Sequence[Sequence[str]]) -> set[int]:
        """Find the rows whose message may be too large."""
        limit = self.topic.max_value_bytes // _MOST_BYTES - sum(len(name) + 8 for name in self.types)
        if sum(max(map(len, cells)) for cells in columns) <= limit:
            return set()
        return {row for row, cells in enumerate(zip(*columns, strict=True)) if sum(map(len, cells)) > limit}

    def _convert(self, cell: str, name: str) -> JsonValue:
        return convert_cell(cell, self.types[name], self.topic.time_format, self.marks.get(name, "."))

    def _read(self, cell: str, name: str) -> Any:
        """Return the value of a cell, or `_INVALID`; the cell itself if it is certainly valid and no time."""
        if self.topic.time_format == "iso" and self.types[name] == "timestamp" and USUAL_TIME.fullmatch(cell):
            return self._read_usual_time(cell)
        usual_form = USUAL_FORMS.get(self.types[name])
        if usual_form is not None and usual_form.fullmatch(cell):
            return cell
        try:
            return parse_value(self._convert(cell, name), self.types[name], self.topic.time_format)
        except InvalidValueError:
            return _INVALID


def _parse_cells(
    path: Path, topic: Topic, key: str | None, parsed_file: ParsedFile, marks: Mapping[str, DecimalMark] | None
) -> None:
    records = read_csv(path)
    names = name_fields(next(records, (1, []))[1])
    types = list_column_types(topic)
    known_marks = find_marks(path, types) if marks is None else marks
    parser = _CellParser(topic, types, {name: names.index(name) for name in types}, known_marks)
    while chunk := list(islice(records, CHUNK)):
        columns = list(zip(*(cells for _, cells in chunk), strict=True))
        parsed_file.records += len(chunk)
        suspects, times = parser.parse(columns)
        events = times[topic.event_time]
        _add_times(parsed_file.times, events, events if topic.log_time is None else times[topic.log_time])
        if key is not None and len(parsed_file.keys) < MAX_KEYS:
            parsed_file.keys.update(columns[parser.places[key]])
        for row in sorted(suspects):
            parsed_file.add_malformed(parser.check(*chunk[row]))
