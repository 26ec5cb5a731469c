"""`cutover diff` of ROWS equal rows in PostgreSQL, Delta, Iceberg and DuckDB with Parquet, against Parquet with Parquet.

Each comparison is a process of its own, with a home of its own; rounds interleaved, the first one dropped. Printed:
median seconds, the ratio to Parquet of the same round, and the peak of resident memory. PostgreSQL is started for it.

    .venv/bin/python -m benchmarks.spikes.table_readers --rows 1000000 --rounds 5
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import psycopg
import pyarrow.parquet as pq
from deltalake import write_deltalake

from tests.support.servers.postgres import running_server
from tests.support.tables.iceberg_tables import delete_positions, find_folder, make_catalog

COLUMNS = (
    "make_timestamptz((i // 10000) * 3600000000) AS window_start, 'key-' || (i % 10000) AS k, (i % 7)::BIGINT AS n,"
    " (i * 31)::DECIMAL(20, 2) AS total, (i % 1301)::BIGINT AS worst, i / 3.0::DOUBLE AS mean"
)
SERVER_COLUMNS = "window_start timestamptz, k text, n bigint, total numeric(20,2), worst bigint, mean double precision"


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


def compare(expected: str, actual: str) -> tuple[float, float]:
    """Return the seconds and the peak of resident megabytes of one comparison."""
    program = str(Path(sys.executable).with_name("cutover"))
    command = [program, "diff", expected, actual, "--key", "window_start,k", "--window-column", "window_start"]
    with tempfile.TemporaryDirectory() as home:
        started = time.monotonic()
        process = subprocess.Popen(command, env={**os.environ, "CUTOVER_HOME": home}, stdout=subprocess.PIPE)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, read_peak(process.pid))
            time.sleep(0.02)
        seconds = time.monotonic() - started
        output = process.stdout.read() if process.stdout else b""
    if process.returncode or b"agree" not in output:
        raise SystemExit(output.decode())
    return seconds, peak


def read_peak(pid: int) -> float:
    """Return the peak of a process in megabytes: its own, where `getrusage` includes that of the parent before exec."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(sizes[0]) / 1024 if sizes else 0.0


def main() -> None:
    """Run the comparisons and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        tables = make_tables(Path(folder), server, arguments.rows)
        expected = tables.pop("expected")
        rounds = [
            {name: compare(expected, table) for name, table in tables.items()} for _ in range(arguments.rounds + 1)
        ][1:]
    for name in tables:
        seconds = statistics.median(each[name][0] for each in rounds)
        ratio = statistics.median(each[name][0] / each["parquet"][0] for each in rounds)
        memory = max(each[name][1] for each in rounds)
        print(f"{name:16} {seconds:6.2f} s  {ratio:5.2f} times Parquet  {memory:6.0f} MB")


if __name__ == "__main__":
    main()
