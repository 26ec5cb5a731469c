"""How many keys of each side have more than one row: counted where nothing tells it, from hashes of keys.

Hashes of keys are sorted, some files at a time, which takes a quarter of the time of a table of all of them. Files that
share a group are sorted together, so that no key is in two chunks; where that is too much for the memory, DuckDB groups
by way of the disk. What occurs twice among hashes is looked up by the keys themselves.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from cutover.engine.queries import first, number
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
    """Say of all groups of `digests_0` and `digests_1` how many keys have more than one row; return both sums.

    Equal digests are of equal rows: what is known of a group of one side, or from an earlier run, is not counted again.
    """
    _take_over(connection, "digests_0", "whole_digests")
    _count(connection, layout, sides[0])
    for known in ("whole_digests", "digests_0"):
        _take_over(connection, "digests_1", known)
    _count(connection, layout, sides[1])
    found = (number(connection, f"SELECT sum(doubled) FROM digests_{n}") for n in (0, 1))
    return next(found), next(found)


def _take_over(connection: duckdb.DuckDBPyConnection, side: str, known: str) -> None:
    """Say of groups what is known of equal ones."""
    open_groups = f"SELECT count(*) FROM {side} WHERE doubled IS NULL"
    if number(connection, open_groups) and number(connection, f"SELECT count(*) FROM {known}"):
        told = ", _told = true" if known == "whole_digests" else ""
        connection.execute(
            f"UPDATE {side} l SET doubled = r.doubled{told} FROM {known} r"
            f" WHERE l.doubled IS NULL AND r.doubled IS NOT NULL AND {EQUAL}"
        )


def _count(connection: duckdb.DuckDBPyConnection, layout: Layout, side: SideRows) -> None:
    """Count the keys with more than one row in groups of which nothing is known, by the hash of a key first."""
    table = f"digests_{side.number}"
    counts = "count(*) FILTER (doubled IS NULL), count(*), sum(n) FILTER (doubled IS NULL)"
    rest, every, size = first(connection, f"SELECT {counts} FROM {table}")
    if not rest:
        return
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE uncounted AS SELECT _group, _bucket FROM {table} WHERE doubled IS NULL"
    )
    rows = _Rows(layout=layout, side=side, is_whole=rest == every)
    chosen = rows.select(None if rows.is_whole else find_paths(connection, side, "uncounted"))
    connection.execute("CREATE OR REPLACE TEMP TABLE repeated (_key UBIGINT)")
    chunks = _cut(connection, side) if size >= FEWEST else None
    if chunks is None:
        connection.execute(f"INSERT INTO repeated SELECT _key FROM {chosen} GROUP BY _key HAVING count(*) > 1")
    for chunk in chunks or ():
        _sort_chunk(connection, rows.select(chunk))
    if number(connection, "SELECT count(*) FROM repeated"):
        keys = ", ".join(map(identifier, layout.keys))
        twice = (
            f"SELECT _group, _bucket FROM {chosen} SEMI JOIN repeated USING (_key)"
            f" GROUP BY _group, _bucket, {keys} HAVING count(*) > 1"
        )
        counted = f"(SELECT _group, _bucket, count(*) AS doubled FROM ({twice}) GROUP BY ALL)"
        connection.execute(f"UPDATE {table} l SET doubled = r.doubled FROM {counted} r WHERE {SAME}")
    connection.execute(f"UPDATE {table} SET doubled = 0 WHERE doubled IS NULL")


def _cut(connection: duckdb.DuckDBPyConnection, side: SideRows) -> list[list[str]] | None:
    """Return files to sort together, no `uncounted` group in two chunks; None: too many rows would be in a chunk."""
    if side.source.file_column is None:
        return None
    held = (
        "(SELECT _path, _group, sum(n) AS n FROM file_digests l JOIN side_files USING (_file)"
        f" WHERE _side = {side.number} AND EXISTS (SELECT 1 FROM uncounted r WHERE {SAME}) GROUP BY ALL)"
    )
    place = "row_number() OVER (ORDER BY min(_group), _path) AS place"
    placed = f"(SELECT _path, sum(n) AS n, {place} FROM {held} GROUP BY _path)"
    files = connection.execute(f"SELECT place, _path, n FROM {placed} ORDER BY place").fetchall()
    spans = f"(SELECT min(place) AS since, max(place) AS until FROM {held} JOIN {placed} USING (_path) GROUP BY _group)"
    reach = dict(connection.execute(f"SELECT since, max(until) FROM {spans} GROUP BY since").fetchall())
    chunks, size, until = list[list[str]](), CHUNK, 0
    for at, path, rows in files:
        if at > until and size >= CHUNK:
            chunks.append([])
            size = 0
        chunks[-1].append(str(path))
        size, until = size + rows, max(until, reach.get(at, at))
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
