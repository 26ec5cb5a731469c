"""Arrow schemas of the tables, derived from a definition; types in each engine, and rows of files in these columns.

The rows of an epoch log are of several kinds (`RowKind`), each of which fills some of its columns.

Of totals that overflow their type DuckDB fails the whole query without naming the row, so it is searched for.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`, every text by `literal`

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import duckdb
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline, SameDefinition
from cutover.definition.model.topic import list_fields
from cutover.errors import DefinitionError, LakeError
from cutover.quoting import identifier, literal

TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": TIMESTAMP,
    "date": pa.date32(),
}
_DECIMAL = re.compile(r"^decimal\((\d+),\s*(\d+)\)$")

_POSITION = (
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("event_time", TIMESTAMP),
    pa.field("reason", pa.string()),
)


def make_arrow_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """Make a schema in the order of a mapping; every column may be null, as in Delta."""
    return pa.schema(columns)


def map_spark_type_to_arrow(spark_type: str) -> pa.DataType:
    """Return the Arrow type of a Spark type's name, such as `array<struct<value:string,count:bigint>>`.

    Raises:
        DefinitionError: The type is not one that a key or a measure can have.
    """
    inner = spark_type[spark_type.find("<") + 1 : -1]
    if spark_type.startswith("array<"):
        return pa.list_(map_spark_type_to_arrow(inner))
    if spark_type.startswith("struct<"):
        parts = (part.split(":", maxsplit=1) for part in _parts(inner))
        return pa.struct([pa.field(name, map_spark_type_to_arrow(kind)) for name, kind in parts])
    decimal = _DECIMAL.match(spark_type)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if spark_type not in _ARROW:
        msg = f"Type `{spark_type}`: expected one of {', '.join(_ARROW)} or decimal(p,s)."
        raise DefinitionError(msg)
    return _ARROW[spark_type]


def spark_type(arrow: pa.DataType) -> str:
    """Return the name of the Spark type that an Arrow type is; Arrow's own name where no record can hold it."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "timestamp without a time zone"
    names = {"large_string": "string", "string_view": "string", "bool": "boolean", "date32[day]": "date"}
    names |= {"int32": "int", "int64": "bigint"}
    return names.get(str(arrow), str(arrow))


def _parts(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def map_arrow_type_to_duckdb(arrow: pa.DataType) -> str:
    """Return DuckDB's name of an Arrow type of Cutover's tables."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"{map_arrow_type_to_duckdb(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        return "STRUCT(" + ", ".join(f"{identifier(f.name)} {map_arrow_type_to_duckdb(f.type)}" for f in arrow) + ")"
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMPTZ" if arrow.tz else "TIMESTAMP"
    names = {
        "bool": "BOOLEAN",
        "int8": "TINYINT",
        "int16": "SMALLINT",
        "int32": "INTEGER",
        "int64": "BIGINT",
        "float": "FLOAT",
        "double": "DOUBLE",
        "date32[day]": "DATE",
        "binary": "BLOB",
    }
    return names.get(str(arrow), "VARCHAR")


def _dimensions(pipeline: Pipeline) -> "list[pa.Field[Any]]":
    keys = [
        pa.field(name, map_spark_type_to_arrow(kind)) for name, kind in compile_pipeline(pipeline).key_types.items()
    ]
    return [pa.field("window_start", TIMESTAMP), pa.field("window_end", TIMESTAMP), *keys]


def partial_schema(pipeline: Pipeline) -> pa.Schema:
    """Return the partial shape: class, window, key, state columns, count, positions, partition of filtered rows."""
    measured = [
        pa.field(state.column, map_spark_type_to_arrow(state.type)) for state in compile_pipeline(pipeline).states
    ]
    tail = [
        pa.field("_n", pa.int64()),
        pa.field("_positions", pa.list_(pa.struct(_POSITION + _id(pipeline)))),
        pa.field("_partition", pa.int32()),
        pa.field("_unknown", pa.int64()),
    ]
    return pa.schema([pa.field("_class", pa.string()), *_dimensions(pipeline), *measured, *tail])


def epoch_log_schema(pipeline: Pipeline) -> pa.Schema:
    """Return the streaming path's one table: `_kind` (partition), `_epoch`, the partial shape, `_record` (JSON)."""
    head = [pa.field("_kind", pa.string()), pa.field("_epoch", pa.int64())]
    return pa.schema([*head, *partial_schema(pipeline), pa.field("_record", pa.string()), *_ids(pipeline)])


def id_type(pipeline: Pipeline) -> pa.DataType:
    """Return the Arrow type of the record id of a definition that has one."""
    kinds = {field.name: field.type for field in list_fields(pipeline.source)}
    return map_spark_type_to_arrow(kinds[str(pipeline.source.record_id)])


def _id(pipeline: Pipeline) -> "tuple[pa.Field[Any], ...]":
    return () if pipeline.source.record_id is None else (pa.field("id", id_type(pipeline)),)


def _ids(pipeline: Pipeline) -> "list[pa.Field[Any]]":
    """Return the column of ids that an epoch was the first to show, in the event minute `window_start`."""
    pair = pa.struct((*_id(pipeline), pa.field("event_time", TIMESTAMP)))
    return [] if pipeline.source.record_id is None else [pa.field("_ids", pa.list_(pair))]


def batch_schema(pipeline: Pipeline) -> pa.Schema:
    """Return the batch result: window, key, finished measures, further states (same definition only), count, cut."""
    compiled = compile_pipeline(pipeline)
    columns = {state.column: map_spark_type_to_arrow(state.type) for state in compiled.states}
    measured = [pa.field(name, map_spark_type_to_arrow(kind)) for name, kind in compiled.result_types.items()]
    further = [pa.field(name, kind) for name, kind in columns.items() if name not in pipeline.measures]
    extra = further if isinstance(pipeline.batch, SameDefinition) else []
    tail = [pa.field("_n", pa.int64()), pa.field("_epoch", pa.int64())]
    return pa.schema([*_dimensions(pipeline), *measured, *extra, *tail])


def batch_ledger_schema(pipeline: Pipeline) -> pa.Schema:
    """Return the batch path's own ledger: the run and the cut whose scan found the rows, and the partial shape."""
    return pa.schema([pa.field("_run", pa.string()), pa.field("_epoch", pa.int64()), *partial_schema(pipeline)])


class IndexKind(StrEnum):
    """`_kind` of a row of the batch index; each has `_run` and `_epoch`."""

    RANGE = "range"  # which offsets of a partition hold a window, as scanned up to `_epoch`; `_n` records
    RUN = "run"  # `_record`: the `BatchRun` as JSON


BATCH_INDEX = make_arrow_schema(
    {
        "_kind": pa.string(),
        "_run": pa.string(),
        "_epoch": pa.int64(),
        "_partition": pa.int32(),
        "window_start": TIMESTAMP,
        "window_end": TIMESTAMP,
        "first_offset": pa.int64(),
        "last_offset": pa.int64(),
        "_n": pa.int64(),
        "_record": pa.string(),
    }
)
"""Rows of the batch path's index; the kind of a row (`IndexKind`) determines which columns it fills."""


class RowKind(StrEnum):
    """`_kind` of a row, by which the table is partitioned; columns: `epoch_log_schema`, those not named here are null.

    Every row has `_epoch`. A fold of the compactor may put the newest of several epochs there.
    """

    PARTIAL = "partial"  # the partial shape, `_class` accepted: one row a window and key
    LEDGER = "ledger"  # the partial shape, any other `_class`: one row a record (and window) that did not count
    EPOCH = "epoch"  # `_record`: the `EpochRecord` as JSON; one row an epoch
    PANE = "pane"  # window, key, measures, `_record`: what came out; `_class`: its kind, or what was dropped
    HELD = "held"  # window, key, states, `_record`: what a trigger holds; `_class`: `held` or `gone`
    IDS = "ids"  # `window_start` (an event minute) and `_ids`: those that the epoch was the first to show; or a mark
    ATTEMPT = "data"  # `_record`: the `Attempt`, where data and offsets are two commits


COUNTED = (RowKind.PARTIAL, RowKind.LEDGER)
"""Rows whose `_n` adds up to every record that was read, in each of its windows."""


def kind_sql(*kinds: RowKind) -> str:
    """Return the condition that a row has one of some kinds."""
    return f"_kind IN ({', '.join(repr(str(kind)) for kind in kinds)})"


Partition = tuple[tuple[str, str | None], ...]  # columns that are not in the files, and their one value


def select_rows_sql(
    schema: pa.Schema, files: Sequence[str], partition: Partition = (), *, file_column: str | None = None
) -> str:
    """Return the query of the rows of Parquet files of this machine, in a schema's columns and types.

    Args:
        schema: Of the rows.
        files: Their paths.
        partition: Columns that are not in the files, and their one value.
        file_column: A further column: the path of each row's file. Files may lack columns of the schema then.
    """
    files_list = ", ".join(literal(file) for file in files)
    if file_column is None:
        return select_columns(schema, partition) + f" FROM read_parquet([{files_list}], hive_partitioning = false)"
    file_schema = pa.schema([field for field in schema if field.name not in dict(partition)])
    files_sql = f"read_parquet([{files_list}], hive_partitioning = false, union_by_name = true, filename = {{}})"
    rows_sql = f"{nothing(file_schema)} UNION ALL BY NAME FROM {files_sql.format(literal(file_column))}"
    return select_columns(schema, partition) + f", {identifier(file_column)} FROM ({rows_sql})"


def select_columns(schema: pa.Schema, partition: Partition) -> str:
    """Return `SELECT` with a schema's columns in their types; those of a partition as constants."""
    constant = {name: "NULL" if value is None else literal(str(value)) for name, value in partition}
    columns = ", ".join(
        f"CAST({constant.get(f.name, identifier(f.name))} AS {map_arrow_type_to_duckdb(f.type)})"
        f" AS {identifier(f.name)}"
        for f in schema
    )
    return f"SELECT {columns}"


def nothing(schema: pa.Schema, further: str = "") -> str:
    """Return the query of no rows, in a schema's columns and types; further ones as SQL that begins with a comma."""
    columns = ", ".join(f"CAST(NULL AS {map_arrow_type_to_duckdb(f.type)}) AS {identifier(f.name)}" for f in schema)
    return f"SELECT {columns}{further} WHERE false"


def read_file_schema(connection: duckdb.DuckDBPyConnection, file: str) -> pa.Schema:
    """Return the columns that a Parquet file of this machine has, as DuckDB reads them.

    Raises:
        duckdb.Error: The file is missing or damaged.
    """
    rows = connection.sql(f"FROM read_parquet({literal(file)}, hive_partitioning = false) LIMIT 0")
    schema: pa.Schema = rows.to_arrow_table().schema
    return schema


def list_column_names(fields: Iterable["pa.Field[pa.DataType]"], prefix: str = "") -> Iterator[str]:
    """Yield the names of columns and of the fields of their structs, in lower case, as `_positions.offset`."""
    for field in fields:
        yield (prefix + field.name).lower()
        kind = field.type
        while pa.types.is_list(kind):
            kind = kind.value_type
        if pa.types.is_struct(kind):
            yield from list_column_names(kind, f"{prefix}{field.name}.")


_LIMITS = {"BIGINT": 2.0**63, "INTEGER": 2.0**31, "HUGEINT": 2.0**127}
_ERRORS = (duckdb.OutOfRangeException, duckdb.ConversionException)
_ROUNDING = 1e-12  # of a sum of doubles: a total this close to its limit counts as an overflow


def find_overflow(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, relation: str, classes: Sequence[str], error: Exception
) -> LakeError | None:
    """Find the first total that overflows its type, and return an error with its window and key; None: no overflow.

    Args:
        connection: Connection on which the query failed.
        pipeline: The definition.
        relation: A view of partial shape.
        classes: Classes that were merged.
        error: Error of the query.
    """
    if not isinstance(error, _ERRORS):
        return None
    summed = [state for state in compile_pipeline(pipeline).states if state.merge == "sum"]
    class_list = ", ".join(literal(str(name)) for name in classes)
    keys = ", ".join(identifier(name) for name in ("window_start", *pipeline.key))
    queries = [
        f"SELECT {literal(s.column)}, {keys}, sum({identifier(s.column)}::DOUBLE) AS total FROM {identifier(relation)}"
        f" WHERE _class IN ({class_list}) GROUP BY ALL"
        f" HAVING abs(total) >= {_limit(map_arrow_type_to_duckdb(map_spark_type_to_arrow(s.type)))!r}"
        for s in summed
    ]
    if not queries:
        return None
    row = connection.execute(f"FROM ({' UNION ALL '.join(queries)}) ORDER BY ALL LIMIT 1").fetchone()
    if row is None:
        return None
    column, window, *key, total = row
    at = ", ".join(f"{name} {value!r}" for name, value in zip(pipeline.key, key, strict=True))
    kind = next(s.type for s in summed if s.column == column)
    msg = (
        f"Epoch log of {pipeline.name}, window {window.isoformat()}, {at or 'no key'}: expected a total of `{column}` "
        f"that fits into {kind}, got about {total:.3g}.\n"
        "Hint: no definition accepts such numbers: rows were changed by another writer. `cutover verify` names more."
    )
    return LakeError(msg, runbook="TableUnreadable")


def _limit(kind: str) -> float:
    if kind.startswith("DECIMAL"):
        precision, scale = (int(part) for part in kind.removeprefix("DECIMAL(").removesuffix(")").split(","))
        return 10.0 ** (precision - scale) * (1 - _ROUNDING)
    return _LIMITS.get(kind, float("inf")) * (1 - _ROUNDING)
