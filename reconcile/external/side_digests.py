"""Digests of two tables by group and bucket of keys, computed file by file, so that those of each file can be stored.

Temporary tables: `side_files` (`_file`: number of a content of a side, `_side`, `_path`, `_content`); `file_digests`
(`_file`, a digest for each content and group, `_new`: of this run); `digests_0` and `digests_1` (of the whole sides,
with `doubled`: how many keys of a group have more than one row; `_is_known`: counted before this run).

Keys with more than one row are counted from hashes, which are sorted, some files at a time; this takes a quarter of the
time of a table of all of them. Files that share a group are sorted together, so that no key is in two chunks; if that
exceeds the memory, DuckDB groups on disk. Hashes that occur twice are looked up by the keys themselves.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from cutover.engine.queries import fetch_number, fetch_row
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.digests import digest_sql
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.external import kept_digests
from cutover.reconcile.external.kept_digests import DataFile, KeptDigests
from cutover.sources.binding import BoundTable

ROWS_A_GROUP = 64  # at least: digests should be small compared with the rows
MOST_GROUPS = 1 << 15
_DIGEST = "_group, _bucket, n, x, s"
SAME = "l._group IS NOT DISTINCT FROM r._group AND l._bucket = r._bucket"
_CONTENTS = "(SELECT DISTINCT _file, _side, _content FROM side_files)"
EQUAL = f"{SAME} AND l.n = r.n AND l.x = r.x AND l.s = r.s"

CHUNK = 2_000_000
"""Rows that are sorted together, where groups allow it: 16 MB of hashes."""

LARGEST_CHUNK = 3 * CHUNK
FEWEST = 200_000
"""Rows of a side below which DuckDB has grouped them before numpy is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRows:
    """Rows of one side as they are compared."""

    number: int  # 0: expected, 1: actual
    source: BoundTable
    files: tuple[DataFile, ...]
    columns: Mapping[str, str]  # name -> SQL over the source's view
    unwanted: str  # SQL over the source's view: a row that is not compared

    def select(self, paths: Sequence[str] | None = None) -> str:
        """Return a query in parentheses: the columns, and that of files; of some files only, if given."""
        column = self.source.file_column
        names = [f"{text} AS {identifier(name)}" for name, text in self.columns.items()]
        names += [] if column is None else [identifier(column)]
        of = "true"
        if paths is not None and column is not None:
            of = f"{identifier(column)} IN ({', '.join(map(literal, paths))})" if paths else "false"
        return (
            f"(SELECT {', '.join(names) or '1'} FROM {identifier(self.source.view)} WHERE {of} AND NOT {self.unwanted})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Number of files that were read, and of files whose digests were kept."""

    files: int
    reused: int


def choose_buckets(connection: duckdb.DuckDBPyConnection, layout: Layout, side: SideRows) -> int:
    """Return how many buckets of keys each group has: many small groups, but few compared with the rows."""
    rows = fetch_number(connection, f"SELECT count(*) FROM {identifier(side.source.view)}")
    places = max(1, len(side.files))
    if layout.group is not None:
        file_column = "" if side.source.file_column is None else f", {identifier(side.source.file_column)}"
        count_sql = f"SELECT approx_count_distinct(hash({identifier(layout.group)}{file_column})) FROM {side.select()}"
        places = max(1, fetch_number(connection, count_sql))
    bucket_limit = max(1, min(rows // ROWS_A_GROUP, MOST_GROUPS) // places)
    return 1 << (bucket_limit.bit_length() - 1)


def make_digests(
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    sides: Sequence[SideRows],
    kept_digests: KeptDigests,
    *,
    group_type: str,
    young: str = "false",
) -> tuple[Layout, Read]:
    """Make `side_files`, `file_digests`, `digests_0` and `digests_1`.

    Args:
        connection: Holds `kept_digests`.
        layout: Of both sides.
        sides: The expected side first.
        kept_digests: Digests of earlier comparisons.
        group_type: Of `_group`.
        young: SQL over `_group`: a group that is too young to compare.

    Returns:
        The layout with its number of buckets, and the number of files that were read.
    """
    buckets = kept_digests.buckets or choose_buckets(connection, layout, sides[0])
    bucketed_layout = replace(layout, buckets=buckets)
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE side_files (_file INTEGER, _side TINYINT, _path VARCHAR, _content VARCHAR)"
    )
    for side in sides:
        _list_files(connection, side)
    _load(connection, kept_digests, group_type)
    new = [_digest_side(connection, bucketed_layout, side) for side in sides]
    for side in sides:
        _merge(connection, side.number, young)
    files = sum(len(side.files) or 1 for side in sides)  # rows that were copied count as one file
    return bucketed_layout, Read(files=sum(new), reused=files - sum(new))


def _list_files(connection: duckdb.DuckDBPyConnection, side: SideRows) -> None:
    """Add the files of a side; without a checksum, a file is identified by its place, and no files by an empty text."""
    paths = [file.path for file in side.files] or [""]
    contents = [file.content or str(n) for n, file in enumerate(side.files)] or [""]
    numbers = {content: 2 * n + side.number for n, content in enumerate(dict.fromkeys(contents))}
    connection.execute(
        f"INSERT INTO side_files SELECT unnest(?), {side.number}, unnest(?), unnest(?)",
        [[numbers[content] for content in contents], paths, contents],
    )


def _load(connection: duckdb.DuckDBPyConnection, kept_digests: KeptDigests, group_type: str) -> None:
    """Load kept digests of files into `file_digests`, and those of groups over several files into `whole_digests`."""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE file_digests (_file INTEGER, _group {group_type}, _bucket BIGINT, n BIGINT,"
        " x UBIGINT, s HUGEINT, doubled BIGINT, _new BOOLEAN)"
    )
    connection.execute("CREATE OR REPLACE TEMP TABLE whole_digests AS SELECT * EXCLUDE (_file, _new) FROM file_digests")
    if kept_digests.files:
        known_files = f"{kept_digests.select_files} JOIN {_CONTENTS} USING (_side, _content)"
        connection.execute(f"INSERT INTO file_digests SELECT _file, {_DIGEST}, doubled, false FROM {known_files}")
        connection.execute(f"INSERT INTO whole_digests SELECT {_DIGEST}, doubled FROM {kept_digests.select_groups}")


def _digest_side(connection: duckdb.DuckDBPyConnection, layout: Layout, side: SideRows) -> int:
    """Add the digests of files of which none are known; return how many files were read."""
    side_number = side.number
    unknown_files = (
        f"SELECT _file, min(_path) FROM side_files WHERE _side = {side_number} AND _file NOT IN"
        " (SELECT _file FROM file_digests) GROUP BY _file ORDER BY 2"
    )
    new = [str(path) for _, path in connection.execute(unknown_files).fetchall()]
    if not new:
        return 0
    column = side.source.file_column
    if column is None:
        digest_rows = f"SELECT {side_number}, {_DIGEST}, NULL, true FROM ({digest_sql(layout, side.select())})"
    else:
        paths = None if len(new) == len(side.files) else new
        new_digests = digest_sql(layout, side.select(paths), identifier(column))
        digest_rows = (
            f"SELECT f._file, {_DIGEST}, NULL, true FROM ({new_digests}) d JOIN side_files f"
            f" ON f._path = d.{identifier(column)} AND f._side = {side_number}"
        )
    connection.execute(f"INSERT INTO file_digests {digest_rows}")
    # A file without rows is known, too.
    connection.execute(f"INSERT INTO file_digests SELECT _file, NULL, -1, 0, 0, 0, NULL, true FROM ({unknown_files})")
    return len(new)


def _merge(connection: duckdb.DuckDBPyConnection, side: int, young: str) -> None:
    """Make the digests of a whole side: the sum over its files; a file that is listed twice counts twice."""
    doubled = "CASE WHEN count(*) = 1 THEN any_value(d.doubled) END"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE digests_{side} AS SELECT _group, _bucket, sum(n)::BIGINT AS n, bit_xor(x) AS x,"
        f" sum(s)::HUGEINT AS s, {doubled} AS doubled, {doubled} IS NOT NULL AS _is_known"
        " FROM file_digests d JOIN side_files f USING (_file)"
        f" WHERE _side = {side} AND n > 0 AND NOT {young} GROUP BY _group, _bucket"
    )


def find_paths(connection: duckdb.DuckDBPyConnection, side: SideRows, groups: str) -> list[str] | None:
    """Return the files of a side that hold rows of some groups; None where a side has no files.

    Args:
        connection: Holds the tables of `make_digests`.
        side: Which one.
        groups: A table with `_group` and `_bucket`.
    """
    if side.source.file_column is None:
        return None
    rows = connection.execute(
        f"SELECT DISTINCT _path FROM side_files WHERE _side = {side.number} AND _file IN (SELECT _file"
        f" FROM file_digests l SEMI JOIN {identifier(groups)} r ON {SAME}) ORDER BY _path"
    ).fetchall()
    return [str(row[0]) for row in rows]


def kept_rows_sql(*, include_reused: bool) -> str:
    """Return the query of what is to be kept, in the columns of a file of kept digests.

    Args:
        include_reused: All digests; else only those that this run computed.
    """
    files, groups = ("true", "true") if include_reused else ("l._new", "NOT _is_known")
    digest = f"l._group, l._bucket, l.n, l.x, {kept_digests.split_sql('l.s')}"
    either = f"(SELECT *, 0 AS _side FROM digests_0 WHERE {groups} UNION ALL SELECT *, 1 FROM digests_1 WHERE {groups})"
    of_files = f"(FROM file_digests JOIN {_CONTENTS} USING (_file))"
    return (
        f"SELECT l._side, l._content, {digest}, r.doubled FROM {of_files} l"
        f" LEFT JOIN {either} r ON l._side = r._side AND {EQUAL} WHERE {files}"
        f" UNION ALL SELECT 2::TINYINT, '', {digest}, any_value(l.doubled) FROM {either} l"
        f" ANTI JOIN {of_files} r ON l._side = r._side AND {EQUAL} GROUP BY ALL"
        " ORDER BY 1, 2, 3, 4"
    )


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
