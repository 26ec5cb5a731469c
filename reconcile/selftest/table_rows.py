"""Rows of a copied table, read and rewritten as a defect of Cutover would do it: names and weights stay valid."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from cutover.engine import queries
from cutover.lake.epochs.row_kinds import COUNTED, RowKind
from cutover.lake.tables import checksums, commits, data_files, delta

_PARTITION = "_kind"
COMPARED = (*COUNTED, RowKind.EPOCH, RowKind.ATTEMPT)
"""Kinds of rows of an epoch log that a comparison reads; `cutover verify --files` checks the files of the others."""


def read_table_rows(uri: str, *, kind: str | None, order: Sequence[str], condition: str = "true") -> pa.Table:
    """Read the rows of a table or of one kind, sorted; `condition` is SQL over its columns."""
    table = delta.open_table(uri)
    with queries.open_duckdb() as connection:
        delta.bind(connection, "rows", table, kinds=None if kind is None else (kind,))
        rows: pa.Table = connection.sql(f"FROM rows WHERE {condition}").to_arrow_table()
    ordered: pa.Table = rows.select(delta.read_schema(table).names).sort_by([(name, "ascending") for name in order])
    return ordered


def replace_table_rows(uri: str, rows: pa.Table, *, kind: str | None) -> None:
    """Replace all rows of a table or of one kind, and keep the weight valid so that it does not show the change."""
    table = delta.open_table(uri)
    replaced_files = [
        action for action in delta.actions(table) if kind is None or action[f"partition.{_PARTITION}"] == kind
    ]
    weight = checksums.weight_word(checksums.total(str(action["path"]) for action in replaced_files))
    partition: Mapping[str, str | None] = {} if kind is None else {_PARTITION: kind}
    schema = delta.read_schema(table)
    file_schema = pa.schema([field for field in schema if field.name != _PARTITION or kind is None])
    data = rows.select(file_schema.names).cast(file_schema)
    new_file = data_files.write_data_file(uri, data, checksums.new_stem("planted", weight), partition=partition)
    commits.replace(table, replaced_files, [new_file])


def flip_bit(uri: str, number: float) -> str:
    """Flip one bit of a data file that a comparison reads, and return its path; the file it is linked to is unchanged.

    Args:
        uri: The table's.
        number: From 0 to below 1: which file and which bit.
    """
    table = delta.open_table(uri)
    root = delta.local_root(table)
    files = (
        action for action in delta.actions(table) if action.get(f"partition.{_PARTITION}", COMPARED[0]) in COMPARED
    )
    ordered_files = sorted(files, key=lambda action: str(action["path"]))
    action = ordered_files[int(number * len(ordered_files))]
    path = delta.file_path(Path() if root is None else root, action)
    content = bytearray(path.read_bytes())
    bit = int(number * len(content) * 8)
    content[bit // 8] ^= 1 << (bit % 8)
    path.unlink()
    path.write_bytes(content)
    return str(action["path"])
