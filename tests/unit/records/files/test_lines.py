"""Lines of a file, unchanged from any compression; a line that is not text is named."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.errors import DefinitionError
from cutover.records.record_files import read_file_lines

TEXT = b'a,b\r\n1,"x\r\ny"\r\n\xc3\xbf,\x00\xef\xbb\xbf\nlast'
LINES = [(1, b"a,b\r\n"), (2, b'1,"x\r\n'), (3, b'y"\r\n'), (4, b"\xc3\xbf,\x00\xef\xbb\xbf\n"), (5, b"last")]


def pack_zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(content)
    return bytes(sink.getvalue())


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": pack_zstd,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("pack", PACKINGS.values(), ids=PACKINGS)
def test_lines_are_the_same_for_any_compression_and_name(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "a.txt").write_bytes(pack(b"\xef\xbb\xbf" + TEXT))

    assert list(read_file_lines(tmp_path / "a.txt")) == LINES


@pytest.mark.parametrize("packing", ["gzip", "zstd", "bzip2", "xz"])
def test_a_truncated_compressed_file_is_rejected(tmp_path: Path, packing: str) -> None:
    content = b"".join(b"%d,%d\n" % (n, n * n) for n in range(50_000))
    (tmp_path / "a").write_bytes(PACKINGS[packing](content)[:-9])

    with pytest.raises(DefinitionError, match=r"line \d+: expected a readable file"):
        list(read_file_lines(tmp_path / "a"))


def test_several_compressed_parts_are_one_file(tmp_path: Path) -> None:
    for name in ("gzip", "zstd", "bzip2", "xz"):
        (tmp_path / name).write_bytes(PACKINGS[name](TEXT[:9]) + PACKINGS[name](TEXT[9:]))

        assert list(read_file_lines(tmp_path / name)) == LINES


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04....", "a ZIP archive or an Excel file"),
        (b"PAR1....", "a Parquet file"),
        ("a,b\n".encode("utf-16"), "text in UTF-16"),
    ],
)
def test_a_line_that_is_not_text_is_named(tmp_path: Path, content: bytes, kind: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)

    with pytest.raises(DefinitionError, match=f"line 1: .*gzip, zstd, bzip2, xz.*, got {kind}"):
        list(read_file_lines(tmp_path / "a.csv"))
