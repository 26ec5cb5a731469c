"""Pairs of Parquet tables of a wanted size for the figures of `cutover diff`: windows of 10,000 keys, in few files."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.bench import Bench
from cutover.reconcile.external.request import DiffRequest

KEYS = 10_000  # of a window
FILES = 100
KEY = ("window_start", "k")
MEASURES = ("n", "total", "worst", "mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two tables."""

    expected: Path
    actual: Path
    rows: int  # of the expected one

    @property
    def request(self) -> DiffRequest:
        """Return what `cutover diff` is asked."""
        return DiffRequest(left=str(self.expected), right=str(self.actual), key=KEY, window="window_start")

    @property
    def globs(self) -> tuple[str, str]:
        """Return both tables as DuckDB reads them."""
        return f"{self.expected}/*.parquet", f"{self.actual}/*.parquet"


def equal(bench: Bench, rows: int) -> Pair:
    """Return two tables of the same rows, in another order in each file; made once a run."""
    return bench.once(f"tables-{rows}", lambda: _made(bench.settings.home / f"tables_{rows}", rows))


def changed(bench: Bench, rows: int, *, every: int) -> Pair:
    """Return tables of which the actual one has another value in one row of so many; made once a run."""
    name = f"tables_{rows}_{every}"
    return bench.once(name, lambda: _made(bench.settings.home / name, rows, every=every))


def change_window(pair: Pair, window: int, by: int, *, actual: bool = True) -> None:
    """Write the file that holds a window anew, every row with another value: of both sides, or the expected one."""
    number = window * KEYS * FILES // pair.rows
    for side, order in ((pair.expected, "i"), (pair.actual, "i % 101, i"))[: 2 if actual else 1]:
        _write(side / f"{number:04}.parquet", pair.rows, number, order=order, more=by)


def _made(folder: Path, rows: int, *, every: int = 0) -> Pair:
    shutil.rmtree(folder, ignore_errors=True)
    pair = Pair(expected=folder / "expected", actual=folder / "actual", rows=rows)
    for side, order, change in ((pair.expected, "i", 0), (pair.actual, "i % 101, i", every)):
        side.mkdir(parents=True)
        for number in range(FILES):
            _write(side / f"{number:04}.parquet", rows, number, order=order, every=change)
    return pair


def _write(file: Path, rows: int, number: int, *, order: str, every: int = 0, more: int = 0) -> None:
    first, end = rows * number // FILES, rows * (number + 1) // FILES
    other = f"+ (i % {every} = 0)::INTEGER" if every else ""
    part = file.with_suffix(".tmp")
    duckdb.execute(f"""
        COPY (SELECT make_timestamp((i // {KEYS}) * 3600000000) AS window_start, 'key-' || (i % {KEYS}) AS k,
                     i % 7 {other} AS n, (i * 31 + {more})::DECIMAL(38, 2) AS total, i % 1301 AS worst,
                     ((i * 7919) % 100003) / 7.0 AS mean
              FROM range({first}, {end}) r(i) ORDER BY {order}) TO '{part}' (FORMAT parquet)
    """)
    part.replace(file)
