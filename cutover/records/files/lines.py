"""Lines of a file, compressed or not; their length and the decompressed size are limited, so memory use is bounded."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

import pyarrow as pa

from cutover.errors import DefinitionError

MAX_LINE = 16 * 1024 * 1024
"""Maximum bytes of a line in the file; the size of a message is limited separately."""

MAX_EXPANSION = 200
"""Maximum ratio of decompressed to compressed size; text expands 5 to 30 times."""

FREE_EXPANSION = 64 * 1024 * 1024
"""Decompressed bytes up to which the ratio is not checked."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
COMPRESSED_SUFFIXES = frozenset({".gz", ".zst", ".bz2", ".xz"})

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_NOT_TEXT = {
    b"PK\x03\x04": "a ZIP archive or an Excel file",
    b"PAR1": "a Parquet file",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"7z\xbc\xaf": "a 7z archive",
}
_MAGIC_BYTES = 6


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file as (line number from 1, line including its terminator), without a byte order mark.

    Raises:
        DefinitionError: The file cannot be read, is not text, a line is longer than MAX_LINE, or a compressed file is
            corrupt or expands more than MAX_EXPANSION times. The message contains the line number.
    """
    number = total = 0
    try:
        unpack = _find_unpacker(path)
        max_total = None if unpack is None else FREE_EXPANSION + MAX_EXPANSION * path.stat().st_size
        with path.open("rb") if unpack is None else unpack(path) as stream:
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                total += len(line)
                _check_size(path, number, len(line), total, max_total)
                yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        msg = f"{path}, line {number + 1}: expected a readable file, got: {error}."
        raise DefinitionError(msg) from error


def reject(path: Path, line: int, expected: str, *, hint: str = "") -> NoReturn:
    """Reject a file because of one of its lines.

    Raises:
        DefinitionError: Always.
    """
    msg = f"{path}, line {line}: expected {expected}."
    raise DefinitionError(msg + (f"\nHint: {hint}" if hint else ""))


def list_suffixes(path: Path) -> list[str]:
    """List the suffixes of a file's name in lower case, without those of compression."""
    return [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED_SUFFIXES]


def _find_unpacker(path: Path) -> Callable[[Path], BinaryIO] | None:
    """Find the decompressor of a file by its first bytes; None if it is not compressed."""
    with path.open("rb") as stream:
        magic = stream.read(_MAGIC_BYTES)
    for start, kind in _NOT_TEXT.items():
        if magic.startswith(start):
            reject(path, 1, f"CSV or JSON lines in UTF-8, optionally compressed (gzip, zstd, bzip2, xz), got {kind}")
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
        reject(path, number, f"at most {MAX_LINE:,} bytes in a line, got more")
    if max_total is not None and total > max_total:
        expected = f"a compressed file that expands at most {MAX_EXPANSION} times, got more"
        reject(path, number, expected, hint="decompress it yourself if you trust it.")
