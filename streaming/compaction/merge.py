"""One fold: a group of files becomes one file with the same meaning, streamed through DuckDB in bounded memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake.transaction import AddAction

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.tables import checksums
from cutover.lake.tables.schemas import duckdb_type, epoch_log_schema
from cutover.quoting import identifier, literal
from cutover.records.classes import Class
from cutover.records.fold import WINDOW, fold_sql
from cutover.settings import Settings
from cutover.streaming.compaction import id_expiry
from cutover.streaming.sink import files
from cutover.streaming.sink.files import File


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedGroup:
    """A group of files and the file that replaces it."""

    group: tuple[File, ...]
    file: File
    action: AddAction


def merge_group(
    settings: Settings, pipeline: Pipeline, uri: str, group: Sequence[File], *, forgotten: int | None = None
) -> MergedGroup:
    """Write the file that replaces a group; it is invisible until it is committed.

    One thread, so that the stream keeps the rest of the machine; `stream.fold_memory`, then disk.

    Args:
        settings: For the bounds and the scratch folder.
        pipeline: The definition.
        uri: The epoch log's.
        group: Files of one kind.
        forgotten: Ids of earlier minutes are left out, microseconds; None: all are kept.
    """
    ordered = sorted(group, key=lambda file: (file.first_epoch, file.last_epoch))
    kind, first_epoch, last_epoch = ordered[0].kind, ordered[0].first_epoch, max(file.last_epoch for file in ordered)
    weight = checksums.weight_word(checksums.total(file.path for file in ordered))
    stem = checksums.new_stem("fold", first_epoch, last_epoch, weight)
    schema = pa.schema([field for field in epoch_log_schema(pipeline) if field.name != "_kind"])
    bounds = queries.Bounds(memory=settings.stream.fold_memory, home=settings.home, threads=1)
    with queries.connect(bounds) as connection:
        files.bind_files(connection, "old", uri, ordered, schema)
        if kind == RowKind.PARTIAL:
            # A fold has no order; without one to keep, rows need not wait for one another in memory.
            connection.execute("SET preserve_insertion_order = false")
            query = merge_sql(pipeline, schema, "old", epoch=last_epoch)
        elif kind == RowKind.HELD:
            query = newest_held_sql(pipeline, "old")
        elif kind == RowKind.IDS:
            query = id_expiry.retain_sql("old", schema, first_epoch, forgotten)
        else:
            query = "SELECT * FROM old"  # files in the order of their epochs, and so are their rows
        scratch = settings.home.resolve() / "tmp" / "folds"
        action = files.export(connection, query, uri, stem, kind=kind, scratch=scratch)
    merged = File(path=action.path, kind=kind, first_epoch=first_epoch, last_epoch=last_epoch, size=action.size)
    return MergedGroup(group=tuple(group), file=merged, action=action)


def newest_held_sql(pipeline: Pipeline, relation: str) -> str:
    """Return the query of the newest `held` row of each window and key, rows of released windows included.

    Closed windows are included too: otherwise an older row in another file would count.
    """
    place = ", ".join(identifier(name) for name in (*WINDOW, *pipeline.key))
    return f"""
        SELECT * FROM {relation} QUALIFY row_number() OVER (PARTITION BY {place} ORDER BY _epoch DESC) = 1
    """  # noqa: S608 -- quoted


def merge_sql(pipeline: Pipeline, schema: pa.Schema, relation: str, *, epoch: int | None = None) -> str:
    """Return the query that folds the accepted partials of a relation into rows of one epoch, in a schema's columns."""
    stored = {*WINDOW, *pipeline.key, *(state.column for state in compile_pipeline(pipeline).states), "_n"}
    constant = {"_epoch": "NULL" if epoch is None else str(int(epoch)), "_class": literal(Class.ACCEPTED.value)}
    columns = ", ".join(
        f"CAST({identifier(f.name) if f.name in stored else constant.get(f.name, 'NULL')} AS {duckdb_type(f.type)})"
        f" AS {identifier(f.name)}"
        for f in schema
    )
    return f"SELECT {columns} FROM ({fold_sql(pipeline, relation)}) AS folded"  # noqa: S608 -- quoted above
