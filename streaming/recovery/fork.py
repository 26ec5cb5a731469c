"""Forks: a new version of the stream that begins with everything another one had committed up to an epoch.

Fold, ledger, panes and epoch records up to the epoch are copied in one commit, under the new version's transaction; the
driver continues after it as after any other epoch. The version is registered before the rows are copied: a fork that
is killed in between is a version without rows, which its driver fills before it reads anything.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.events import log
from cutover.lake.control import losses, pins, versions
from cutover.lake.control.pins import Savepoint
from cutover.lake.control.versions import Fork, Version
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import high_water, same_log
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import RowKind, epoch_log_schema
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal
from cutover.streaming.compaction import compactor, merge
from cutover.streaming.process.heartbeat import only_driver, run_folder
from cutover.streaming.sink import committer
from cutover.streaming.sink.committer import NO_HOOKS
from cutover.streaming.source import start_offsets


def savepoint(lake: PipelineLake, name: str, epoch: int | None, clock: Clock) -> Savepoint:
    """Create a savepoint of the current version; a driver may be running.

    Args:
        lake: Pipeline whose current version is retained.
        name: Name of the savepoint, new for this version.
        epoch: None: the newest one.
        clock: For the row.

    Raises:
        DefinitionError: The name is invalid or in use, or there is no such epoch.
        LakeError: The epoch was folded into later ones; nothing is kept.
    """
    pipeline = lake.pipeline
    version = _require_version(lake)
    if any(savepoint.name == name for savepoint in pins.list_savepoints(lake.settings, version)):
        msg = f"Savepoint of `{pipeline.name}`: expected a new name, `{name}` is kept already."
        raise DefinitionError(msg + f"\nHint: `cutover savepoint {pipeline.name} list` shows them.")
    record = _record(pipeline, EpochLog(version.uri), epoch)
    pinned = pins.create_savepoint(lake.settings, version, record.epoch, name=name, now=clock.now())
    try:
        _reject_folded(pipeline, version, record)  # checked after pinning: no fold can cross the epoch now
    except BaseException:
        pins.release_savepoint(lake.settings, version, pinned, now=clock.now())
        raise
    return pinned


def fork(lake: PipelineLake, epoch: int, clock: Clock) -> Version:
    """Register a new version that begins after an epoch of the current one. No driver may be running.

    Raises:
        DefinitionError: There is no such epoch.
        LakeError: A driver is running, the epoch was folded into later ones, it sealed its version, or a loss was
            recorded up to it; nothing was written.
        LogError: The log no longer holds what follows the epoch.
    """
    with only_driver(run_folder(lake.settings, lake.name), lake.name):
        return register_fork(lake, epoch, clock, parallel=False)


def register_fork(lake: PipelineLake, epoch: int, clock: Clock, *, parallel: bool) -> Version:
    """Register a new version that begins after an epoch of the current one; see `fork`.

    With `parallel` the current version keeps serving; otherwise the new one serves at once.

    Raises:
        DefinitionError: There is no such epoch.
        LakeError: As for `fork`, except that a driver may be running.
        LogError: The log no longer holds what follows the epoch.
    """
    sequence = versions.read_next_version_sequence(lake)
    source = _require_version(lake)
    record = _record(lake.pipeline, EpochLog(source.uri), epoch)
    _check_can_fork(lake, source, record)
    _reject_folded(lake.pipeline, source, record)
    origin = Fork(version=source.number, epoch=record.epoch)
    version = versions.register(lake, clock, expected_sequence=sequence, fork=origin, parallel=parallel)
    copy_source_rows(lake, version)
    log.warning("stream_forked", version=version.app_id, source=source.app_id, epoch=record.epoch, parallel=parallel)
    return version


def copy_source_rows(lake: PipelineLake, version: Version) -> None:
    """Copy the rows that a fork begins with, unless that is done; do nothing for other versions.

    Raises:
        LakeError: The source cannot be read, or no longer holds the epoch separately.
    """
    pipeline = lake.pipeline
    if version.fork is None or _is_filled(version):
        return
    all_versions = versions.list_stream_versions(lake)
    source = next((candidate for candidate in all_versions if candidate.number == version.fork.version), None)
    if source is None:
        msg = (
            f"Fork stream-{version.number} of `{pipeline.name}`: expected stream-{version.fork.version}, with which it "
        )
        raise LakeError(msg + "begins, its tables were deleted.\nHint: fork another version, or begin with the log.")
    log_of_source = EpochLog(source.uri)
    record = _record(pipeline, log_of_source, version.fork.epoch)
    _reject_folded(pipeline, source, record)
    schema = epoch_log_schema(pipeline)
    table = delta.ensure(version.uri, schema, partition_by=["_kind"], configuration=delta.SHORT_LOG)
    with queries.open_duckdb(queries.make_reader_limits(lake.settings)) as connection:
        delta.bind(connection, "source", log_of_source.table)
        copied = list(_copy_rows(connection, version.uri, schema, record))
    commits.transact(
        table,
        copied,
        commit=CommitProperties(
            custom_metadata={"userMetadata": record.to_json()},
            app_transactions=[Transaction(version.app_id, record.epoch)],
        ),
        hooks=NO_HOOKS,
    )
    filled = DeltaTable(version.uri)
    committer.check_fencing(filled, version)
    high_water.write_note(version, record, int(filled.version()))


def _copy_rows(
    connection: duckdb.DuckDBPyConnection, uri: str, schema: pa.Schema, record: EpochRecord
) -> Iterator[AddAction]:
    """Write the rows of `source` up to an epoch, one file per kind; their checksum matches the epoch's record."""
    up_to_epoch = f"_epoch <= {int(record.epoch)}"
    kinds = connection.execute(f"SELECT DISTINCT _kind FROM source WHERE {up_to_epoch} ORDER BY 1").fetchall()  # noqa: S608
    file_schema = pa.schema([field for field in schema if field.name != "_kind"])
    columns = ", ".join(map(identifier, file_schema.names))
    for number, (kind,) in enumerate(kinds):
        query = f"SELECT {columns} FROM source WHERE _kind = {literal(kind)} AND {up_to_epoch}"  # noqa: S608 -- quoted
        rows = connection.sql(query).to_arrow_reader()
        weight = checksums.weight_word(0 if number else int(record.files, 16))
        yield data_files.stream_data_file(
            uri,
            pa.RecordBatchReader.from_batches(file_schema, (batch.cast(file_schema) for batch in rows)),
            checksums.new_stem("fork", 0, record.epoch, weight),
            partition={"_kind": kind},
        )


def _is_filled(version: Version) -> bool:
    if not delta.exists(version.uri):
        return False
    return delta.transaction(delta.open_table(version.uri), version.app_id) is not None


def _require_version(lake: PipelineLake) -> Version:
    version = versions.find_current_version(lake)
    if version is None:
        msg = f"Stream of `{lake.name}`: expected a version with epochs, none has begun under this definition."
        raise DefinitionError(msg + f"\nHint: `cutover stream {lake.name}` begins one.")
    return version


def _record(pipeline: Pipeline, epochs: EpochLog, epoch: int | None) -> EpochRecord:
    all_records = epochs.records()
    matching = [record for record in all_records if epoch in {None, record.epoch}]
    if not matching:
        existing = f"0 to {all_records[-1].epoch}" if all_records else "none yet"
        msg = f"Stream of `{pipeline.name}`: expected an existing epoch ({existing}), got {epoch}."
        raise DefinitionError(msg)
    return matching[-1]


def _check_can_fork(lake: PipelineLake, source: Version, record: EpochRecord) -> None:
    place = f"Stream of {lake.name}: epoch {record.epoch} of stream-{source.number}"
    if record.final:
        msg = f"{place}: expected an epoch before the final one, it closed all windows and sealed the version."
        raise LakeError(msg + "\nHint: choose an earlier epoch.")
    if any(loss.kind == "gap" and loss.epoch <= record.epoch for loss in losses.list_of_version(lake.settings, source)):
        msg = f"{place}: expected an epoch before the first recorded loss, got one behind it."
        raise LakeError(msg + "\nHint: choose an earlier epoch; the loss must then be accepted again.")
    start_offsets.find_start(
        lake.pipeline, LogClient(lake.settings), record, history=same_log.recorded_history(source.uri)
    )


def _reject_folded(pipeline: Pipeline, source: Version, record: EpochRecord) -> None:
    """Reject an epoch unless the rows up to it add up to the counts of these epochs.

    Raises:
        LakeError: A fold has merged it with later ones.
    """
    epochs = EpochLog(source.uri)
    short = delivery.find_folded_classes(
        epochs, [epoch_record for epoch_record in epochs.records() if epoch_record.epoch <= record.epoch]
    )
    if merge.is_forgotten(pipeline, epochs, record):
        msg = f"Stream of {pipeline.name}: epoch {record.epoch} of stream-{source.number}: expected the ids that it "
        msg += "remembers, some were forgotten since."
        raise LakeError(msg + "\nHint: a savepoint keeps an epoch from that; choose a later epoch.")
    files = compactor.list_files(epochs.table)
    short += [
        file.kind for file in files if file.kind == RowKind.HELD and file.first_epoch <= record.epoch < file.last_epoch
    ][:1]
    if short:
        msg = f"Stream of {pipeline.name}: epoch {record.epoch} of stream-{source.number}: expected its own rows, "
        msg += f"{' and '.join(short)} ones were folded into later epochs."
        raise LakeError(msg + "\nHint: a savepoint keeps an epoch from that; choose a later epoch.")
