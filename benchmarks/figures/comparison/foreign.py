"""Comparison of a million rows of each format that Cutover does not write, with its own: Parquet against Parquet.

Each comparison is `cutover diff` in a process of its own, with a home of its own. PostgreSQL is started for it.
"""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import psycopg
import pyarrow.parquet as pq
from deltalake import write_deltalake

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from tests.support.servers.postgres import running_server
from tests.support.tables.iceberg_tables import delete_positions, find_folder, make_catalog

ROWS = 1_000_000
COLUMNS = (
    "make_timestamptz((i // 10000) * 3600000000) AS window_start, 'key-' || (i % 10000) AS k, (i % 7)::BIGINT AS n,"
    " (i * 31)::DECIMAL(20, 2) AS total, (i % 1301)::BIGINT AS worst, i / 3.0::DOUBLE AS mean"
)
SERVER_COLUMNS = "window_start timestamptz, k text, n bigint, total numeric(20,2), worst bigint, mean double precision"


def measure_foreign(bench: Bench) -> Figure:
    """Measure the seconds of a comparison with each format, by rounds."""
    rows = bench.sized(ROWS)
    with TemporaryDirectory(dir=bench.settings.home) as folder, running_server() as server:
        tables = make_tables(Path(folder), server, rows)
        expected = tables.pop("expected")
        variants = {name: partial(_time_diff, expected, table) for name, table in tables.items()}
        samples = measure_interleaved(variants, bench.rounds)
    goals = {name: f"foreign_{name.replace(', ', '_')}" for name in tables if name != "parquet"}
    return Figure(
        name="foreign",
        title="Compare a million rows of another format",
        values=tuple(ratio(goal, samples[name], samples["parquet"]) for name, goal in goals.items()),
        sizes={"rows_a_side": rows, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=("in every round all tables agreed with the same Parquet file",),
        notes=(
            "A process per comparison, with its start: pyiceberg alone takes a part of it to import.",
            "Iceberg with a deleted row is copied, and so are the rows of PostgreSQL, which runs on the same machine.",
        ),
        full=rows >= ROWS,
    )


def _time_diff(expected: str, actual: str, _: int) -> float:
    return compare(expected, actual)


def make_tables(folder: Path, server: str, rows: int) -> dict[str, str]:
    """Write the same rows into each kind of table; return their addresses."""
    paths = {name: str(folder / f"{name}.parquet") for name in ("expected", "parquet")}
    for name, path in paths.items():
        order = "ORDER BY i % 101, i" if name == "expected" else ""
        duckdb.execute(f"COPY (SELECT {COLUMNS} FROM range({rows}) r(i) {order}) TO '{path}' (FORMAT parquet)")
    table = pq.read_table(paths["parquet"])
    catalog = make_catalog(folder)
    files = catalog.create_table("shop.plain", schema=table.schema)
    files.append(table)
    deleted = catalog.create_table("shop.deleted", schema=table.schema)
    deleted.append(table)
    deleted.append(table.slice(0, 1))
    delete_positions(deleted, [0])
    with duckdb.connect(folder / "shop.duckdb") as connection:
        connection.execute(f"CREATE TABLE sales AS FROM '{paths['parquet']}'")
    write_deltalake(folder / "delta", table)
    csv = folder / "rows.csv"
    duckdb.execute(f"COPY (FROM '{paths['parquet']}') TO '{csv}' (FORMAT csv, HEADER false)")
    with psycopg.connect(server) as postgres:
        postgres.execute(f"CREATE TABLE sales ({SERVER_COLUMNS})".encode())
        with postgres.cursor().copy("COPY sales FROM STDIN (FORMAT csv)") as copy, csv.open("rb") as stream:
            while block := stream.read(1 << 20):
                copy.write(block)
    return {
        "expected": paths["expected"],
        "parquet": paths["parquet"],
        "delta": str(folder / "delta"),
        "iceberg": find_folder(files),
        "iceberg, copied": find_folder(deleted),
        "duckdb": f"duckdb://{folder}/shop.duckdb#sales",
        "postgresql": f"{server}#sales",
    }


def compare(expected: str, actual: str) -> float:
    """Return the seconds of one comparison.

    Raises:
        AssertionError: The tables differ.
    """
    program = str(Path(sys.executable).with_name("cutover"))
    command = [program, "diff", expected, actual, "--key", "window_start,k", "--window-column", "window_start"]
    with TemporaryDirectory() as home:
        started = time.monotonic()
        done = subprocess.run(command, env={**os.environ, "CUTOVER_HOME": home}, capture_output=True, check=False)
        seconds = time.monotonic() - started
    if done.returncode or b"agree" not in done.stdout:
        msg = f"Diff: expected tables that agree, got: {done.stdout.decode()[:400]}"
        raise AssertionError(msg)
    return seconds
