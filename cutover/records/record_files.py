"""Text of a file of records, compressed or not, and messages about values in it.

The length of a line and the decompressed size are limited, so memory use is bounded. The records of CSV are in
`csv_files`, those of JSON in `json_files`.
"""

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa

from cutover.definition.model.times import EPOCH_FORMATS, name_rejected_time
from cutover.definition.model.topic import parse_decimal_type
from cutover.errors import DefinitionError
from cutover.output.cells import visible
from cutover.records.parsing.parsed_record import BeyondLimitsError, JsonNumber, JsonObject
from cutover.records.reference.parse import parse_object

MAX_SHOWN = 40  # characters of a value in a message
MAX_NAME_SHOWN = 63

JsonValue = bool | str | JsonNumber | None

MAX_LINE = 16 * 1024 * 1024
"""Maximum bytes of a line in the file; the size of a message is limited separately."""

MAX_EXPANSION = 200
"""Maximum ratio of decompressed to compressed size; text expands 5 to 30 times."""

FREE_EXPANSION = 64 * 1024 * 1024
"""Decompressed bytes up to which the ratio is not checked."""

BLOCK = 1 << 20
"""Bytes that are read at once where lines do not matter."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSED_SUFFIXES = frozenset({".gz", ".zst", ".bz2", ".xz"})

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UTF_16 = "`iconv -f UTF-16 -t UTF-8 FILE > FILE.csv` converts it."
_NOT_TEXT = {
    b"PK\x03\x04": (
        "a ZIP archive or an Excel file",
        "`unzip -p FILE > FILE.csv` unpacks an archive of one file; Excel saves a sheet as `CSV UTF-8`.",
    ),
    b"PAR1": ("a Parquet file", "DuckDB writes it as CSV: `COPY (FROM 'FILE') TO 'FILE.csv'`."),
    b"\xff\xfe": ("text in UTF-16", _UTF_16),
    b"\xfe\xff": ("text in UTF-16", _UTF_16),
    b"7z\xbc\xaf": ("a 7z archive", "`7z x FILE` unpacks it."),
}
_MAGIC_BYTES = 6
_READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)

JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".geojson"})
CSV_SUFFIXES = frozenset({".csv", ".tsv"})
_ONE_PER_LINE = "`jq -c '.[]' FILE` writes the objects of an array one per line; `jq -c . FILE` those of other JSON."


def encode_value(value: JsonValue) -> str:
    """Encode a value as JSON; numbers keep their text from the file."""
    if isinstance(value, JsonNumber):
        return value.text
    if isinstance(value, str):
        return encode_basestring(value)
    return "null" if value is None else json.dumps(value)


def describe_invalid_value(value: Any, kind: str, time_format: str) -> str:
    """Describe a value that is invalid for a type: `expected int, got "7.5"`.

    Args:
        value: Value from the JSON: None, bool, float, str, JsonNumber, JsonObject or list.
        kind: Type for which it is invalid.
        time_format: Format of timestamps in the definition.
    """
    if kind == "timestamp":
        expected = f"a time in {time_format}"
        form = None
        if isinstance(value, str | JsonNumber):
            is_number = isinstance(value, JsonNumber)
            form = name_rejected_time(value.text if isinstance(value, JsonNumber) else value, is_number=is_number)
        reason = form or _describe_time_format(value, time_format)
        return f"expected {expected}, got {format_json_value(value)} ({reason})"
    has_exponent = isinstance(value, JsonNumber) and "e" in value.text.lower()
    note = " (a decimal is written without an exponent)" if has_exponent and parse_decimal_type(kind) else ""
    return f"expected {kind}, got {format_json_value(value)}{note}"


def _describe_time_format(value: Any, time_format: str) -> str:
    if time_format not in EPOCH_FORMATS:
        return "such as 2026-03-02T00:00:00Z" if time_format == "iso" else "another pattern"
    if isinstance(value, JsonNumber) and value.text.lstrip("-").isdigit():
        return "only years 1000 to 8999 are accepted"
    return "a whole number without an exponent"


def format_json_value(value: Any) -> str:
    """Format a value as JSON, truncated to one line of a message."""
    if isinstance(value, JsonObject):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, JsonNumber):
        return _shorten(value.text)
    return _shorten(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())


def format_name(name: str) -> str:
    """Format a name from a file for a message: control characters are escaped, long names truncated."""
    return visible(name).encode("utf-8", "backslashreplace").decode()[:MAX_NAME_SHOWN]


def _shorten(text: str) -> str:
    return visible(text) if len(text) <= MAX_SHOWN else f"{visible(text[:MAX_SHOWN])}..."


def read_file_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file as (line number from 1, line including its terminator), without a byte order mark.

    Raises:
        DefinitionError: The file cannot be read, is not text, a line is longer than MAX_LINE, or a compressed file is
            corrupt or expands more than MAX_EXPANSION times. The message contains the line number.
    """
    number = total = 0
    try:
        unpack, max_total = _find_reader(path)
        with path.open("rb") if unpack is None else unpack(path) as stream:
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                total += len(line)
                _check_size(path, number, len(line), total, max_total)
                yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    except _READ_ERRORS as error:
        msg = f"{path}, line {number + 1}: expected a readable file, got: {error}."
        raise DefinitionError(msg) from error


def read_file_blocks(path: Path) -> Iterator[bytes]:
    """Yield a file in pieces, without a byte order mark; lines may have any length.

    Raises:
        DefinitionError: As `read_file_lines`.
    """
    total = 0
    try:
        unpack, max_total = _find_reader(path)
        with path.open("rb") if unpack is None else unpack(path) as stream:
            while block := stream.read(BLOCK):
                yield block if total else block.removeprefix(BYTE_ORDER_MARK)
                total += len(block)
                _check_size(path, 1, 0, total, max_total)
    except _READ_ERRORS as error:
        msg = f"{path}: expected a readable file, got: {error}."
        raise DefinitionError(msg) from error


def reject_line(path: Path, line: int, expected: str, *, hint: str = "") -> NoReturn:
    """Reject a file because of one of its lines.

    Raises:
        DefinitionError: Always.
    """
    msg = f"{path}, line {line}: expected {expected}."
    raise DefinitionError(msg + (f"\nHint: {hint}" if hint else ""))


def list_suffixes(path: Path) -> list[str]:
    """List the suffixes of a file's name in lower case, without those of compression."""
    return [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED_SUFFIXES]


def _find_reader(path: Path) -> tuple[Callable[[Path], BinaryIO] | None, int | None]:
    """Find the decompressor of a file, and the largest size that it may have decompressed; None: not compressed."""
    unpack = _find_unpacker(path)
    return unpack, None if unpack is None else FREE_EXPANSION + MAX_EXPANSION * path.stat().st_size


def _find_unpacker(path: Path) -> Callable[[Path], BinaryIO] | None:
    """Find the decompressor of a file by its first bytes; None if it is not compressed."""
    with path.open("rb") as stream:
        magic = stream.read(_MAGIC_BYTES)
    for start, (kind, hint) in _NOT_TEXT.items():
        if magic.startswith(start):
            expected = f"CSV or JSON in UTF-8, optionally compressed (gzip, zstd, bzip2, xz), got {kind}"
            reject_line(path, 1, expected, hint=hint)
    return next((unpack for start, unpack in _UNPACKERS.items() if magic.startswith(start)), None)


def _open_zstd(path: Path) -> BinaryIO:
    return io.BufferedReader(_ZstdStream(path))


class _ZstdStream(io.RawIOBase):
    """Decompressed bytes of a zstd file; a truncated frame is an error, as in gzip."""

    def __init__(self, path: Path) -> None:
        self._packed = path.open("rb")
        self._stream = pa.CompressedInputStream(self._packed, "zstd")

    def readable(self) -> bool:
        """Return True; `io.BufferedReader` requires it."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # narrower than any buffer
        """Read some bytes; 0 at the end."""
        chunk = self._stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        """Close the file."""
        self._packed.close()
        super().close()


_UNPACKERS: dict[bytes, Callable[[Path], BinaryIO]] = {
    b"\x1f\x8b": gzip.GzipFile,  # type: ignore[dict-item]  # reads alike
    _ZSTD_MAGIC: _open_zstd,
    b"BZh": bz2.BZ2File,  # type: ignore[dict-item]  # reads alike
    b"\xfd7zXZ\x00": lzma.LZMAFile,  # type: ignore[dict-item]  # reads alike
}


def _check_size(path: Path, number: int, length: int, total: int, max_total: int | None) -> None:
    if length > MAX_LINE:
        reject_line(path, number, f"at most {MAX_LINE:,} bytes in a line, got more")
    if max_total is not None and total > max_total:
        expected = f"a compressed file that expands at most {MAX_EXPANSION} times, got more"
        reject_line(path, number, expected, hint="decompress it yourself if you trust it.")


def is_json(path: Path) -> bool:
    """Return whether a file contains JSON, judging by its name or else by its first character."""
    suffixes = list_suffixes(path)
    if suffixes and suffixes[-1] in JSON_SUFFIXES | CSV_SUFFIXES:
        return suffixes[-1] in JSON_SUFFIXES
    return next((line.lstrip()[:1] in {b"{", b"["} for _, line in read_file_lines(path) if line.strip()), False)


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
        reject_line(path, number, "UTF-8, got other bytes", hint="`iconv -f LATIN1 -t UTF-8` converts a Latin-1 file.")
    except RecursionError:
        reject_line(path, number, "JSON that is not nested so deeply")
    except ValueError as error:
        reject_line(path, number, f"one JSON object, got {error}", hint=_ONE_PER_LINE)
