"""Serving table: the rows of the view `serving` under one stable name, for readers of any engine.

`<lake>/<pipeline>/serving` keeps its place through changes of stage, version and definition, and when a pipeline of
another name replaces this one. A publication is one commit, so every version of the table has each window once, as one
stage of one definition served it. The table is derived: no decision depends on it, and the next publication overwrites
changes of other writers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.errors import CutoverError, LakeError
from cutover.events import log
from cutover.lake.control import served, versions
from cutover.lake.control.served import current_stage
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.serving import views
from cutover.lake.shown_definition import resolve_definition
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.checksums import FileDamagedError
from cutover.lake.tables.schemas import batch_schema
from cutover.pipeline_lake import PipelineLake, serving_uri
from cutover.quoting import identifier
from cutover.settings import Settings

MONTH = "_month"
"""Partition column: the month of a window's start, UTC, such as `2013-02`."""

_ATTEMPTS, _WAIT_SECONDS = 10, 0.5
_ROWS_A_BATCH = 100_000
_STREAM, _SHOWN = "cutover.stream", "cutover.shown"  # keys of a commit's metadata
_LOOK_BACK = 20  # commits that are searched for that metadata: an OPTIMIZE of another writer has none
_CURRENT, _PUBLISHED = "current_rows", "published_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Content of one version of the serving table."""

    uri: str
    served: str  # pipeline whose rows these are
    version: int  # of the table
    stage: Stage
    epoch: int  # newest epoch of the stream; -1: none
    rows: int
    months: tuple[str, ...]  # written by this publication; empty: the table already had all rows
    copy: str | None = None  # table in PostgreSQL with the same rows; None: not configured


class _Overtaken(Exception):  # noqa: N818 -- not an error: the publication is retried
    """Another writer published, or changed the stage, while rows were read."""


def publish(lake: PipelineLake, *, name: str | None = None, anyway: bool = False) -> Publication:
    """Publish the rows that a name serves now to its serving table, in one commit; only changed months are written.

    Args:
        lake: The pipeline that is served; if another one serves by now, its definition is loaded.
        name: Name of the table; None: that of the pipeline. A definition of that name need not exist any more.
        anyway: Publish even if the table shows rows of another stream that had read more of the log, so that readers
            go back in time, and even if no row remains.

    Raises:
        DefinitionError: The pipeline that is served has no definition.
        LakeError: The pipeline has no epoch yet, no row remains, a table cannot be read, the storage did not accept a
            file, or other processes published in every attempt: the table is unchanged. Or the copy in PostgreSQL is
            unchanged, and older than the table.
    """
    lake = lake.with_settings(stream_version=None)  # whatever version the command selected
    tries = Retrying(
        retry=retry_if_exception_type((_Overtaken, CommitFailedError)),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random(max=_WAIT_SECONDS),
        reraise=True,
    )
    try:
        publication = tries(_try_publish, lake, name or lake.name, anyway=anyway)
        return _copy(lake.settings, name or lake.name, publication, anyway=anyway)
    except (_Overtaken, CommitFailedError) as error:
        msg = f"Serving table of `{name or lake.name}`: expected to publish within {_ATTEMPTS} attempts, others "
        raise LakeError(msg + "came first.\nHint: let one process publish (`--follow`), not several.") from error


def _copy(settings: Settings, name: str, publication: Publication, *, anyway: bool) -> Publication:
    """Publish the table to its copy in PostgreSQL, if one is configured."""
    if settings.serving.postgres is None:
        return publication
    from cutover.lake.serving import postgres_copy  # noqa: PLC0415 -- its client is needed only for a copy

    copy = postgres_copy.publish_copy(settings, settings.serving.postgres.get_secret_value(), name, anyway=anyway)
    return replace(publication, copy=copy.table)


def update_tables(lake: PipelineLake, *, anyway: bool = False) -> tuple[str, ...]:
    """Publish the existing serving tables of a pipeline after its served rows changed; a failure is only logged.

    The pipeline has one table for each name under which it is served.

    Returns:
        Names whose table could not be published and is unchanged.
    """
    try:
        names = served.list_served_names(lake.settings, lake.name)
        return tuple(name for name in names if not _update_table(lake, name, anyway=anyway))
    except CutoverError as error:
        log.warning("serving_table_behind", pipeline=lake.name, error=error.text.partition("\n")[0])
        return (lake.name,)


def _update_table(lake: PipelineLake, name: str, *, anyway: bool) -> bool:
    try:
        if delta.exists(serving_uri(lake.settings, name)):
            publish(lake, name=name, anyway=anyway)
    except CutoverError as error:
        log.warning("serving_table_behind", pipeline=name, error=error.text.partition("\n")[0])
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Part of the log that a version of the table shows, and the stream that read it."""

    stream: str  # pipeline, result fingerprint and number of the version
    topic_id: str
    offsets: Mapping[int, int]  # partition -> next offset of the stream's newest epoch

    def is_covered_by(self, record: EpochRecord) -> bool:
        """Return whether an epoch has read as much of the log; also True for another log, which is not comparable."""
        has_read_all = all(record.end.get(partition, 0) >= end for partition, end in self.offsets.items())
        return has_read_all or record.topic_id != self.topic_id


def read_shown(settings: Settings, name: str) -> Shown | None:
    """Read which part of the log the serving table of a name shows; None: no table, or one of another release.

    Raises:
        LakeError: The table cannot be read.
    """
    uri = serving_uri(settings, name)
    return _read_shown(delta.open_table(uri)) if delta.exists(uri) else None


def _read_shown(table: DeltaTable) -> Shown | None:
    entries = islice(delta.list_commits(table), _LOOK_BACK)
    metadata = next((entry for entry in entries if _SHOWN in entry and _STREAM in entry), None)
    if metadata is None:
        return None
    cut = json.loads(metadata[_SHOWN])
    offsets = {int(partition): int(end) for partition, end in cut["cut"].items()}
    return Shown(stream=str(metadata[_STREAM]), topic_id=cut["topic_id"], offsets=offsets)


def _try_publish(lake: PipelineLake, name: str, *, anyway: bool) -> Publication:
    settings = lake.settings
    uri = serving_uri(settings, name)
    table = delta.open_table(uri) if delta.exists(uri) else None  # opened first, so that later commits conflict
    served_name = served.served_by(settings, name)
    if served_name != lake.name:
        lake = PipelineLake(settings, resolve_definition(settings, served_name).pipeline)
    schema, stage, version = _schema(lake.pipeline), current_stage(lake), versions.find_current_version(lake)
    if table is not None and version is not None and not anyway:
        _reject_older(name, version, _read_shown(table))
    with closing(views.open_views(lake)) as connection:
        if (current_stage(lake), served.served_by(settings, name), versions.find_current_version(lake)) != (
            stage,
            served_name,
            version,
        ):
            raise _Overtaken
        epoch, rows = _store_rows(connection)
        has_schema = table is not None and delta.read_schema(table).equals(_add_month(schema))
        if table is not None and not rows and not anyway:
            _reject_emptied(name, table)
        months = _find_changed_months(connection, table if has_schema else None)
        if months or not has_schema:
            with commits.converting_write_errors(uri):
                add_actions = list(_write(connection, uri, schema, months))
                words = {"cutover.stage": str(stage), "cutover.epoch": str(epoch), **_describe_stream(version, epoch)}
                table = _commit(uri, schema, table, add_actions, months if has_schema else None, words)
    return Publication(
        uri=uri,
        served=served_name,
        version=-1 if table is None else int(table.version()),
        stage=stage,
        epoch=epoch,
        rows=rows,
        months=tuple(months),
    )


def _add_month(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the table: the columns of the view, and the partition column."""
    return pa.schema([*schema, pa.field(MONTH, pa.string())])


def _read_records(version: Version) -> list[EpochRecord]:
    return EpochLog(version.uri).records() if delta.exists(version.uri) else []


def _reject_older(name: str, version: Version, published: Shown | None) -> None:
    """Reject rows of a stream that has read less of the log than the stream whose rows the table shows.

    Raises:
        LakeError: It has read less.
    """
    if published is not None and published.stream == version.app_id:
        return
    records = _read_records(version)  # read before the rows, which then include at least these epochs
    if records and (published is None or published.is_covered_by(records[-1])):
        return
    expected = "the rows that it shows" if published is None else f"all that {published.stream} had read"
    msg = f"Serving table of `{name}`: expected rows that cover {expected}, {version.app_id} has read less of the log."
    hint = f"let its driver continue (`cutover stream {version.pipeline} --detach`) and publish again, or "
    raise LakeError(msg + f"\nHint: {hint}`cutover serve-view {name} --anyway`: readers go back in time.")


def _reject_emptied(name: str, table: DeltaTable) -> None:
    """Reject an empty result if the table has rows.

    Raises:
        LakeError: The table has rows.
    """
    published = sum(int(action["num_records"]) for action in delta.actions(table))
    if published:
        msg = f"Serving table of `{name}`: expected rows in the place of the {published:,} that version "
        hint = f"the table is unchanged; `cutover serve-view {name} --anyway` publishes the empty one."
        raise LakeError(msg + f"{table.version()} has, got none.\nHint: {hint}")


def _describe_stream(version: Version | None, epoch: int) -> dict[str, str]:
    """Return the metadata of a commit about the stream that it shows, and the cut of its newest epoch."""
    if version is None:
        return {}
    cuts = [record.cut.to_json() for record in _read_records(version) if record.epoch == epoch]
    cut = cuts[0] if cuts else {"topic_id": "", "cut": {}}
    return {_STREAM: version.app_id, _SHOWN: json.dumps(cut, sort_keys=True)}


def _schema(pipeline: Pipeline) -> pa.Schema:
    """Return the columns of the view, with the types of the batch table."""
    schema = batch_schema(pipeline)
    columns = [schema.field(name) for name in ("window_start", "window_end", *pipeline.key, *pipeline.measures)]
    return pa.schema([*columns, pa.field("_served_by", pa.string()), pa.field("_state", pa.string())])


def _store_rows(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Store the rows of the view, each with its month; return the newest epoch and the number of rows."""
    utc = "timezone('UTC', window_start)"
    month = f"printf('%04d-%02d', year({utc}), month({utc}))"
    connection.execute(f"CREATE TEMP TABLE {_CURRENT} AS SELECT *, {month} AS {MONTH} FROM serving")  # noqa: S608 -- ours
    counts = f"SELECT (SELECT coalesce(max(epoch), -1) FROM epochs), (SELECT count(*) FROM {_CURRENT})"  # noqa: S608 -- ours
    epoch, rows = connection.execute(counts).fetchall()[0]
    return int(epoch), int(rows)


def _find_changed_months(connection: duckdb.DuckDBPyConnection, table: DeltaTable | None) -> list[str]:
    """Find the months whose rows differ from those of the table; all months if it does not exist or cannot be read."""
    all_months = f"SELECT DISTINCT {MONTH} FROM {_CURRENT} ORDER BY ALL"  # noqa: S608 -- ours
    if table is None:
        return [row[0] for row in connection.execute(all_months).fetchall()]
    try:
        delta.bind(connection, _PUBLISHED, table)
    except FileDamagedError:
        listed_months = {str(action[f"partition.{MONTH}"]) for action in delta.actions(table)}
        return sorted(listed_months | {row[0] for row in connection.execute(all_months).fetchall()})
    columns = ", ".join(map(identifier, connection.sql(f"SELECT * FROM {_CURRENT} LIMIT 0").columns))  # noqa: S608 -- ours
    new, old = (f"SELECT {columns} FROM {name}" for name in (_CURRENT, _PUBLISHED))  # noqa: S608 -- quoted
    different = f"(({new}) EXCEPT ALL ({old})) UNION ALL (({old}) EXCEPT ALL ({new}))"
    changed_months = f"SELECT DISTINCT {MONTH} FROM ({different}) ORDER BY ALL"  # noqa: S608 -- ours
    return [row[0] for row in connection.execute(changed_months).fetchall()]


def _write(
    connection: duckdb.DuckDBPyConnection, uri: str, schema: pa.Schema, months: Sequence[str]
) -> Iterator[AddAction]:
    """Write one file for each month that has rows; readers see it after the commit."""
    columns = ", ".join(map(identifier, schema.names))
    query = f"SELECT {columns} FROM {_CURRENT} WHERE {MONTH} = ? ORDER BY ALL"  # noqa: S608 -- quoted
    for month in months:
        reader = connection.sql(query, params=[month]).to_arrow_reader(_ROWS_A_BATCH)
        batches = (batch.cast(schema) for batch in reader if batch.num_rows)
        first_batch = next(batches, None)
        if first_batch is not None:
            rows = pa.RecordBatchReader.from_batches(schema, chain([first_batch], batches))
            yield data_files.stream_data_file(uri, rows, checksums.new_stem("serving"), partition={MONTH: month})


def _commit(
    uri: str,
    schema: pa.Schema,
    table: DeltaTable | None,
    add_actions: Sequence[AddAction],
    months: Sequence[str] | None,
    words: dict[str, str],
) -> DeltaTable:
    """Replace the files of some months, or all files (`months` is None), in the next version of the table.

    Raises:
        CommitFailedError: Another writer committed that version first.
    """
    commit = CommitProperties(custom_metadata=words, max_commit_retries=0)
    table_schema = Schema.from_arrow(_add_month(schema))
    if table is None:
        if delta.exists(uri):
            raise _Overtaken
        commits.create_table(
            uri, add_actions, table_schema, partition_by=[MONTH], configuration=delta.CONFIGURATION, commit=commit
        )
        return delta.open_table(uri)
    if months is None:  # another definition: other columns, all rows from scratch
        commits.overwrite(table, add_actions, table_schema, partition_by=[MONTH], commit=commit)
        return table
    replaced = [action for action in delta.actions(table) if action[f"partition.{MONTH}"] in months]
    commits.replace(table, replaced, add_actions, commit=commit)
    return table
