"""Pairs of Parquet tables for the figures of `cutover diff`: windows of 10,000 keys, in 100 files."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.bench import Bench
from cutover.reconcile.external.request import DiffRequest

KEYS = 10_000  # per window
FILES = 100
KEY = ("window_start", "k")
MEASURES = ("n", "total", "worst", "mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Expected and actual table of a comparison."""

    expected: Path
    actual: Path
    rows: int  # of the expected one

    @property
    def request(self) -> DiffRequest:
        """Request for `cutover diff`."""
        return DiffRequest(expected=str(self.expected), actual=str(self.actual), key=KEY, window="window_start")

    @property
    def globs(self) -> tuple[str, str]:
        """Glob patterns of both tables for DuckDB."""
        return f"{self.expected}/*.parquet", f"{self.actual}/*.parquet"


def make_equal_pair(bench: Bench, rows: int) -> Pair:
    """Return two tables with equal rows in different order, created once per run."""
    return bench.once(f"tables-{rows}", lambda: _make(bench.settings.home / f"tables_{rows}", rows))


def make_changed_pair(bench: Bench, rows: int, *, step: int) -> Pair:
    """Return two tables that differ in one of `step` rows, created once per run."""
    name = f"tables_{rows}_{step}"
    return bench.once(name, lambda: _make(bench.settings.home / name, rows, step=step))


def change_window(pair: Pair, window: int, by: int, *, actual: bool = True) -> None:
    """Rewrite the file of a window with changed values in every row, on both sides or only on the expected one."""
    number = window * KEYS * FILES // pair.rows
    for side, order in ((pair.expected, "i"), (pair.actual, "i % 101, i"))[: 2 if actual else 1]:
        _write(side / f"{number:04}.parquet", pair.rows, number, order=order, more=by)


def _make(folder: Path, rows: int, *, step: int = 0) -> Pair:
    shutil.rmtree(folder, ignore_errors=True)
    pair = Pair(expected=folder / "expected", actual=folder / "actual", rows=rows)
    for side, order, change_step in ((pair.expected, "i", 0), (pair.actual, "i % 101, i", step)):
        side.mkdir(parents=True)
        for number in range(FILES):
            _write(side / f"{number:04}.parquet", rows, number, order=order, step=change_step)
    return pair


def _write(file: Path, rows: int, number: int, *, order: str, step: int = 0, more: int = 0) -> None:
    start, end = rows * number // FILES, rows * (number + 1) // FILES
    change = f"+ (i % {step} = 0)::INTEGER" if step else ""
    part = file.with_suffix(".tmp")
    duckdb.execute(f"""
        COPY (SELECT make_timestamp((i // {KEYS}) * 3600000000) AS window_start, 'key-' || (i % {KEYS}) AS k,
                     i % 7 {change} AS n, (i * 31 + {more})::DECIMAL(38, 2) AS total, i % 1301 AS worst,
                     ((i * 7919) % 100003) / 7.0 AS mean
              FROM range({start}, {end}) r(i) ORDER BY {order}) TO '{part}' (FORMAT parquet)
    """)
    part.replace(file)
