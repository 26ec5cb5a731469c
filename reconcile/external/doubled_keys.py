"""Number of keys of each side that have more than one row, counted from hashes of keys unless it is known.

Hashes of keys are sorted, some files at a time, which takes a quarter of the time of a table of all of them. Files that
share a group are sorted together, so that no key is in two chunks; where that is too much for the memory, DuckDB groups
by way of the disk. What occurs twice among hashes is looked up by the keys themselves.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from cutover.engine.queries import fetch_number, fetch_row
from cutover.quoting import identifier
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.external.side_digests import EQUAL, SAME, SideRows, find_paths

CHUNK = 2_000_000
"""Rows that are sorted together, where groups allow it: 16 MB of hashes."""

LARGEST_CHUNK = 3 * CHUNK
FEWEST = 200_000
"""Rows of a side below which DuckDB has grouped them before numpy is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The rows of a side in `uncounted` groups, with the hash of each key."""

    layout: Layout
    side: SideRows
    is_whole: bool  # nothing is known of any group

    def select(self, paths: Sequence[str] | None) -> str:
        """Return a relation of the key, `_group`, `_bucket` and `_key`; of some files only, if given."""
        keys = ", ".join(map(identifier, self.layout.keys))
        place = f"{self.layout.group_sql} AS _group, {self.layout.bucket_sql} AS _bucket"
        rows = f"(SELECT {keys}, {place}, hash({keys}) AS _key FROM {self.side.select(paths)})"
        return f"{rows} l" if self.is_whole else f"(SELECT l.* FROM {rows} l SEMI JOIN uncounted r ON {SAME}) l"


def count_doubled(connection: duckdb.DuckDBPyConnection, layout: Layout, sides: Sequence[SideRows]) -> tuple[int, int]:
    """Count the keys with more than one row in each group of `digests_0` and `digests_1`; return both sums.

    Equal digests mean equal rows: a group that was counted on the other side or in an earlier run is not counted again.
    """
    _copy_known_counts(connection, "digests_0", "whole_digests")
    _count_uncounted(connection, layout, sides[0])
    for known_table in ("whole_digests", "digests_0"):
        _copy_known_counts(connection, "digests_1", known_table)
    _count_uncounted(connection, layout, sides[1])
    totals = (fetch_number(connection, f"SELECT sum(doubled) FROM digests_{n}") for n in (0, 1))
    return next(totals), next(totals)


def _copy_known_counts(connection: duckdb.DuckDBPyConnection, side: str, known_table: str) -> None:
    """Copy the counts of equal groups from another table."""
    open_groups = f"SELECT count(*) FROM {side} WHERE doubled IS NULL"
    if fetch_number(connection, open_groups) and fetch_number(connection, f"SELECT count(*) FROM {known_table}"):
        mark_known = ", _is_known = true" if known_table == "whole_digests" else ""
        connection.execute(
            f"UPDATE {side} l SET doubled = r.doubled{mark_known} FROM {known_table} r"
            f" WHERE l.doubled IS NULL AND r.doubled IS NOT NULL AND {EQUAL}"
        )


def _count_uncounted(connection: duckdb.DuckDBPyConnection, layout: Layout, side: SideRows) -> None:
    """Count the keys with more than one row in groups of which nothing is known, by the hash of a key first."""
    table = f"digests_{side.number}"
    counts = "count(*) FILTER (doubled IS NULL), count(*), sum(n) FILTER (doubled IS NULL)"
    uncounted_groups, group_count, row_count = fetch_row(connection, f"SELECT {counts} FROM {table}")
    if not uncounted_groups:
        return
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE uncounted AS SELECT _group, _bucket FROM {table} WHERE doubled IS NULL"
    )
    rows = _Rows(layout=layout, side=side, is_whole=uncounted_groups == group_count)
    selected_rows = rows.select(None if rows.is_whole else find_paths(connection, side, "uncounted"))
    connection.execute("CREATE OR REPLACE TEMP TABLE repeated (_key UBIGINT)")
    chunks = _plan_chunks(connection, side) if row_count >= FEWEST else None
    if chunks is None:
        connection.execute(f"INSERT INTO repeated SELECT _key FROM {selected_rows} GROUP BY _key HAVING count(*) > 1")
    for chunk in chunks or ():
        _sort_chunk(connection, rows.select(chunk))
    if fetch_number(connection, "SELECT count(*) FROM repeated"):
        keys = ", ".join(map(identifier, layout.keys))
        repeated_keys = (
            f"SELECT _group, _bucket FROM {selected_rows} SEMI JOIN repeated USING (_key)"
            f" GROUP BY _group, _bucket, {keys} HAVING count(*) > 1"
        )
        counts_by_group = f"(SELECT _group, _bucket, count(*) AS doubled FROM ({repeated_keys}) GROUP BY ALL)"
        connection.execute(f"UPDATE {table} l SET doubled = r.doubled FROM {counts_by_group} r WHERE {SAME}")
    connection.execute(f"UPDATE {table} SET doubled = 0 WHERE doubled IS NULL")


def _plan_chunks(connection: duckdb.DuckDBPyConnection, side: SideRows) -> list[list[str]] | None:
    """Return files to sort together, no `uncounted` group in two chunks; None: too many rows would be in a chunk."""
    if side.source.file_column is None:
        return None
    rows_by_group = (
        "(SELECT _path, _group, sum(n) AS n FROM file_digests l JOIN side_files USING (_file)"
        f" WHERE _side = {side.number} AND EXISTS (SELECT 1 FROM uncounted r WHERE {SAME}) GROUP BY ALL)"
    )
    place = "row_number() OVER (ORDER BY min(_group), _path) AS place"
    placed_files = f"(SELECT _path, sum(n) AS n, {place} FROM {rows_by_group} GROUP BY _path)"
    files = connection.execute(f"SELECT place, _path, n FROM {placed_files} ORDER BY place").fetchall()
    placed_groups = f"{rows_by_group} JOIN {placed_files} USING (_path)"
    spans = f"(SELECT min(place) AS since, max(place) AS until FROM {placed_groups} GROUP BY _group)"
    reach = dict(connection.execute(f"SELECT since, max(until) FROM {spans} GROUP BY since").fetchall())
    chunks, size, last_place = list[list[str]](), CHUNK, 0
    for at, path, rows in files:
        if at > last_place and size >= CHUNK:
            chunks.append([])
            size = 0
        chunks[-1].append(str(path))
        size, last_place = size + rows, max(last_place, reach.get(at, at))
        if size > LARGEST_CHUNK:
            return None
    return chunks


def _sort_chunk(connection: duckdb.DuckDBPyConnection, rows: str) -> None:
    """Add the hashes that occur more than once to `repeated`."""
    import numpy as np  # noqa: PLC0415 -- a tenth of a second that small tables need not pay

    hashes = connection.execute(f"SELECT _key FROM {rows}").fetchnumpy()["_key"]
    hashes.sort()
    twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    if len(twice):
        connection.register("found_twice", pa.table({"_key": twice}))
        connection.execute("INSERT INTO repeated FROM found_twice")
        connection.unregister("found_twice")
