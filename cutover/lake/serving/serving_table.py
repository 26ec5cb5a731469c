"""The serving table: the rows of the view `serving` under one stable name, for readers of any engine.

`<lake>/<pipeline>/serving` stays where it is through stages, versions and definitions, also those of another name that
took this one's place. A publication is one commit, so whoever opens any version of the table sees each window once, as
one stage of one definition served it. It is derived: nothing is decided by it, and what another writer changes in it
the next publication writes again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError, LakeError
from cutover.events import log
from cutover.lake.control import swaps, versions
from cutover.lake.control.stages import Stage, current_stage
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.paths import serving_uri
from cutover.lake.serving import views
from cutover.lake.shown_definition import resolve_definition
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.checksums import FileDamagedError
from cutover.lake.tables.schemas import batch_schema
from cutover.quoting import identifier
from cutover.settings import Settings

MONTH = "_month"
"""Partition column: the month of a window's start, UTC, such as `2013-02`."""

_ATTEMPTS, _WAIT_SECONDS = 10, 0.5
_ROWS_A_BATCH = 100_000
_STREAM, _SHOWN = "cutover.stream", "cutover.shown"  # keys of a commit's own words
_LOOK_BACK = 20  # commits in which those words are looked for: an OPTIMIZE of somebody else has none
_WANTED, _PUBLISHED = "wanted_rows", "published_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a version of the serving table shows."""

    uri: str
    served: str  # pipeline whose rows these are
    version: int  # of the table
    stage: Stage
    epoch: int  # newest that the stream had committed; -1: none
    rows: int
    months: tuple[str, ...]  # written by this publication; empty: all of it was there
    copy: str | None = None  # the table in PostgreSQL that shows the same; None: none is asked for


class _Overtaken(Exception):  # noqa: N818 -- no error: tried again
    """Another writer published, or moved the stage, while rows were read."""


def publish(settings: Settings, pipeline: Pipeline, *, name: str | None = None, anyway: bool = False) -> Publication:
    """Let the serving table show what a name serves now, in one commit; only months that changed are written.

    Args:
        settings: Where the lake and the definitions are.
        pipeline: The definition that is served; where another one is by now, that one is loaded.
        name: The table's; None: the pipeline's own. A definition of that name need not be there any more.
        anyway: Also where rows of another stream, of more of the log, are shown: readers go back in time. And where no
            row is left of those that are shown.

    Raises:
        DefinitionError: There is no definition of the pipeline that is served.
        LakeError: It has no epoch yet, no row is left, a table cannot be read, the storage took no file, or others
            publish all the time; the table is as it was. Or the copy in PostgreSQL is: the table is newer then.
    """
    settings = versions.looking_at_served(settings)  # whichever version a command was asked to look at
    tries = Retrying(
        retry=retry_if_exception_type((_Overtaken, CommitFailedError)),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random(max=_WAIT_SECONDS),
        reraise=True,
    )
    try:
        done = tries(_try_publish, settings, pipeline, name or pipeline.name, anyway=anyway)
        return _copy(settings, name or pipeline.name, done, anyway=anyway)
    except (_Overtaken, CommitFailedError) as error:
        msg = f"Serving table of `{name or pipeline.name}`: expected to publish within {_ATTEMPTS} attempts, others "
        raise LakeError(msg + "came first.\nHint: let one process publish (`--follow`), not several.") from error


def _copy(settings: Settings, name: str, publication: Publication, *, anyway: bool) -> Publication:
    """Let the copy in PostgreSQL show what was published, where one is asked for."""
    if settings.serving.postgres is None:
        return publication
    from cutover.lake.serving import postgres_copy  # noqa: PLC0415 -- its client, for those who ask for it alone

    copy = postgres_copy.publish_copy(settings, settings.serving.postgres.get_secret_value(), name, anyway=anyway)
    return replace(publication, copy=copy.table)


def keep_up(settings: Settings, pipeline: Pipeline, *, anyway: bool = False) -> tuple[str, ...]:
    """Publish after something changed what is served, where a person asked for a table; a failure is only logged.

    Each name under which the pipeline is served has a table of its own.

    Returns:
        Names whose table could not be published, and is as it was.
    """
    try:
        names = swaps.list_names(settings, pipeline.name)
        return tuple(name for name in names if not _keep_up_name(settings, pipeline, name, anyway=anyway))
    except CutoverError as error:
        log.warning("serving_table_behind", pipeline=pipeline.name, error=error.text.partition("\n")[0])
        return (pipeline.name,)


def _keep_up_name(settings: Settings, pipeline: Pipeline, name: str, *, anyway: bool) -> bool:
    try:
        if delta.exists(serving_uri(settings, name)):
            publish(settings, pipeline, name=name, anyway=anyway)
    except CutoverError as error:
        log.warning("serving_table_behind", pipeline=name, error=error.text.partition("\n")[0])
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What of the log a version of the table shows, and by which stream."""

    stream: str  # pipeline, result fingerprint and number of the version
    topic_id: str
    offsets: Mapping[int, int]  # partition -> next offset of the stream's newest epoch

    def is_covered_by(self, record: EpochRecord) -> bool:
        """Return whether an epoch has read as much of the same log; of another log nobody can tell: True."""
        read = all(record.end.get(partition, 0) >= end for partition, end in self.offsets.items())
        return read or record.topic_id != self.topic_id


def read_shown(settings: Settings, name: str) -> Shown | None:
    """Return what the newest version of a name's table shows; None: there is no table, or another release made it.

    Raises:
        LakeError: The table cannot be read.
    """
    uri = serving_uri(settings, name)
    return _read_shown(delta.open_table(uri)) if delta.exists(uri) else None


def _read_shown(table: DeltaTable) -> Shown | None:
    known = islice(delta.history(table), _LOOK_BACK)
    said = next((entry for entry in known if _SHOWN in entry and _STREAM in entry), None)
    if said is None:
        return None
    shown = json.loads(said[_SHOWN])
    offsets = {int(partition): int(end) for partition, end in shown["cut"].items()}
    return Shown(stream=str(said[_STREAM]), topic_id=shown["topic_id"], offsets=offsets)


def _try_publish(settings: Settings, at_hand: Pipeline, name: str, *, anyway: bool) -> Publication:
    uri = serving_uri(settings, name)
    table = delta.open_table(uri) if delta.exists(uri) else None  # opened first: who commits from here on is told apart
    served = swaps.served_by(settings, name)
    pipeline = at_hand if served == at_hand.name else resolve_definition(settings, served).pipeline
    schema, stage = _schema(pipeline), current_stage(settings, pipeline)
    version = versions.current(settings, pipeline)
    if table is not None and version is not None and not anyway:
        _refuse_older(name, version, _read_shown(table))
    with closing(views.connect(settings, pipeline)) as connection:
        now = (current_stage(settings, pipeline), swaps.served_by(settings, name), versions.current(settings, pipeline))
        if now != (stage, served, version):
            raise _Overtaken
        epoch, rows = _gather(connection)
        same = table is not None and delta.read_schema(table).equals(pa.schema([*schema, pa.field(MONTH, pa.string())]))
        if table is not None and not rows and not anyway:
            _refuse_emptied(name, table)
        months = _changed_months(connection, table if same else None)
        if months or not same:
            with commits.refusing(uri):
                made = list(_write(connection, uri, schema, months))
                said = {"cutover.stage": str(stage), "cutover.epoch": str(epoch), **_describe_stream(version, epoch)}
                table = _commit(uri, schema, table, made, months if same else None, said)
    made_version = -1 if table is None else int(table.version())
    return Publication(
        uri=uri, served=served, version=made_version, stage=stage, epoch=epoch, rows=rows, months=tuple(months)
    )


def _read_records(version: Version) -> list[EpochRecord]:
    return EpochLog(version.uri).records() if delta.exists(version.uri) else []


def _refuse_older(name: str, version: Version, shown: Shown | None) -> None:
    """Refuse rows of one stream in the place of another's that had read more of the log.

    Raises:
        LakeError: They are.
    """
    if shown is not None and shown.stream == version.app_id:
        return
    records = _read_records(version)  # read before the rows, which then hold at least as much
    if records and (shown is None or shown.is_covered_by(records[-1])):
        return
    before = "what it shows" if shown is None else f"what those of {shown.stream} did"
    msg = f"Serving table of `{name}`: expected rows that hold {before}, {version.app_id} has read less of the log."
    hint = f"let its driver read on (`cutover stream {version.pipeline} --detach`) and publish again, or "
    raise LakeError(msg + f"\nHint: {hint}`cutover serve-view {name} --anyway`: readers go back in time.")


def _refuse_emptied(name: str, table: DeltaTable) -> None:
    """Reject no rows in the place of those that readers have.

    Raises:
        LakeError: There are some.
    """
    before = sum(int(action["num_records"]) for action in delta.actions(table))
    if before:
        msg = f"Serving table of `{name}`: expected rows in the place of the {before:,} that version {table.version()} "
        hint = f"the table stays as it is; `cutover serve-view {name} --anyway` publishes the empty one."
        raise LakeError(msg + f"has, got none.\nHint: {hint}")


def _describe_stream(version: Version | None, epoch: int) -> dict[str, str]:
    """Return what a commit says of the stream that it shows, and of the cut of its newest epoch."""
    if version is None:
        return {}
    found = [record.cut.to_json() for record in _read_records(version) if record.epoch == epoch]
    shown = found[0] if found else {"topic_id": "", "cut": {}}
    return {_STREAM: version.app_id, _SHOWN: json.dumps(shown, sort_keys=True)}


def _schema(pipeline: Pipeline) -> pa.Schema:
    """Return the columns of the view, as the batch table has their types."""
    schema = batch_schema(pipeline)
    own = [schema.field(name) for name in ("window_start", "window_end", *pipeline.key, *pipeline.measures)]
    return pa.schema([*own, pa.field("_served_by", pa.string()), pa.field("_state", pa.string())])


def _gather(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Keep the view's rows, each with its month; return the newest epoch and the number of rows."""
    utc = "timezone('UTC', window_start)"
    month = f"printf('%04d-%02d', year({utc}), month({utc}))"
    connection.execute(f"CREATE TEMP TABLE {_WANTED} AS SELECT *, {month} AS {MONTH} FROM serving")  # noqa: S608 -- ours
    counts = f"SELECT (SELECT coalesce(max(epoch), -1) FROM epochs), (SELECT count(*) FROM {_WANTED})"  # noqa: S608 -- ours
    epoch, rows = connection.execute(counts).fetchall()[0]
    return int(epoch), int(rows)


def _changed_months(connection: duckdb.DuckDBPyConnection, table: DeltaTable | None) -> list[str]:
    """Return the months whose rows are not those that the table holds; all where it cannot be read or has none."""
    every = f"SELECT DISTINCT {MONTH} FROM {_WANTED} ORDER BY ALL"  # noqa: S608 -- ours
    if table is None:
        return [row[0] for row in connection.execute(every).fetchall()]
    try:
        delta.bind(connection, _PUBLISHED, table)
    except FileDamagedError:
        listed = {str(action[f"partition.{MONTH}"]) for action in delta.actions(table)}
        return sorted(listed | {row[0] for row in connection.execute(every).fetchall()})
    columns = ", ".join(map(identifier, connection.sql(f"SELECT * FROM {_WANTED} LIMIT 0").columns))  # noqa: S608 -- ours
    both = (f"SELECT {columns} FROM {name}" for name in (_WANTED, _PUBLISHED))  # noqa: S608 -- quoted
    new, old = both
    apart = f"(({new}) EXCEPT ALL ({old})) UNION ALL (({old}) EXCEPT ALL ({new}))"
    changed = f"SELECT DISTINCT {MONTH} FROM ({apart}) ORDER BY ALL"  # noqa: S608 -- ours
    return [row[0] for row in connection.execute(changed).fetchall()]


def _write(
    connection: duckdb.DuckDBPyConnection, uri: str, schema: pa.Schema, months: Sequence[str]
) -> Iterator[AddAction]:
    """Write a file for each month that has rows; nobody sees it before the commit."""
    columns = ", ".join(map(identifier, schema.names))
    query = f"SELECT {columns} FROM {_WANTED} WHERE {MONTH} = ? ORDER BY ALL"  # noqa: S608 -- quoted
    for month in months:
        found = connection.sql(query, params=[month]).to_arrow_reader(_ROWS_A_BATCH)
        batches = (batch.cast(schema) for batch in found if batch.num_rows)
        first = next(batches, None)
        if first is not None:
            rows = pa.RecordBatchReader.from_batches(schema, _chain(first, batches))
            yield data_files.stream(uri, rows, checksums.new_stem("serving"), partition={MONTH: month})


def _chain(record_batch: pa.RecordBatch, record_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield record_batch
    yield from record_batches


def _commit(
    uri: str,
    schema: pa.Schema,
    table: DeltaTable | None,
    add_actions: Sequence[AddAction],
    months: Sequence[str] | None,
    words: dict[str, str],
) -> DeltaTable:
    """List new files in the place of those of some months, or of all (`months` is None), as the next version.

    Raises:
        CommitFailedError: Another writer made that version.
    """
    commit = CommitProperties(custom_metadata=words, max_commit_retries=0)
    own = Schema.from_arrow(pa.schema([*schema, pa.field(MONTH, pa.string())]))
    if table is None:
        if delta.exists(uri):
            raise _Overtaken
        commits.create(uri, add_actions, own, partition_by=[MONTH], configuration=delta.CONFIGURATION, commit=commit)
        return delta.open_table(uri)
    if months is None:  # another definition: other columns, all rows from scratch
        commits.overwrite(table, add_actions, own, partition_by=[MONTH], commit=commit)
        return table
    gone = [action for action in delta.actions(table) if action[f"partition.{MONTH}"] in months]
    commits.replace(table, gone, add_actions, commit=commit)
    return table
