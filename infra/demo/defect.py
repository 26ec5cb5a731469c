"""Planted defect, like that of a faulty release: wrong rows of the latest windows that only a comparison reveals."""

import pyarrow as pa

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.serving import views
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier

_DAYS = 5  # of final windows


def plant_defect(lake: PipelineLake, *, column: str, share: float) -> int:
    """Change a share of the partial aggregates of the latest final windows, in one commit; return their number.

    Only for the demonstration and for drills. File names and checksum weights are valid, so that the defect is visible
    only to a comparison with the log.

    Args:
        lake: Pipeline whose epoch log is changed.
        column: Numeric column of the partial aggregates, which is increased by one.
        share: Share of the rows of the latest days, sampled by the hash of window and key.

    Raises:
        LakeError: There is no stream, or no final window.
    """
    version = versions.find_current_version(lake)
    if version is None:
        msg = f"Pipeline `{lake.name}`: expected a stream to plant a defect in, found none."
        raise LakeError(msg)
    with views.open_views(lake) as connection:
        query = "SELECT epoch_us(max(window_start)) FROM streaming WHERE _state = 'final'"
        ((latest,),) = connection.execute(query).fetchall()
    table = delta.open_table(version.uri)
    with queries.open_duckdb() as connection:
        delta.bind(connection, "stored", table)
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM stored WHERE _kind = 'partial'")
        column_name, row_key = identifier(column), ", ".join(["window_start", *map(identifier, lake.pipeline.key)])
        where_clause = (
            f"WHERE _class = 'accepted' AND {column_name} IS NOT NULL AND epoch_us(window_start) > ?"
            f" AND hash({row_key}) % 1000 < {int(share * 1000)}"
        )
        cutoff = int(latest) - _DAYS * 86_400_000_000
        ((changed_count,),) = connection.execute(f"SELECT count(*) FROM rows {where_clause}", [cutoff]).fetchall()  # noqa: S608 -- ours
        connection.execute(f"UPDATE rows SET {column_name} = {column_name} + 1 {where_clause}", [cutoff])  # noqa: S608 -- ours
        rows = queries.query_table(connection, "SELECT * FROM rows").cast(epoch_log_schema(lake.pipeline))
    _replace_partials(table.table_uri, rows)
    return int(changed_count)


def _replace_partials(uri: str, rows: pa.Table) -> None:
    """Replace all files of partial aggregates with one file of `rows`, whose name has their checksum weight."""
    table = delta.open_table(uri)
    partial_files = [action for action in delta.actions(table) if action["partition._kind"] == "partial"]
    weight = checksums.weight_word(checksums.total(str(action["path"]) for action in partial_files))
    file_schema = pa.schema([field for field in delta.read_schema(table) if field.name != "_kind"])
    new_files = data_files.write_data_file(
        uri,
        rows.drop_columns(["_kind"]).cast(file_schema),
        checksums.new_stem("planted", weight),
        partition={"_kind": "partial"},
    )
    commits.replace(table, partial_files, [new_files])
