"""One fold: a group of files becomes one file with the same meaning, streamed through DuckDB in bounded memory.

A fold removes the ids that the oldest needed epoch no longer remembers: the oldest pinned epoch, else one that folds
leave alone. It writes how far it has forgotten as a separate row (`_kind` ids, `_class` forgotten): an epoch whose
watermark remembers more can no longer be forked.
"""

# ruff: noqa: S608 -- numbers and constant names
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline, compute_oldest_remembered, truncate_to_minute
from cutover.engine import queries
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import checksums, delta
from cutover.lake.tables.schemas import RowKind, epoch_log_schema, map_arrow_type_to_duckdb
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal
from cutover.records.classes import Class
from cutover.records.fold import WINDOW, fold_sql
from cutover.streaming.sink import files
from cutover.streaming.sink.files import File

MARK = "forgotten"  # class of a row that holds the minute from which ids are complete


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryBound:
    """Event minute from which ids are kept, and the epoch that needs them."""

    epoch: int
    minute: int | None  # microseconds; None: nothing is forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedGroup:
    """A group of files and the file that replaces it."""

    group: tuple[File, ...]
    file: File
    action: AddAction


def find_expiry_bound(pipeline: Pipeline, table: DeltaTable, epoch: int, pinned: Iterable[int]) -> ExpiryBound:
    """Return the bound below which ids are needed by no pinned epoch and by none from `epoch` on."""
    oldest = min([epoch, *pinned])
    record = _records(table, [oldest]).get(oldest)
    needed = None if record is None else compute_oldest_remembered(pipeline, record.watermark_after)
    return ExpiryBound(epoch=oldest, minute=None if needed is None else truncate_to_minute(needed))


def find_expired_files(table: DeltaTable, candidates: Sequence[File], expiry_bound: ExpiryBound) -> list[File]:
    """Return the id files that hold no id at or after the bound."""
    files = [file for file in candidates if file.kind == RowKind.IDS and file.last_epoch <= expiry_bound.epoch]
    if expiry_bound.minute is None or not files:
        return []
    records = _records(table, [file.last_epoch for file in files])
    newest = {epoch: max(record.max_event.values(), default=expiry_bound.minute) for epoch, record in records.items()}
    return [file for file in files if newest.get(file.last_epoch, expiry_bound.minute) < expiry_bound.minute]


def retain_sql(relation: str, schema: pa.Schema, first_epoch: int, minute: int | None) -> str:
    """Return the query of the ids that a fold retains, and of the fold's mark.

    Args:
        relation: Their rows.
        schema: Of the files.
        first_epoch: Epoch that the mark carries.
        minute: Ids of earlier minutes are left out, microseconds; None: nothing is.
    """
    if minute is None:
        return f"SELECT * FROM {relation}"
    marked = f"SELECT max(epoch_us(window_start)) FROM {relation} WHERE _class = '{MARK}'"
    own_columns = {
        "_epoch": str(int(first_epoch)),
        "_class": f"'{MARK}'",
        "window_start": f"make_timestamptz(greatest({int(minute)}, coalesce(({marked}), {int(minute)})))",
    }
    mark = ", ".join(
        f"CAST({own_columns.get(f.name, 'NULL')} AS {map_arrow_type_to_duckdb(f.type)}) AS {identifier(f.name)}"
        for f in schema
    )
    remaining_sql = f"SELECT * FROM {relation} WHERE _class IS NULL AND epoch_us(window_start) >= {int(minute)}"
    return f"{remaining_sql} UNION ALL SELECT {mark}"


def is_forgotten(pipeline: Pipeline, epochs: EpochLog, record: EpochRecord) -> bool:
    """Return whether an epoch still needs ids that were removed from its epoch log."""
    if pipeline.source.record_id is None:
        return False
    oldest_needed = compute_oldest_remembered(pipeline, record.watermark_after)
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", epochs.table, kinds=(RowKind.IDS,))
        query = f"SELECT max(epoch_us(window_start)) FROM log WHERE _class = '{MARK}'"
        (newest_expired,) = connection.execute(query).fetchall()[0]
    return newest_expired is not None and (oldest_needed is None or newest_expired > oldest_needed)


def _records(table: DeltaTable, epochs: Iterable[int]) -> dict[int, EpochRecord]:
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", table, kinds=(RowKind.EPOCH,))
        epoch_list = ", ".join(str(int(epoch)) for epoch in epochs)
        query = f"SELECT _record FROM log WHERE _epoch IN ({epoch_list})"
        epoch_records = (EpochRecord.from_json(row[0]) for row in connection.execute(query).fetchall())
        return {record.epoch: record for record in epoch_records}


def merge_group(lake: PipelineLake, uri: str, group: Sequence[File], *, forgotten: int | None = None) -> MergedGroup:
    """Write the file that replaces a group; it is invisible until it is committed.

    One thread, so that the stream keeps the rest of the machine; `stream.fold_memory`, then disk.

    Args:
        lake: Its settings give the bounds and the scratch folder.
        uri: The epoch log's.
        group: Files of one kind.
        forgotten: Ids of earlier minutes are left out, microseconds; None: all are kept.
    """
    ordered = sorted(group, key=lambda file: (file.first_epoch, file.last_epoch))
    kind, first_epoch, last_epoch = ordered[0].kind, ordered[0].first_epoch, max(file.last_epoch for file in ordered)
    weight = checksums.weight_word(checksums.total(file.path for file in ordered))
    stem = checksums.new_stem("fold", first_epoch, last_epoch, weight)
    schema = pa.schema([field for field in epoch_log_schema(lake.pipeline) if field.name != "_kind"])
    bounds = queries.Bounds(memory=lake.settings.stream.fold_memory, home=lake.settings.home, threads=1)
    with queries.open_duckdb(bounds) as connection:
        files.bind_files(connection, "old", uri, ordered, schema)
        if kind == RowKind.PARTIAL:
            # A fold has no order; without one to keep, rows need not wait for one another in memory.
            connection.execute("SET preserve_insertion_order = false")
            query = fold_partials_sql(lake.pipeline, schema, "old", epoch=last_epoch)
        elif kind == RowKind.HELD:
            query = newest_held_sql(lake.pipeline, "old")
        elif kind == RowKind.IDS:
            query = retain_sql("old", schema, first_epoch, forgotten)
        else:
            query = "SELECT * FROM old"  # files in the order of their epochs, and so are their rows
        scratch = lake.settings.home.resolve() / "tmp" / "folds"
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
    """


def fold_partials_sql(pipeline: Pipeline, schema: pa.Schema, relation: str, *, epoch: int | None = None) -> str:
    """Return the query that folds the accepted partials of a relation into rows of one epoch, in a schema's columns."""
    stored = {*WINDOW, *pipeline.key, *(state.column for state in compile_pipeline(pipeline).states), "_n"}
    constant = {"_epoch": "NULL" if epoch is None else str(int(epoch)), "_class": literal(Class.ACCEPTED.value)}
    columns = ", ".join(
        f"CAST({identifier(f.name) if f.name in stored else constant.get(f.name, 'NULL')}"
        f" AS {map_arrow_type_to_duckdb(f.type)}) AS {identifier(f.name)}"
        for f in schema
    )
    return f"SELECT {columns} FROM ({fold_sql(pipeline, relation)}) AS folded"
