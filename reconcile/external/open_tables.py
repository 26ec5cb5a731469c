"""Two tables with their digests: groups that differ, repeated keys, and digests that were kept."""

# ruff: noqa: S608 -- every name in a query is chosen here

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import duckdb

from cutover.engine.queries import fetch_number, fetch_row
from cutover.quoting import literal
from cutover.reconcile.comparison.column_types import is_from, is_time
from cutover.reconcile.comparison.diff import Budget, Diff, diff_relations
from cutover.reconcile.comparison.digests import compare_digests
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.external import kept_digests
from cutover.reconcile.external.alignment import Columns
from cutover.reconcile.external.kept_digests import DigestStore
from cutover.reconcile.external.prepare import Prepared, make_layout
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.side_digests import (
    Read,
    SideRows,
    count_doubled,
    find_paths,
    kept_rows_sql,
    make_digests,
)
from cutover.reconcile.result.text import count_noun
from cutover.settings import Settings
from cutover.sources.binding import BoundTable

COUNTING = 50
"""Megabytes of memory per thread to read all keys; beyond it, disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTables:
    """Both sides with their digests."""

    connection: duckdb.DuckDBPyConnection
    layout: Layout
    sides: tuple[SideRows, SideRows]
    doubled: tuple[int, int]  # keys of each side that have more than one row
    notes: tuple[str, ...]

    def find(self, budget: Budget) -> Diff:
        """Make the table `different`: rows of the groups whose digests differ, from the files that hold them.

        Raises:
            LakeError: A file changed since the comparison began.
        """
        groups = "different_groups"
        digests = compare_digests(self.connection, "digests_0", "digests_1", into=groups)
        for side in self.sides:
            paths = find_paths(self.connection, side, groups)
            self.connection.execute(f"CREATE OR REPLACE TEMP VIEW part_{side.number} AS FROM {side.select(paths)}")
        result = diff_relations(
            self.connection,
            self.layout,
            "part_0",
            "part_1",
            into="different",
            budget=budget,
            digests=digests,
            counts_near=True,
        )
        for side in self.sides:
            kept_digests.reject_changed_files(side.files)
        return result

    def count_rows(self) -> int:
        """Return how many rows the actual side has."""
        return fetch_number(self.connection, "SELECT sum(n) FROM digests_1")

    def measure_groups(self) -> tuple[int, Any, Any]:
        """Return how many groups there are on either side, and the lowest and the highest of them."""
        both = "(SELECT _group FROM digests_0 UNION SELECT _group FROM digests_1)"
        count, lowest, highest = fetch_row(self.connection, f"SELECT count(*), min(_group), max(_group) FROM {both}")
        return int(count), lowest, highest


def open_tables(
    connection: duckdb.DuckDBPyConnection,
    diff_request: DiffRequest,
    sources: Sequence[BoundTable],
    prepared: Prepared,
    columns: Columns,
    settings: Settings | None,
) -> OpenTables:
    """Make the digests of both sides, of files that are not known alone, and keep them.

    Args:
        connection: Holds the sources' views.
        diff_request: Key, window and age.
        sources: Expected side first.
        prepared: Of these sources.
        columns: That both have in common.
        settings: Where digests are kept; None: nowhere.

    Raises:
        DefinitionError: A column of the key or with a tolerance is not on both sides, or a tolerance does not fit it.
        LakeError: A file cannot be read.
    """
    layout = make_layout(diff_request, columns)
    group_type = "UBIGINT" if layout.group is None else columns.common[layout.group]
    folder = None if settings is None else settings.home.resolve() / "digests"
    # Windows that are too young are left out of the digests, so that the next run, when they are older, finds the rest.
    by_group = diff_request.cutoff is not None and is_time(group_type)
    young = "false" if not by_group else is_from("_group", group_type, diff_request.cutoff or 0)
    unwanted = ("false", "false") if by_group else prepared.young
    texts = [
        {name: columns.convert(side, name, texts_of_side[name]) for name in columns.common}
        for side, texts_of_side in enumerate(prepared.texts)
    ]
    store = DigestStore(folder=folder, request="", group_type=group_type)
    sides = tuple(
        SideRows(
            number=n,
            source=source,
            files=kept_digests.read_contents(source, checked=store.keeps),
            columns=texts[n],
            unwanted=unwanted[n],
        )
        for n, source in enumerate(sources)
    )
    store = replace(store, request=_name_request(layout, sides))
    kept_files = kept_digests.find_kept(store)
    bucketed, read_files = make_digests(connection, layout, sides, kept_files, group_type=group_type, young=young)
    doubled = _count_doubled(connection, bucketed, sides, settings)
    if read_files.files:
        for side in sides:
            kept_digests.reject_changed_files(side.files)
        is_full = len(kept_files.files) >= kept_digests.MOST_PARTS
        replaced_files = (*kept_files.stale, *(kept_files.files if is_full else ()))
        kept_rows = kept_rows_sql(include_reused=is_full)
        kept_digests.store_digests(connection, store, kept_rows, buckets=bucketed.buckets or 1, instead=replaced_files)
    notes = (*(() if kept_files.note is None else (kept_files.note,)), *_describe_read(read_files))
    return OpenTables(connection=connection, layout=bucketed, sides=(sides[0], sides[1]), doubled=doubled, notes=notes)


def _count_doubled(
    connection: duckdb.DuckDBPyConnection, layout: Layout, sides: Sequence[SideRows], settings: Settings | None
) -> tuple[int, int]:
    """Count the keys that have more than one row; by way of the disk, so that memory does not grow with the rows."""
    if settings is None:  # an engine that others use, too
        return count_doubled(connection, layout, sides)
    threads = fetch_number(connection, "SELECT current_setting('threads')")
    try:
        connection.execute(f"SET memory_limit = '{COUNTING * threads}MB'")
        return count_doubled(connection, layout, sides)
    except duckdb.OutOfMemoryException:
        connection.execute(f"SET memory_limit = {literal(settings.read.memory)}")
        return count_doubled(connection, layout, sides)
    finally:
        connection.execute(f"SET memory_limit = {literal(settings.read.memory)}")


def _name_request(layout: Layout, sides: Sequence[SideRows]) -> str:
    return kept_digests.request_of(
        version("cutover"),
        duckdb.__version__,
        layout.keys,
        layout.group,
        layout.hash_sql,
        [(s.source.name, s.columns, s.unwanted, s.source.types, s.source.reading, s.source.rows_of) for s in sides],
    )


def _describe_read(read_files: Read) -> list[str]:
    if not read_files.reused:
        return []
    text = f"Digests of {count_noun(read_files.reused, 'file')} are known from an earlier run"
    return [f"{text}; {read_files.files:,} were read."]
