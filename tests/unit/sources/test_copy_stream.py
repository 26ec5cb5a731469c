"""Rows that a server sends for a COPY, as the file that Arrow reads in blocks."""

import random
from collections.abc import Iterator
from typing import Any, cast

import pytest

from cutover.sources.postgres import CopyStream


def send(rows: list[bytes], error: Exception | None = None) -> Any:
    def iterate() -> Iterator[memoryview]:
        for row in rows:
            yield memoryview(row)
        if error is not None:
            raise error

    return cast("Any", iterate())


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_any_size_are_the_rows(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 -- drawn values of a test
    rows = [bytes([number % 256]) * draw.randint(0, 9) for number in range(draw.randint(0, 200))]
    stream, content = CopyStream(send(rows)), b""

    while block := stream.read(size := draw.randint(1, 40)):
        content += block
        assert len(block) == size or content == b"".join(rows)

    assert content == b"".join(rows)
    assert CopyStream(send(rows)).read() == content


def test_an_error_of_the_server_is_raised_when_the_rest_is_read() -> None:
    stream = CopyStream(send([b"a\n", b"b\n"], ValueError("server closed")))
    assert stream.read(2) == b"a\n"

    with pytest.raises(ValueError, match="server closed"):
        stream.read(100)
    with pytest.raises(ValueError, match="server closed"):
        stream.drain()


def test_the_rest_is_read_before_the_connection_is_used_again() -> None:
    rows = send([b"a\n", b"b\n", b"c\n"])
    stream = CopyStream(rows)
    stream.read(1)

    stream.drain()

    assert next(rows, None) is None
    assert stream.read(10) == b""
