"""Rows changed as a defect of the product would: names and weights of files are valid, only rows are wrong."""

import pyarrow as pa

from cutover.lake.tables import checksums, commits, data_files, delta

Values = dict[str, str | None]


def replace_rows(uri: str, rows: pa.Table, *, kind: str | None = None) -> int:
    """Replace all rows of a table, or all of one kind; return the version."""
    table = delta.open_table(uri)
    replaced_files = [action for action in delta.actions(table) if kind is None or action["partition._kind"] == kind]
    weight = checksums.weight_word(checksums.total(str(action["path"]) for action in replaced_files))
    partition: Values = {} if kind is None else {"_kind": kind}
    data = rows if kind is None else rows.drop_columns(["_kind"])
    schema = delta.read_schema(table)
    data_schema = pa.schema([field for field in schema if field.name != "_kind" or kind is None])
    new_file = data_files.write_data_file(
        uri, data.cast(data_schema), checksums.new_stem("planted", weight), partition=partition
    )
    commits.replace(table, replaced_files, [new_file])
    return int(table.version())
