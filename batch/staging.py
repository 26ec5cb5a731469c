"""Staged rows of a run: Parquet files next to the tables, written by Spark, read by DuckDB."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
from pyarrow import fs

from cutover.quoting import identifier, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = "_staging"


@dataclass(frozen=True, slots=True)
class Staging:
    """Folder that exists for the duration of the run."""

    connection: duckdb.DuckDBPyConnection
    uri: str

    def write(self, name: str, frame: "DataFrame") -> None:
        """Run a Spark job and bind a view to its rows."""
        target = f"{self.uri}/{name}"
        frame.write.mode("overwrite").parquet(target)
        if "://" in target:
            from pyarrow import dataset  # noqa: PLC0415 -- a lake in an object store only

            self.connection.register(name, dataset.dataset(target, format="parquet"))
            return
        files = literal(f"{target}/*.parquet")
        self.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {identifier(name)} AS "  # noqa: S608 -- quoted
            f"SELECT * FROM read_parquet({files}, hive_partitioning = false)"
        )


@contextmanager
def staging(connection: duckdb.DuckDBPyConnection, version_uri: str, run_id: str) -> Iterator[Staging]:
    """Yield the run's folder; clear the staged files of all runs before and after, since one writer holds the lock."""
    _clear(f"{version_uri}/{FOLDER}")
    try:
        yield Staging(connection, f"{version_uri}/{FOLDER}/{run_id}")
    finally:
        _clear(f"{version_uri}/{FOLDER}")


def _clear(uri: str) -> None:
    system, path = fs.FileSystem.from_uri(uri)
    if system.get_file_info(path).type is fs.FileType.Directory:
        system.delete_dir(path)
