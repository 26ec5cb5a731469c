"""Readers of the records of a file: cells of CSV, objects of JSON lines."""

import csv
from collections.abc import Iterator
from pathlib import Path

from cutover.records.files.cells import format_name
from cutover.records.files.lines import MAX_LINE, list_suffixes, read_lines, reject
from cutover.records.reference.parse import BeyondLimitsError, parse_object
from cutover.records.reference.values import JsonObject

SUFFIXES = frozenset({".csv", ".json", ".jsonl", ".ndjson"})
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_ONE_PER_LINE = "`jq -c '.[]' FILE` writes the objects of an array one per line; `jq -c . FILE` those of other JSON."


def is_json(path: Path) -> bool:
    """Return whether a file contains JSON, judging by its name or else by its first character."""
    suffixes = list_suffixes(path)
    if suffixes and suffixes[-1] in SUFFIXES:
        return suffixes[-1] != ".csv"
    return next((line.lstrip()[:1] in {b"{", b"["} for _, line in read_lines(path) if line.strip()), False)


def read_csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file, header first, as (number of the first line, cells); cells are not modified.

    Raises:
        DefinitionError: The file is not CSV, two columns have the same name, or the separator is not a comma. The
            message contains the line number.
    """
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(_decode_lines(path), strict=True)
    is_header = True
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reject(path, reader.line_num, f"CSV, got: {error}")
        if not cells:
            continue
        if is_header:
            _check_header(path, cells)
        is_header = False
        yield line, cells


def read_json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each nonblank line as (line number, stripped text)."""
    for number, line in read_lines(path):
        text = line.strip()
        if text:
            yield number, text


def parse_line(path: Path, number: int, line: bytes) -> tuple[JsonObject, str | None]:
    """Parse the object in a line; the second value describes what exceeds the limits of a record, or is None.

    Raises:
        DefinitionError: The line is not a JSON object.
    """
    try:
        text = line.decode("utf-8")
        try:
            return parse_object(text), None
        except BeyondLimitsError as beyond:
            return parse_object(text, within_limits=False), str(beyond)
    except UnicodeDecodeError:
        reject(path, number, "UTF-8, got other bytes", hint="`iconv -f LATIN1 -t UTF-8` converts a Latin-1 file.")
    except RecursionError:
        reject(path, number, "JSON that is not nested so deeply")
    except ValueError as error:
        reject(path, number, f"one JSON object, got {error}", hint=_ONE_PER_LINE)


def _check_header(path: Path, header: list[str]) -> None:
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        reject(path, 1, f"unique column names, got `{format_name(min(repeated))}` twice")
    separator = next((mark for mark in OTHER_SEPARATORS if mark in header[0]), None)
    if len(header) == 1 and separator is not None:
        description = f"one column `{format_name(header[0])}`, which looks separated by {OTHER_SEPARATORS[separator]}"
        reject(
            path, 1, f"cells separated by commas, got {description}", hint="convert it to commas; see docs/produce.md."
        )


def _decode_lines(path: Path) -> Iterator[str]:
    for number, line in read_lines(path):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            hint = "`iconv -f LATIN1 -t UTF-8` converts a Latin-1 file."
            reject(path, number, "UTF-8, got other bytes", hint=hint)
