"""Lines of a file from anywhere: gzip or not, each bounded, so that no file can take the memory."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cutover.errors import DefinitionError

MAX_LINE = 16 * 1024 * 1024
"""Bytes of one line as it stands in the file; a message has a bound of its own."""

MAX_EXPANSION = 200
"""How many times its size a gzip file may grow; text grows 5 to 30 times."""

FREE_EXPANSION = 64 * 1024 * 1024
"""Bytes up to which nobody counts."""

GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line without its end) of a file.

    Raises:
        DefinitionError: The file cannot be read, a line is longer than MAX_LINE, or a gzip file is damaged or grows
            beyond MAX_EXPANSION; says at which line.
    """
    number = 0
    try:
        with _open_stream(path) as stream:
            bound = _bound_size(path)
            total = 0
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                total += len(line)
                _check(path, number, len(line), total, bound)
                yield number, line.rstrip(b"\r\n")
    except (OSError, EOFError, zlib.error) as error:
        msg = f"{path}, line {number + 1}: expected a readable file, got: {error}."
        raise DefinitionError(msg) from error


def is_gzip(path: Path) -> bool:
    """Return whether a file begins as gzip does."""
    with path.open("rb") as stream:
        return stream.read(2) == GZIP_MAGIC


def _open_stream(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]  # a GzipFile reads alike


def _bound_size(path: Path) -> int | None:
    return FREE_EXPANSION + MAX_EXPANSION * path.stat().st_size if is_gzip(path) else None


def _check(path: Path, number: int, length: int, total: int, bound: int | None) -> None:
    if length > MAX_LINE:
        msg = (
            f"{path}, line {number}: expected at most {MAX_LINE:,} bytes in a line, got more.\nHint: nothing was sent."
        )
        raise DefinitionError(msg)
    if bound is not None and total > bound:
        msg = f"{path}, line {number}: expected a gzip file that grows at most {MAX_EXPANSION} times, got more."
        raise DefinitionError(msg + "\nHint: nothing was sent. Unpack it yourself if you trust it.")
