"""Encoding of CSV files: bytes that are no text of the stated encoding are rejected with the file and what they are.

DuckDB reads UTF-16 in little-endian order alone, without characters that take two units, and Latin-1 without the
control characters from 0x80 to 0x9F; it names neither the file nor the reason. UTF-8 is left to it, since it names the
line.
"""

import codecs
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import pyarrow as pa

from cutover.errors import LakeError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ENCODINGS = ("utf-8", "utf-16", "latin-1")
_START = 1024  # bytes in which zeros reveal UTF-16 without a mark
_MOST_BYTES = 3  # of a character of UTF-16 that is read, in UTF-8
_MARKS = {  # of byte order; that of UTF-32 begins with one of UTF-16
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16be",
}
_OTHER_KINDS = {  # first bytes of files that are no text: what they are, and what to do
    b"\x1f\x8b": ("gzip", "end its name in `.csv.gz`, or unpack it with `gunzip`."),
    b"\x28\xb5\x2f\xfd": ("zstd", "end its name in `.csv.zst`, or unpack it with `unzstd`."),
    b"PAR1\x15": ("Parquet", "end its name in `.parquet`."),
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "unpack it, or export the sheet to CSV or Parquet."),
    b"\xd0\xcf\x11\xe0": ("an Excel workbook", "export the sheet to CSV or Parquet."),
}
_NAMES = {"utf-8": "UTF-8", "utf-16": "UTF-16", "utf-16be": "UTF-16 in big-endian order", "utf-32": "UTF-32"}
_NO_LATIN_1 = re.compile(rb"[\x80-\x9f]")
_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")


class _CheckedBytes(io.RawIOBase):
    """Bytes of a file as a function reads them, at most three for each that it is called with."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer)
        block = self._read(max(1, len(view) // _MOST_BYTES))
        view[: len(block)] = block
        return len(block)


@contextmanager
def open_text(source: str, file: str, encoding: str) -> Iterator[io.BufferedReader]:
    """Open a file, unpacked, as a stream of its bytes without a byte order mark; those of UTF-16 are UTF-8 there.

    Raises:
        LakeError: The file cannot be read, or holds something else than text of the encoding.
    """
    try:
        with pa.input_stream(file, compression="detect") as unpacked:
            stream: io.BufferedReader = io.BufferedReader(cast("io.RawIOBase", unpacked))  # it has every method of one
            mark = _check_start(source, file, encoding, stream.peek(_START)[:_START])
            if encoding == "utf-16":
                yield io.BufferedReader(_CheckedBytes(_read_utf_16(source, file, stream)))
            elif encoding == "latin-1":
                yield io.BufferedReader(_CheckedBytes(_read_latin_1(source, file, stream)))
            else:
                stream.read(len(mark))
                yield stream
    except (OSError, pa.ArrowException) as error:
        msg = f"Table `{source}`: expected CSV, got in `{Path(file).name}`: {str(error).splitlines()[0]}"
        raise LakeError(msg, runbook="TableUnreadable") from None


def find_checked_encoding(encoding: str) -> str:
    """Return the encoding of the bytes that `open_text` yields."""
    return "utf-8" if encoding == "utf-16" else encoding


def _check_start(source: str, file: str, encoding: str, start: bytes) -> bytes:
    """Return the byte order mark at the start of a file.

    Raises:
        LakeError: The file is no text, the mark is that of another encoding, or zero bytes reveal UTF-16 without one.
    """
    _reject_other_kind(source, file, start)
    mark = next((mark for mark in _MARKS if start.startswith(mark)), b"")
    marked = _MARKS.get(mark, encoding if start else "")
    if marked == "utf-16" and not mark:
        _reject(source, file, encoding, "a file without its byte order mark", _guess_encoding(start))
    if mark and marked != encoding:
        _reject(source, file, encoding, f"the byte order mark of {_NAMES[marked]}", marked)
    if encoding != "utf-16" and b"\0" in start.partition(b"\n")[0]:
        _reject(source, file, encoding, "bytes of zero in the head, as UTF-16 has them", _guess_encoding(start))
    return mark


def _reject_other_kind(source: str, file: str, start: bytes) -> None:
    """Reject a file of another kind that its first bytes reveal."""
    for first_bytes, (kind, hint) in _OTHER_KINDS.items():
        if start.startswith(first_bytes):
            msg = f"Table `{source}`: expected CSV in `{Path(file).name}`, got {kind}.\nHint: {hint}"
            raise LakeError(msg, runbook="TableUnreadable")


def _guess_encoding(start: bytes) -> str:
    """Return what a file without a mark is likely to be: UTF-16 has the byte of zero of a Latin letter on one side."""
    if b"\0" not in start:
        return "utf-8"
    return "utf-16le" if start[1::2].count(0) >= start[::2].count(0) else "utf-16be"


def _read_utf_16(source: str, file: str, stream: io.BufferedReader) -> Callable[[int], bytes]:
    text = io.TextIOWrapper(stream, "utf-16", newline="")

    def read(size: int) -> bytes:
        try:
            block = text.read(size)
        except UnicodeError as error:
            _reject(source, file, "utf-16", f"bytes that are none ({error})", None)
        if _TWO_UNITS.search(block):
            _reject(source, file, "utf-16", "a character beyond U+FFFF, which is not read", "utf-16")
        return block.encode()

    return read


def _read_latin_1(source: str, file: str, stream: io.BufferedReader) -> Callable[[int], bytes]:
    place = 0

    def read(size: int) -> bytes:
        nonlocal place
        block = stream.read(size)
        if control_byte := _NO_LATIN_1.search(block):
            position = f"the byte 0x{block[control_byte.start()]:02X} at {place + control_byte.start():,}"
            _reject(source, file, "latin-1", f"{position}, which is no text there", _guess_instead_of_latin_1(block))
        place += len(block)
        return block

    return read


def _guess_instead_of_latin_1(block: bytes) -> str:
    try:
        codecs.utf_8_decode(block, "strict", False)  # noqa: FBT003 -- its end may be in the next block
    except UnicodeDecodeError:
        return "windows-1252"
    return "utf-8"


def _reject(source: str, file: str, encoding: str, bad_bytes: str, likely: str | None) -> NoReturn:
    """Raise the error for bytes that are not text of an encoding.

    Args:
        source: Of the table.
        file: Which one.
        encoding: As stated, or by default.
        bad_bytes: What the file holds instead.
        likely: Most likely encoding of the file.
    """
    name = Path(file).name
    msg = f"Table `{source}`: expected text in {encoding} in `{name}`, got {bad_bytes}."
    if likely in ENCODINGS and likely != encoding:
        msg += f"\nHint: `--csv-left` or `--csv-right` with `encoding={likely}` states the encoding of one side."
    elif likely is not None:
        msg += f"\nHint: convert it, such as with `iconv -f {likely} -t utf-8`; {', '.join(ENCODINGS)} are read."
    raise LakeError(msg, runbook="TableUnreadable")
