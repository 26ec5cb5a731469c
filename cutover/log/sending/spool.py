"""Put records into log-time order with bounded memory: messages in a file, their places sorted by DuckDB."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from cutover.log.sending.rows import FileRecord
from cutover.quoting import literal

CHUNK = 20_000
MEMORY = "256MB"
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("log_micros", pa.int64()),
        ("place", pa.int64()),
        ("line", pa.int64()),
        ("key_bytes", pa.int32()),
        ("value_bytes", pa.int32()),
    ]
)


class Spool:
    """What is sent of a file; `with Spool(folder) as spool`. The folder is the caller's, to keep and to delete."""

    def __init__(self, folder: Path) -> None:
        self._messages = (folder / "messages").open("w+b")
        self._index = duckdb.connect(str(folder / "index.duckdb"))
        self._index.execute(f"SET memory_limit = '{MEMORY}'")
        self._index.execute(f"SET temp_directory = {literal(f'{folder}/spill')}")
        self._index.execute("SET threads = 2")
        self._index.register("chunk", SCHEMA.empty_table())
        self._index.execute("CREATE TABLE places AS SELECT * FROM chunk")
        self.count = 0
        self.largest = 0  # bytes of the largest message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._messages.close()
        self._index.close()

    def fill(self, rows: Iterable[FileRecord]) -> None:
        """Take the records of a file, in its order."""
        chunk: list[tuple[int, int | None, int, int, int, int]] = []
        place = 0
        for row in rows:
            key = row.key or b""
            self._messages.write(key + row.value)
            # A missing key is -1: an empty one would be a key.
            chunk.append(
                (self.count, row.log_micros, place, row.line, -1 if row.key is None else len(key), len(row.value))
            )
            place += len(key) + len(row.value)
            self.count += 1
            self.largest = max(self.largest, len(key) + len(row.value))
            if len(chunk) == CHUNK:
                self._store(chunk)
                chunk = []
        self._store(chunk)
        self._messages.flush()

    def bounds(self) -> tuple[int | None, int | None]:
        """Return the first and last log time, in microseconds."""
        low, high = self._index.execute("SELECT min(log_micros), max(log_micros) FROM places").fetchone() or (
            None,
            None,
        )
        return low, high

    def read_sorted_rows(self) -> Iterator[FileRecord]:
        """Yield the records in log-time order, ties in the file's order."""
        result = self._index.execute(
            "SELECT log_micros, place, line, key_bytes, value_bytes FROM places ORDER BY log_micros, number"
        )
        while found := result.fetchmany(CHUNK):
            for log_micros, place, line, key_bytes, value_bytes in found:
                self._messages.seek(place)
                key = self._messages.read(key_bytes) if key_bytes >= 0 else None
                yield FileRecord(line=line, log_micros=log_micros, key=key, value=self._messages.read(value_bytes))

    def _store(self, chunk: list[tuple[int, int | None, int, int, int, int]]) -> None:
        if chunk:
            columns = zip(*chunk, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            self._index.register("chunk", pa.Table.from_arrays(arrays, schema=SCHEMA))
            self._index.execute("INSERT INTO places SELECT * FROM chunk")
