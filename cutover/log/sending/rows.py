"""Records of a CSV or JSON-lines file: message, key and log timestamp, checked one by one before anything is sent."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cutover.definition.model.instants import micros_of
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.schema import fields
from cutover.definition.model.topic import Topic
from cutover.errors import DefinitionError
from cutover.log.sending.encode import WHOLE, Encode, encoder, key_text, text
from cutover.log.sending.lines import MAX_LINE, read_lines

MAX_DIGITS = 32  # of a time; no longer number is one
MAX_MESSAGE = 8 * 1024 * 1024
_TOLD_EVERY = 1_000  # records


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One record on its way to the log."""

    line: int
    log_micros: int | None  # None: the topic has no `log_time`
    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The part of a file that is sent: records of `[start, end)` of log time, in microseconds; None: no bound."""

    start: int | None = None
    end: int | None = None

    def has(self, log_micros: int | None) -> bool:
        """Return whether a record of this log time is in it; one of a topic without log time is."""
        if log_micros is None:
            return True
        return (self.start is None or self.start <= log_micros) and (self.end is None or log_micros < self.end)


ALL = Stretch()
"""All of a file."""


@dataclass(slots=True)
class Notes:
    """What the reader of a summary should know of what is sent."""

    ignored_columns: list[str] = field(default_factory=list)  # of the file, not in the schema
    unfit_cells: int = 0  # sent as text: the paths will call these records malformed


def read_rows(
    path: Path, pipeline: Pipeline, notes: Notes, stretch: Stretch, advance: Callable[[int], None]
) -> Iterator[FileRecord]:
    """Yield the records of a stretch of a file in its order; of the others the times are checked, no more.

    Args:
        path: The file.
        pipeline: The definition.
        notes: Filled.
        stretch: Which records to yield.
        advance: Told how many further lines are read.

    Raises:
        DefinitionError: The file cannot be read, a line is no record, a time is not written as the definition says,
            the log time is missing, the event time is missing everywhere, or a record is larger than MAX_MESSAGE;
            with the line, and of a time with the column.
    """
    times = Times(path, pipeline.source)
    rows = (
        _json_rows(path, pipeline, times, stretch)
        if is_json(path)
        else _csv_rows(path, pipeline, notes, times, stretch)
    )
    for number, row in enumerate(rows, start=1):
        if number % _TOLD_EVERY == 0:
            advance(_TOLD_EVERY)
        if row is None:
            continue
        if len(row.value) > MAX_MESSAGE:
            _refuse(path, row.line, f"a message of at most {MAX_MESSAGE:,} bytes, got {len(row.value):,}")
        yield row
    times.check_end()


@dataclass(slots=True)
class Times:
    """Checks the times of a file: all that are given must be written as the definition says.

    A record with another time would be malformed on both paths; a file of them is a mistake that costs nothing before
    it is sent. A missing one (an empty cell, null) is a matter of its record.
    """

    path: Path
    topic: Topic
    names: frozenset[str] = field(init=False)
    _lines: int = 0
    _dated: int = 0  # records with an event time

    def __post_init__(self) -> None:
        self.names = frozenset(item.name for item in fields(self.topic) if item.type == "timestamp")

    def check(self, line: int, given: Mapping[str, object]) -> int | None:
        """Return the log timestamp of a record, microseconds since 1970; None if the topic names no column for it.

        Args:
            line: Where it stands.
            given: Its times by column, as they stand in the JSON; None: none is there.
        """
        self._lines += 1
        self._dated += given.get(self.topic.event_time) is not None
        found = {name: self._micros(line, name, value) for name, value in given.items() if value is not None}
        if self.topic.log_time is None:
            return None
        if self.topic.log_time not in found:
            _refuse(self.path, line, f"a time in {self.topic.time_format} in column `{self.topic.log_time}`, got none")
        return found[self.topic.log_time]

    def check_end(self) -> None:
        """Refuse a file without a single event time."""
        if self._lines and not self._dated:
            wanted = f"a time in {self.topic.time_format} in column `{self.topic.event_time}`"
            _refuse(self.path, 1, f"{wanted} of some record, got none in {self._lines:,}")

    def _micros(self, line: int, name: str, value: object) -> int:
        try:
            return micros_of(value, self.topic.time_format)
        except ValueError:
            shown = json.dumps(value, ensure_ascii=False)[:40]
            wanted = f"a time in {self.topic.time_format} in column `{name}`"
            _refuse(self.path, line, f"{wanted}, got {shown} (years 1000 to 8999 are taken)")


def is_json(path: Path) -> bool:
    """Return whether a file holds JSON lines: by its name, else by its first character."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    if suffixes and suffixes[-1] in {".csv", ".json", ".jsonl", ".ndjson"}:
        return suffixes[-1] != ".csv"
    return next((line.lstrip()[:1] == b"{" for _, line in read_lines(path) if line.strip()), False)


def csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of a CSV file, its header first. UTF-8, with or without a byte order mark.

    Raises:
        DefinitionError: It is no such file, or two columns have one name.
    """
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(_decode_lines(path), strict=True)
    is_header = True
    try:
        for cells in filter(None, reader):
            if is_header:
                _check_different(path, cells)
            is_header = False
            yield reader.line_num, cells
    except csv.Error as error:
        _refuse(path, reader.line_num, f"CSV, got: {error}")


def _check_different(path: Path, header: list[str]) -> None:
    doubled = {name for name in header if header.count(name) > 1}
    if doubled:
        _refuse(path, 1, f"different column names, got `{min(doubled)}` twice")


def _decode_lines(path: Path) -> Iterator[str]:
    for number, line in read_lines(path):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8") + "\n"
        except UnicodeDecodeError:
            _refuse(path, number, "UTF-8, got other bytes (`iconv -f LATIN1 -t UTF-8` writes a Latin-1 file anew)")


def _csv_rows(
    path: Path, pipeline: Pipeline, notes: Notes, times: Times, stretch: Stretch
) -> Iterator[FileRecord | None]:
    """Yield the records of a CSV file; None in the place of one that is not in the stretch."""
    records = csv_records(path)
    _, header = next(records, (1, []))
    topic = pipeline.source
    _check_header(path, header, topic)
    known = {item.name: item for item in fields(topic)}
    notes.ignored_columns = [name for name in header if name not in known]
    columns = [
        (place, f"{text(name)}:", encoder(known[name], topic.time_format))
        for place, name in enumerate(header)
        if name in known
    ]
    dated = [(name, place) for place, name in enumerate(header) if name in times.names]
    written = str if topic.time_format == "iso" else _parse_whole
    keys = [header.index(name) for name in pipeline.key if name in known and name in header]
    for line, cells in records:
        if len(cells) != len(header):
            _refuse(path, line, f"{len(header)} cells, got {len(cells)}")
        given = {name: written(cells[place]) if cells[place] else None for name, place in dated}
        log_micros = times.check(line, given)
        if not stretch.has(log_micros):
            yield None
            continue
        encoded = {place: _cell(cells[place], encode, notes) for place, _, encode in columns}
        value = ",".join(prefix + encoded[place] for place, prefix, _ in columns)
        yield FileRecord(
            line=line,
            log_micros=log_micros,
            key=f"[{','.join(encoded[place] for place in keys)}]".encode() if keys else None,
            value=f"{{{value}}}".encode(),
        )


def _parse_whole(cell: str) -> object:
    """Return a cell as a whole number; one that is none as it is, for the check to refuse."""
    return int(cell) if WHOLE.fullmatch(cell) and len(cell) <= MAX_DIGITS else cell


def _cell(cell: str, encode: Encode, notes: Notes) -> str:
    """Return a cell as JSON; one that does not fit its type goes as text, for the paths to call it malformed."""
    if not cell:
        return "null"
    encoded = encode(cell)
    if encoded is None:
        notes.unfit_cells += 1
        return text(cell)
    return encoded


def _check_header(path: Path, header: list[str], topic: Topic) -> None:
    for name in (topic.event_time, topic.log_time):
        if name is not None and name not in header:
            _refuse(path, 1, f"a header with the column `{name}`, got {', '.join(header[:20]) or 'nothing'}")


def _json_rows(path: Path, pipeline: Pipeline, times: Times, stretch: Stretch) -> Iterator[FileRecord | None]:
    """Yield each line as it stands, which is parsed only for its times and key; None where it is not in the stretch."""
    topic = pipeline.source
    names = {item.name for item in fields(topic)}
    keys = [name for name in pipeline.key if name in names]
    for number, line in read_lines(path):
        if not line.strip():
            continue
        found = _object(path, number, line)
        log_micros = times.check(number, {name: found.get(name) for name in times.names})
        if not stretch.has(log_micros):
            yield None
            continue
        yield FileRecord(
            line=number,
            log_micros=log_micros,
            key=key_text([found.get(name) for name in keys]).encode("utf-8", "replace") if keys else None,
            value=line.strip(),
        )


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except RecursionError:
        _refuse(path, number, "JSON that is not nested so deeply")
    except ValueError as error:
        _refuse(path, number, f"one JSON object, got: {error}")
    if not isinstance(found, dict):
        _refuse(path, number, f"one JSON object, got {type(found).__name__}")
    return found


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    msg = f"{path}, line {line}: expected {what}.\nHint: nothing was sent."
    raise DefinitionError(msg)
