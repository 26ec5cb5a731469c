"""Queries of the rows of a table's Parquet files, in its schema's columns and types; the columns of one file."""

from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa

from cutover.lake.tables.schemas import map_arrow_type_to_duckdb
from cutover.quoting import identifier, literal

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
