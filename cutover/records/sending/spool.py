"""Sorting of records by log time with bounded memory: messages in a file, their positions sorted by DuckDB."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from cutover.quoting import literal
from cutover.records.sending.rows import FileRecord, LogTimeRange

CHUNK = 20_000
MEMORY = "256MB"
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("number", pa.int64()),
    ("log_micros", pa.int64()),
    ("place", pa.int64()),
    ("line", pa.int64()),
    ("key_bytes", pa.int32()),
    ("value_bytes", pa.int32()),
    ("reason", pa.string()),
    ("cells", pa.int32()),
    ("example", pa.string()),
]
SCHEMA = pa.schema(_COLUMNS)
NO_KEY = -1  # bytes of a missing key: an empty one would be a key


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedSummary:
    """Records to send that both paths will classify as malformed."""

    records: int
    cells: int  # number of cells that are invalid for their type
    reasons: Mapping[str, int]  # reason -> records
    examples: tuple[str, ...]  # of the first records: line, column, expected, got


class Spool:
    """Records to send; `with Spool(folder) as spool`. The caller creates and deletes the folder."""

    def __init__(self, folder: Path) -> None:
        self._messages = (folder / "messages").open("w+b")
        self._index = duckdb.connect(str(folder / "index.duckdb"))
        self._index.execute(f"SET memory_limit = '{MEMORY}'")
        self._index.execute(f"SET temp_directory = {literal(f'{folder}/spill')}")
        self._index.execute("SET threads = 2")
        self._index.register("chunk", SCHEMA.empty_table())
        self._index.execute("CREATE TABLE places AS SELECT * FROM chunk")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._messages.close()
        self._index.close()

    def fill(self, rows: Iterable[FileRecord]) -> None:
        """Add the records of a file, in its order."""
        chunk: list[tuple[object, ...]] = []
        place = 0
        for row in rows:
            key = row.key or b""
            self._messages.write(key + row.value)
            malformed = row.malformed
            chunk.append(
                (
                    row.number,
                    row.log_micros,
                    place,
                    row.line,
                    NO_KEY if row.key is None else len(key),
                    len(row.value),
                    None if malformed is None else malformed.reason.value,
                    0 if malformed is None else malformed.cells,
                    None if malformed is None else malformed.example,
                )
            )
            place += len(key) + len(row.value)
            if len(chunk) == CHUNK:
                self._store(chunk)
                chunk = []
        self._store(chunk)
        self._messages.flush()

    @property
    def count(self) -> int:
        """Number of records to send."""
        ((count,),) = self._index.execute("SELECT count(*) FROM places").fetchall()
        return int(count)

    def drop_time_range(self, first_number: int, end: int, log_times: LogTimeRange) -> None:
        """Drop the records numbered `[first_number, end)` whose log times are in a range."""
        self._index.execute(
            "DELETE FROM places WHERE number >= ? AND number < ? AND (log_micros IS NULL OR "
            "(log_micros >= coalesce(?, log_micros) AND log_micros < coalesce(?, log_micros + 1)))",
            [first_number, end, log_times.start, log_times.end],
        )

    def drop_numbers(self, numbers: Iterable[int]) -> None:
        """Drop the records with these numbers."""
        self._index.register("dropped", pa.table({"number": pa.array(numbers, pa.int64())}))
        self._index.execute("DELETE FROM places WHERE number IN (SELECT number FROM dropped)")

    def find_extreme(self, order: str) -> tuple[int, int] | None:
        """Find the line and value of the record with the largest value of an expression; None without records.

        Args:
            order: SQL over the columns of SCHEMA, such as `value_bytes`.
        """
        row = self._index.execute(
            f"SELECT line, {order} AS extreme FROM places WHERE extreme IS NOT NULL "  # noqa: S608 -- ours
            "ORDER BY extreme DESC, number LIMIT 1"
        ).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def summarize_malformed(self, max_examples: int) -> MalformedSummary:
        """Summarize the records that will be malformed, with some examples in file order."""
        reasons = self._index.execute(
            "SELECT reason, count(*), sum(cells) FROM places WHERE reason IS NOT NULL GROUP BY reason ORDER BY reason"
        ).fetchall()
        examples = self._index.execute(
            "SELECT line, example FROM places WHERE reason IS NOT NULL ORDER BY number LIMIT ?", [max_examples]
        ).fetchall()
        return MalformedSummary(
            records=sum(int(count) for _, count, _ in reasons),
            cells=sum(int(cells) for _, _, cells in reasons),
            reasons={str(reason): int(count) for reason, count, _ in reasons},
            examples=tuple(f"line {line}, {example}" for line, example in examples),
        )

    def count_leading_malformed(self) -> int:
        """Count the records that come before the first well-formed one in the file; all of them if there is none."""
        ((count,),) = self._index.execute(
            "SELECT count(*) FROM places, (SELECT min(number) AS first FROM places WHERE reason IS NULL) "
            "WHERE first IS NULL OR number < first"
        ).fetchall()
        return int(count)

    def read_sorted_rows(self) -> Iterator[FileRecord]:
        """Yield the records in log-time order, ties in file order."""
        result = self._index.execute(
            "SELECT number, log_micros, place, line, key_bytes, value_bytes FROM places ORDER BY log_micros, number"
        )
        while chunk := result.fetchmany(CHUNK):
            for number, log_micros, place, line, key_bytes, value_bytes in chunk:
                self._messages.seek(place)
                key = None if key_bytes == NO_KEY else self._messages.read(key_bytes)
                value = self._messages.read(value_bytes)
                yield FileRecord(number=number, line=line, log_micros=log_micros, key=key, value=value)

    def _store(self, chunk: list[tuple[object, ...]]) -> None:
        if chunk:
            columns = zip(*chunk, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            self._index.register("chunk", pa.Table.from_arrays(arrays, schema=SCHEMA))
            self._index.execute("INSERT INTO places SELECT * FROM chunk")
