"""Records of a CSV or JSON-lines file: message, key and log timestamp, checked one by one before anything is sent."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from cutover.definition.pipeline import Pipeline, Topic
from cutover.definition.schema import fields
from cutover.errors import DefinitionError
from cutover.log.encode import Encode, encoder, key_text, text
from cutover.log.lines import MAX_LINE, read_lines

MAX_MESSAGE = 8 * 1024 * 1024
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {"seconds": 1_000_000, "millis": 1_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record on its way to the log."""

    line: int
    log_micros: int | None  # None: the topic has no `log_time`
    key: bytes | None
    value: bytes


@dataclass(slots=True)
class Notes:
    """What the reader of a summary should know of the file."""

    ignored_columns: list[str] = field(default_factory=list)  # of the file, not in the schema
    unfit_cells: int = 0  # sent as text: the paths will call these records malformed


def read_rows(path: Path, pipeline: Pipeline, notes: Notes) -> Iterator[Row]:
    """Yield the records of a file in its order.

    Raises:
        DefinitionError: The file cannot be read, a line is no record, has no log time, or is larger than MAX_MESSAGE;
            with the line.
    """
    rows = _json_rows(path, pipeline) if is_json(path) else _csv_rows(path, pipeline, notes)
    for row in rows:
        if len(row.value) > MAX_MESSAGE:
            _refuse(path, row.line, f"a message of at most {MAX_MESSAGE:,} bytes, got {len(row.value):,}")
        yield row


def is_json(path: Path) -> bool:
    """Return whether a file holds JSON lines: by its name, else by its first character."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    if suffixes and suffixes[-1] in {".csv", ".json", ".jsonl", ".ndjson"}:
        return suffixes[-1] != ".csv"
    return next((line.lstrip()[:1] == b"{" for _, line in read_lines(path) if line.strip()), False)


def csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of a CSV file, its header first. UTF-8, with or without a byte order mark."""
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(_decoded(path), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        _refuse(path, reader.line_num, f"CSV, got: {error}")


def _decoded(path: Path) -> Iterator[str]:
    for number, line in read_lines(path):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8") + "\n"
        except UnicodeDecodeError:
            _refuse(path, number, "UTF-8, got other bytes")


def _csv_rows(path: Path, pipeline: Pipeline, notes: Notes) -> Iterator[Row]:
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
    at = None if topic.log_time is None else header.index(topic.log_time)
    keys = [header.index(name) for name in pipeline.key if name in known and name in header]
    for line, cells in records:
        if len(cells) != len(header):
            _refuse(path, line, f"{len(header)} cells, got {len(cells)}")
        encoded = {place: _cell(cells[place], encode, notes) for place, _, encode in columns}
        value = ",".join(prefix + encoded[place] for place, prefix, _ in columns)
        yield Row(
            line=line,
            log_micros=None if at is None else _time(path, line, cells[at], topic),
            key=f"[{','.join(encoded[place] for place in keys)}]".encode() if keys else None,
            value=f"{{{value}}}".encode(),
        )


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
    doubled = {name for name in header if header.count(name) > 1}
    if doubled:
        _refuse(path, 1, f"different column names, got `{min(doubled)}` twice")


def _json_rows(path: Path, pipeline: Pipeline) -> Iterator[Row]:
    """Send each line as it stands: it is parsed only for its log time and key."""
    topic = pipeline.source
    names = {item.name for item in fields(topic)}
    keys = [name for name in pipeline.key if name in names]
    for number, line in read_lines(path):
        if not line.strip():
            continue
        found = _object(path, number, line)
        yield Row(
            line=number,
            log_micros=None if topic.log_time is None else _time(path, number, found.get(topic.log_time), topic),
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


def _time(path: Path, line: int, given: object, topic: Topic) -> int:
    """Return the log timestamp in microseconds since 1970."""
    try:
        if topic.time_format != "iso":
            return int(str(given)) * UNITS[topic.time_format]
        return to_micros(str(given))
    except ValueError:
        shown = str(given)[:40]
        _refuse(path, line, f"a time in {topic.time_format} in `{topic.log_time}`, got `{shown}`")


def to_micros(written: str) -> int:
    """Return an ISO 8601 time in microseconds since 1970; without a zone it is UTC.

    Raises:
        ValueError: It is not one.
    """
    found = datetime.fromisoformat(written)
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (zoned - EPOCH) // timedelta(microseconds=1)


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    msg = f"{path}, line {line}: expected {what}.\nHint: nothing was sent."
    raise DefinitionError(msg)
