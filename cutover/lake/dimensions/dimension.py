"""Dimensions: Delta tables from which rows take columns, opened at one version and validated before they are used.

New rows are compared with the current version, since rows that are lost need a confirmation: both paths join the same
version of a dimension, so no comparison reveals rows that both lose by a wrong file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from cutover.counts import count_clause, count_noun
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.joins import DIMENSIONS_FOLDER, Lookup
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import normalize_type
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import spark_type
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.records.parsing import limits
from cutover.records.reference.lookups import DimensionRows
from cutover.settings import Settings
from cutover.timestamps import to_micros

VIEW = "dimension"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """Validated version of a lookup's dimension."""

    name: str  # of the lookup
    lookup: Lookup
    table: DeltaTable
    version: int
    table_id: str  # a table that was deleted and created again has another one
    size: int  # rows

    def is_newest(self, lake: PipelineLake) -> bool:
        """Return whether the table is unchanged; only its log is read.

        Raises:
            LakeError: The table no longer exists.
        """
        table = _open_table(lake, self.name, None)
        return (int(table.version()), str(table.metadata().id)) == (self.version, self.table_id)


def uri(settings: Settings, lookup: Lookup) -> str:
    """Return the location of a lookup's table: by its name under the lake, else the path or URI of the lookup."""
    return own_uri(settings, lookup.table) if lookup.is_named else lookup.table


def own_uri(settings: Settings, name: str) -> str:
    """Return the location of a dimension that the lake contains."""
    return f"{settings.lake_uri}/{DIMENSIONS_FOLDER}/{name}"


def open_dimension(lake: PipelineLake, name: str, version: int | None = None) -> Dimension:
    """Return a dimension at a version, the newest if none is named.

    Args:
        lake: Its lookup `name` declares the required columns and their types.
        name: Name of the lookup.
        version: Version of the Delta table.

    Raises:
        LakeError: The table or version does not exist or cannot be read, it lacks a column, a column has another type,
            a key occurs twice, or a value is out of the range of records.
    """
    lookup, table = lake.pipeline.lookups[name], _open_table(lake, name, version)
    place = f"{_place(lake.pipeline, name)}, dimension `{table.table_uri}`, version {table.version()}"
    _check_columns(place, lake.pipeline, lookup, delta.read_schema(table))
    return Dimension(
        name=name,
        lookup=lookup,
        table=table,
        version=int(table.version()),
        table_id=str(table.metadata().id),
        size=_check_rows(place, lookup, table),
    )


def check_dimensions(lake: PipelineLake) -> None:
    """Check that the newest versions of a pipeline's dimensions can be joined.

    Raises:
        LakeError: As `open_dimension`.
    """
    for name in lake.pipeline.lookups:
        open_dimension(lake, name)


def read_dimension_rows(dimension: Dimension) -> pa.Table:
    """Read the key columns and the columns that the lookup takes, in the declared types.

    Raises:
        LakeError: A file of this version no longer exists.
    """
    lookup = dimension.lookup
    # Adding zero turns -0.0 into 0.0, which engines order and group differently; the parser does the same.
    zero = {name: " + 0" for name, kind in lookup.columns.items() if normalize_type(kind) == "double"}
    names = dict.fromkeys([*lookup.on.values(), *lookup.columns])  # a key may be taken too
    columns = ", ".join(f"{identifier(name)}{zero.get(name, '')} AS {identifier(name)}" for name in names)
    with queries.open_duckdb() as connection:
        delta.bind(connection, VIEW, dimension.table)
        with delta.naming(dimension.table):
            return queries.query_table(connection, f"SELECT {columns} FROM {VIEW}")  # noqa: S608 -- quoted


def plain(dimension: Dimension) -> DimensionRows:
    """Read the rows as values of plain Python.

    Raises:
        LakeError: As `read_dimension_rows`.
    """
    lookup = dimension.lookup
    plain_rows = (
        {name: _plain(value) for name, value in row.items()} for row in read_dimension_rows(dimension).to_pylist()
    )
    return {
        tuple(row[column] for column in lookup.on.values()): {name: row[name] for name in lookup.columns}
        for row in plain_rows
    }


def _plain(value: Any) -> Any:
    """Return a time in microseconds since 1970, as the parser does; any other value unchanged."""
    return to_micros(value) if isinstance(value, datetime) else value


def spark_uri(dimension: Dimension) -> str:
    """Return the path or URI by which Spark's Delta reader loads the table."""
    root = delta.local_root(dimension.table)
    return dimension.table.table_uri if root is None else str(root)


def _open_table(lake: PipelineLake, name: str, version: int | None) -> DeltaTable:
    lookup = lake.pipeline.lookups[name]
    try:
        return delta.open_table(uri(lake.settings, lookup), version)
    except LakeError as error:
        reason = str(error).splitlines()[0]
        hint = "\nHint: `cutover dimension load` creates it." if lookup.is_named else ""
        msg = f"{_place(lake.pipeline, name)}: {reason}{hint}"
        raise _make_unusable_error(msg) from error


def _place(pipeline: Pipeline, name: str) -> str:
    return f"Pipeline `{pipeline.name}`, lookup `{name}`"


def _check_columns(place: str, pipeline: Pipeline, lookup: Lookup, schema: pa.Schema) -> None:
    row_types = compile_pipeline(pipeline).row_types
    expected_types = {joined_column: row_types[column] for column, joined_column in lookup.on.items()}
    expected_types |= {name: normalize_type(kind) for name, kind in lookup.columns.items()}
    for column, kind in expected_types.items():
        if column not in schema.names:
            close = get_close_matches(column, schema.names, n=1)
            hint = f"\nHint: did you mean `{close[0]}`?" if close else ""
            msg = f"{place}: expected a column `{column}`, got {', '.join(schema.names)}.{hint}"
            raise _make_unusable_error(msg)
        actual = spark_type(schema.field(column).type)
        if actual != kind:
            msg = f"{place}, column `{column}`: expected {kind}, got {actual}."
            hint = "\nHint: nothing is cast silently; write the column as this type, or change the definition."
            raise _make_unusable_error(msg + hint)


def _check_rows(place: str, lookup: Lookup, table: DeltaTable) -> int:
    """Check that each key is unique and all values are in the range of records; return the number of rows."""
    keys = [identifier(column) for column in lookup.on.values()]
    is_complete = " AND ".join(f"{key} IS NOT NULL" for key in keys)  # a null matches nothing
    conditions = {name: _is_beyond_limits_sql(name, normalize_type(kind)) for name, kind in lookup.columns.items()}
    counts = [f"count(*) FILTER ({condition})" for condition in conditions.values()]
    groups = f"SELECT 1 FROM {VIEW} WHERE {is_complete} GROUP BY {', '.join(keys)}"  # noqa: S608 -- quoted
    duplicates = f"SELECT count(*) FROM ({groups} HAVING count(*) > 1)"  # noqa: S608 -- quoted
    query = f"SELECT {', '.join(['count(*)', f'({duplicates})', *counts])} FROM {VIEW}"  # noqa: S608 -- quoted
    try:
        with queries.open_duckdb() as connection:
            delta.bind(connection, VIEW, table)
            with delta.naming(table):
                size, doubled, *beyond = connection.execute(query).fetchall()[0]
    except (LakeError, duckdb.Error) as error:
        msg = f"{place}: expected rows that can be read, got: {str(error).splitlines()[0]}"
        raise _make_unusable_error(msg) from error
    if doubled:
        key = ", ".join(lookup.on.values())
        doubled_text = count_clause(doubled, "key", "that occurs", "that occur")
        msg = f"{place}: expected each key ({key}) once, got {doubled_text} more than once."
        raise _make_unusable_error(msg + "\nHint: a row can take its columns from one row only.")
    for name, count in zip(conditions, beyond, strict=True):
        if count:
            msg = f"{place}, column `{name}`: expected values in the range of records, got {count:,} out of range."
            hint = "\nHint: doubles are finite, times lie between the years 1000 and 9000."
            raise _make_unusable_error(msg + hint)
    return int(size)


def _is_beyond_limits_sql(name: str, kind: str) -> str:
    """Return the condition that a value is out of the range of `cutover.records.parsing.limits`."""
    column = identifier(name)
    if kind == "double":
        return f"NOT isfinite({column})"
    if kind in {"timestamp", "date"}:
        moment = column if kind == "timestamp" else f"{column}::TIMESTAMP::TIMESTAMPTZ"
        is_in_range = f"epoch_us({moment}) BETWEEN {limits.MIN_MICROS} AND {limits.MAX_MICROS}"
        return f"NOT (isfinite({column}) AND {is_in_range})"
    return "false"


def _make_unusable_error(message: str) -> LakeError:
    return LakeError(message, runbook="DimensionUnusable")


CURRENT = "current_rows"
LEAST_LOST = 0.01
"""Share of the rows from which on lost values of one column count, unless it loses all."""

MOST_LOST = 0.5
"""A new version may lack less than this share of rows, keys, or values of a column without a confirmation."""

VERSIONS = 10
"""So many latest versions are compared by their rows, so that several small losses need a confirmation too."""

ROWS, CONFIRMED = "cutover.rows", "cutover.confirmed"
"""Keys of a commit's metadata: number of rows of the version; present if it was written without a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Relation that will be the next version of a dimension."""

    dimension: str
    place: str  # dimension and source, for messages
    source: str  # name of a file, or the version that it copies
    relation: str
    columns: Mapping[str, str]  # name -> type
    key: Sequence[str]  # columns whose values are unique
    joined: Sequence[Sequence[str]]  # columns by which pipelines join, a tuple each, and the key of the version before


def check_replacement(connection: duckdb.DuckDBPyConnection, table: DeltaTable | None, new: NewRows) -> None:
    """Check that new rows are not empty and do not lack most rows, keys or values of the current version.

    Args:
        connection: Has the relation.
        table: The current version; None: the dimension does not exist yet.
        new: Rows that will replace it.

    Raises:
        DefinitionError: They lack too much; names both numbers of rows. Nothing was written.
        LakeError: The current version cannot be read.
    """
    rows = _count(connection, new.relation)
    losses = [] if rows else ["it has no rows"]
    current_rows = 0
    if table is not None:
        _bind_current(connection, table)
        with delta.naming(table):
            current_rows = _count(connection, CURRENT)
            losses += _list_losses(connection, current_rows, rows, new) if rows else []
            losses = losses or list(_find_gradual_loss(table, rows))
    if not losses:
        return
    current_text = (
        "no previous version" if table is None else f"version {table.version()} has {count_noun(current_rows, 'row')}"
    )
    msg = (
        f"{new.place}: expected rows like the current ones ({current_text}), got "
        f"{count_noun(rows, 'row')}: {'; '.join(losses)}."
    )
    hint = f"\nHint: nothing was written. `cutover dimension show {new.dimension}` lists what is loaded; with "
    raise DefinitionError(msg + hint + "`--confirm` this replaces it.")


def _bind_current(connection: duckdb.DuckDBPyConnection, table: DeltaTable) -> None:
    try:
        delta.bind(connection, CURRENT, table)
    except LakeError as error:
        msg = f"{error.text}\nHint: nothing was written; `--confirm` replaces it without a comparison."
        raise LakeError(msg, runbook=error.runbook) from error


def _count(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    (number,) = connection.execute(f"SELECT count(*) FROM {identifier(relation)}").fetchall()[0]  # noqa: S608 -- quoted
    return int(number)


def _list_losses(connection: duckdb.DuckDBPyConnection, current_rows: int, rows: int, new: NewRows) -> Iterator[str]:
    if _is_mostly_lost(current_rows, rows):
        yield f"{count_noun(current_rows - rows, 'row')} fewer"
    columns = {str(row[0]) for row in connection.execute(f"DESCRIBE {CURRENT}").fetchall()}
    keys = [key for key in dict.fromkeys(map(tuple, (new.key, *new.joined))) if key and set(key) <= columns]
    for key in keys:
        yield from _find_lost_keys(connection, new.relation, key)
    if not keys:
        yield from _find_other_rows(connection, new.relation, sorted(columns & set(new.columns)))
    yield from _find_lost_values(connection, new.relation, [column for column in new.columns if column in columns])


def _find_gradual_loss(table: DeltaTable, rows: int) -> Iterator[str]:
    """Yield the loss of rows since the largest of the latest versions; none is older than a confirmed one."""
    largest_rows = largest_version = 0
    newer_rows = rows
    for entry in islice((entry for entry in delta.list_commits(table) if ROWS in entry), VERSIONS):
        entry_rows = int(entry[ROWS])
        if largest_rows and _is_mostly_lost(entry_rows, newer_rows):
            break  # the newer version was confirmed, or it would not be there
        newer_rows = entry_rows
        if entry_rows > largest_rows:
            largest_rows, largest_version = entry_rows, int(entry["version"])
        if CONFIRMED in entry:
            break
    if _is_mostly_lost(largest_rows, rows):
        yield f"{count_noun(largest_rows - rows, 'row')} fewer than version {largest_version}"


def _is_mostly_lost(before: float, after: float) -> bool:
    return before - after >= MOST_LOST * before > 0


def _find_lost_keys(connection: duckdb.DuckDBPyConnection, relation: str, key: Sequence[str]) -> Iterator[str]:
    columns = ", ".join(map(identifier, key))
    old = f"SELECT DISTINCT {columns} FROM {CURRENT}"  # noqa: S608 -- quoted
    lost_count = f"SELECT count(*) FROM ({old} EXCEPT SELECT {columns} FROM {identifier(relation)})"  # noqa: S608 -- quoted
    missing, all_keys = connection.execute(f"SELECT ({lost_count}), (SELECT count(*) FROM ({old}))").fetchall()[0]  # noqa: S608
    if missing >= MOST_LOST * all_keys > 0:
        yield f"{missing:,} of {count_noun(all_keys, 'key')} ({', '.join(key)}) are not in it"


def _find_other_rows(connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield a loss if no column keeps half of its values: in a dimension without a key, any column may identify rows.

    If any columns have unique values, only these count.
    """
    counts = ", ".join(f"count(DISTINCT {identifier(column)})" for column in columns)
    total, *distinct = connection.execute(f"SELECT count(*), {counts} FROM {CURRENT}").fetchall()[0]  # noqa: S608
    unique = [column for column, values in zip(columns, distinct, strict=True) if values == total]
    losses = [list(_find_lost_keys(connection, relation, (column,))) for column in unique or columns]
    if losses and all(losses):
        yield from losses[0]


def _find_lost_values(connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the columns that keep too few of their values, unless only whole rows are fewer."""
    counts = ", ".join(["count(*)", *(f"count({identifier(column)})" for column in columns)])
    current_rows, *old_counts = connection.execute(f"SELECT {counts} FROM {CURRENT}").fetchall()[0]  # noqa: S608
    rows, *new_counts = connection.execute(f"SELECT {counts} FROM {identifier(relation)}").fetchall()[0]  # noqa: S608
    share = rows / current_rows if _is_mostly_lost(current_rows, rows) else 1  # of the rows: their loss is named
    for column, before, after in zip(columns, old_counts, new_counts, strict=True):
        is_common = before - after >= LEAST_LOST * current_rows  # few cells of a sparse column may change
        if _is_mostly_lost(before * share, after) and (is_common or not after):
            yield f"column `{column}` had {count_noun(before, 'value')} and has {after:,}"
