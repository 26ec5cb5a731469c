"""A defect as a bad release would make it: some rows of the newest windows are wrong, and nothing else tells of it."""

import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.serving import views
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.quoting import identifier
from cutover.settings import Settings

_DAYS = 5  # of final windows


def plant(settings: Settings, pipeline: Pipeline, *, column: str, share: float) -> int:
    """Change a share of the partial aggregates of the newest final windows, in one commit; return how many.

    For demonstration and drills alone: files have names and weights of ours, so that only a comparison with the log
    tells.

    Args:
        settings: Where the lake is.
        pipeline: Its definition.
        column: A number among its partials; one is added.
        share: Of the rows of the newest days, drawn by their window and key.

    Raises:
        LakeError: There is no stream, or no final window.
    """
    version = versions.current(settings, pipeline)
    if version is None:
        msg = f"Pipeline `{pipeline.name}`: expected a stream to plant a defect in, found none."
        raise LakeError(msg)
    with views.connect(settings, pipeline) as connection:
        query = "SELECT epoch_us(max(window_start)) FROM streaming WHERE _state = 'final'"
        ((newest,),) = connection.execute(query).fetchall()
    table = delta.open_table(version.uri)
    with queries.connect() as connection:
        delta.bind(connection, "held", table)
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM held WHERE _kind = 'partial'")
        column_name, place = identifier(column), ", ".join(["window_start", *map(identifier, pipeline.key)])
        condition = (
            f"_class = 'accepted' AND {column_name} IS NOT NULL AND epoch_us(window_start) > ?"
            f" AND hash({place}) % 1000 < {int(share * 1000)}"
        )
        cutoff = int(newest) - _DAYS * 86_400_000_000
        where_clause = f"WHERE {condition}"
        ((changed_count,),) = connection.execute(f"SELECT count(*) FROM rows {where_clause}", [cutoff]).fetchall()  # noqa: S608 -- ours
        connection.execute(f"UPDATE rows SET {column_name} = {column_name} + 1 {where_clause}", [cutoff])  # noqa: S608 -- ours
        rows = queries.read_table(connection, "SELECT * FROM rows").cast(epoch_log_schema(pipeline))
    _put(table.table_uri, rows)
    return int(changed_count)


def _put(uri: str, rows: pa.Table) -> None:
    table = delta.open_table(uri)
    partial_files = [action for action in delta.actions(table) if action["partition._kind"] == "partial"]
    weight = checksums.weight_word(checksums.total(str(action["path"]) for action in partial_files))
    file_schema = pa.schema([field for field in delta.read_schema(table) if field.name != "_kind"])
    new_files = data_files.write(
        uri,
        rows.drop_columns(["_kind"]).cast(file_schema),
        checksums.new_stem("planted", weight),
        partition={"_kind": "partial"},
    )
    commits.replace(table, partial_files, [new_files])
