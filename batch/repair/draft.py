"""Draft of a repair: rows that were computed and compared with the served ones, but not published, in their own folder.

`<lake>/<pipeline>/<result fingerprint>/repairs/<id>/`. Its record is written last, so a folder without one was left by
a killed process. The folder stays once the repair is published: it holds the rows that were served until then. The rows
are compared with those of batch and stream that are served, without Spark.
"""

# ruff: noqa: S608 -- every name in a query is quoted or ours

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

import duckdb
import pyarrow as pa
from pyarrow import fs

from cutover import json_text
from cutover.batch.read.index import inside_sql
from cutover.batch.write.publish import RunOutput
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries, storage
from cutover.errors import LakeError
from cutover.json_text import EXACT
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.serving import views
from cutover.lake.tables import checksums, data_files, schemas
from cutover.lake.tables.schemas import BATCH_INDEX, batch_ledger_schema, batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.records.watermark import compute_closing_watermark

FOLDER, RECORD = "repairs", "draft.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairDraft:
    """Rows that a repair would publish, with the state in which they were computed."""

    __pydantic_config__ = EXACT
    run: BatchRun  # as it would be recorded; its id is that of the repair
    windows: tuple[Range, ...]
    newest_run: str | None  # on which it builds
    stage: str
    losses: int  # accepted so far
    code: str  # digest of the code that determines results
    created: str  # ISO 8601
    expires: str
    sequence: int = 0  # place among the drafts that existed when it was created
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # served, batch, streaming -> kind -> rows
    served_from: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)  # content -> path in the folder

    @property
    def repair_id(self) -> str:
        """32 hex digits: also the id of the run that publishes it."""
        return self.run.run_id

    @property
    def differing(self) -> int:
        """Count the served rows that would change, be added or be removed."""
        return count_differing(self.counts.get("served", {}))

    @classmethod
    def from_json(cls, text: bytes, place: str) -> Self:
        """Parse the record of a draft.

        Raises:
            LakeError: It is no such record.
        """
        try:
            return json_text.parse_dataclass(cls, text)
        except ValueError as error:
            msg = f"Draft of a repair `{place}`: expected the fields of this release as JSON, got another text: {error}"
            hint = "\nHint: make a new draft with `--window`, or discard this one with `--undo --id`."
            raise LakeError(msg + hint, runbook="TableUnreadable") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDrafts:
    """Unpublished drafts, by id."""

    readable: Mapping[str, RepairDraft]  # oldest first
    unreadable: Mapping[str, LakeError]  # error of the record

    @property
    def next_sequence(self) -> int:
        """Sequence of the next draft, after all readable ones."""
        return 1 + max((draft.sequence for draft in self.readable.values()), default=-1)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all drafts, readable ones first."""
        return (*self.readable, *self.unreadable)

    def get(self, repair_id: str) -> RepairDraft:
        """Return one of them.

        Raises:
            LakeError: Its record is not one of this release.
        """
        if repair_id in self.unreadable:
            raise self.unreadable[repair_id]
        return self.readable[repair_id]


def count_differing(kinds: Mapping[str, int]) -> int:
    """Count the rows that differ between both sides."""
    return sum(count for kind, count in kinds.items() if kind != "same")


def draft_folder(lake: PipelineLake, repair_id: str) -> str:
    """Return the folder of the files of a repair, which need not exist."""
    return f"{lake.version_uri()}/{FOLDER}/{repair_id}"


def write_draft_rows(uri: str, tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """Write tables as files that are named by their checksum; return their names.

    Raises:
        LakeError: The storage cannot be written.
    """
    try:
        return {
            name: data_files.write_data_file(uri, rows, checksums.new_stem(name)).path for name, rows in tables.items()
        }
    except OSError as error:
        raise _make_write_error(uri, error) from error


def read_draft_rows(uri: str, file: str) -> pa.Table:
    """Return the rows of a file of a repair.

    Raises:
        FileDamagedError: It is missing, or its content has changed.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only lists need not pay

    system, root = storage.resolve_uri(uri)
    checksums.check_stored_file(system, root, file, place=f"Repair `{uri}`")
    return pq.read_table(f"{root}/{file}", filesystem=system, partitioning=None)


def save_draft(lake: PipelineLake, draft: RepairDraft) -> None:
    """Write the record of a draft, which makes it valid.

    Raises:
        LakeError: The storage cannot be written.
    """
    uri = draft_folder(lake, draft.repair_id)
    system, root = storage.resolve_uri(uri)
    try:
        system.create_dir(root, recursive=True)
        with system.open_output_stream(f"{root}/{RECORD}.new") as stream:
            stream.write(json_text.encode_dataclass(draft).encode())
        system.move(f"{root}/{RECORD}.new", f"{root}/{RECORD}")
    except OSError as error:
        raise _make_write_error(uri, error) from error


def find_waiting(lake: PipelineLake, recorded_ids: Collection[str]) -> WaitingDrafts:
    """Return the drafts under the definition's result fingerprint that no recorded run has published.

    The record of a published one is no longer read: its run contains the same facts.
    """
    system, root = storage.resolve_uri(f"{lake.version_uri()}/{FOLDER}")
    readable, unreadable = list[RepairDraft](), dict[str, LakeError]()
    for info in _list_folder(system, root):
        if info.base_name not in recorded_ids:
            try:
                draft = _read_record(system, info.path)
            except LakeError as error:
                unreadable[info.base_name] = error
            else:
                readable += [] if draft is None else [draft]
    ordered = sorted(readable, key=lambda draft: (draft.sequence, draft.repair_id))
    return WaitingDrafts(readable={draft.repair_id: draft for draft in ordered}, unreadable=unreadable)


def _read_record(system: fs.FileSystem, place: str) -> RepairDraft | None:
    """Return the draft of a folder; None if it has no record.

    Raises:
        LakeError: Its record is not one of this release.
    """
    record = f"{place}/{RECORD}"
    if system.get_file_info(record).type is not fs.FileType.File:
        return None
    with system.open_input_stream(record) as stream:
        return RepairDraft.from_json(stream.read(), record)


def list_other_definitions(lake: PipelineLake) -> list[str]:
    """Return the ids of repairs that lie under another result fingerprint of the pipeline."""
    own_uri = lake.version_uri()
    system, root = storage.resolve_uri(f"{lake.settings.lake_uri}/{lake.name}")
    other_folders = (info.path for info in _list_folder(system, root) if not own_uri.endswith(f"/{info.base_name}"))
    return [info.base_name for path in other_folders for info in _list_folder(system, f"{path}/{FOLDER}")]


def discard(lake: PipelineLake, repair_id: str) -> None:
    """Remove the folder of an unpublished draft."""
    system, root = storage.resolve_uri(draft_folder(lake, repair_id))
    if system.get_file_info(root).type is fs.FileType.Directory:
        system.delete_dir(root)


def discard_expired(lake: PipelineLake, recorded_ids: Sequence[str], now: datetime) -> None:
    """Remove drafts that can no longer be published, including those of another release, and files of killed processes.

    Args:
        lake: Pipeline whose drafts are removed.
        recorded_ids: Ids of recorded runs, in their order: their folders stay.
        now: Drafts that expire by then are removed, except those that build on the newest run: a clock may be ahead.
    """
    system, root = storage.resolve_uri(f"{lake.version_uri()}/{FOLDER}")
    for info in _list_folder(system, root):
        if info.base_name not in recorded_ids and not _is_current(
            system, info.path, now, newest=next(reversed(recorded_ids), None)
        ):
            system.delete_dir(info.path)


def _is_current(system: fs.FileSystem, place: str, now: datetime, *, newest: str | None) -> bool:
    try:
        draft = _read_record(system, place)
    except LakeError:
        return False
    return draft is not None and (draft.newest_run == newest or datetime.fromisoformat(draft.expires) > now)


def to_files(run_output: RunOutput) -> dict[str, pa.Table]:
    """Return the tables that a draft stores of a run, by name."""
    return {"rows": run_output.rows, "ranges": run_output.ranges, "ledger": run_output.ledger}


def to_output(lake: PipelineLake, run: BatchRun, draft: RepairDraft, *, began: float) -> RunOutput:
    """Read the output of a draft, in the columns and types of the tables.

    Args:
        lake: Pipeline that the draft repairs.
        run: As it is to be recorded.
        draft: The draft with the files of the rows.
        began: Monotonic seconds at the beginning of the publication.

    Raises:
        FileDamagedError: A file of the draft is missing or was changed.
    """
    uri = draft_folder(lake, draft.repair_id)
    schemas = {"rows": batch_schema(lake.pipeline), "ranges": BATCH_INDEX, "ledger": batch_ledger_schema(lake.pipeline)}
    tables = {name: read_draft_rows(uri, draft.files[name]).cast(schema) for name, schema in schemas.items()}
    return RunOutput(
        run=run,
        replaced=draft.run.computed,
        began=began,
        rows=tables["rows"],
        ranges=tables["ranges"],
        ledger=tables["ledger"],
    )


def to_fields(draft: RepairDraft) -> dict[str, object]:
    """Return the fields that a script may rely on."""
    return {
        "id": draft.repair_id,
        "epoch": draft.run.epoch,
        "stage": draft.stage,
        "windows": [list(span) for span in draft.windows],
        "would_change": draft.differing,
        "counts": json.loads(json.dumps(draft.counts)),
        "served_from": draft.served_from,
        "created": draft.created,
        "expires": draft.expires,
    }


def _list_folder(system: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    if system.get_file_info(path).type is not fs.FileType.Directory:
        return []
    file_info = system.get_file_info(fs.FileSelector(path))
    return sorted((info for info in file_info if info.type is fs.FileType.Directory), key=lambda info: info.path)


def _make_write_error(uri: str, error: OSError) -> LakeError:
    msg = f"Repair `{uri}`: expected a place that can be written, got: {str(error).splitlines()[0]}."
    return LakeError(msg + "\nHint: nothing was published; check the free space.", runbook="DiskHeadroomLow")


SIDES = ("served", "batch", "streaming")
_VIEWS = {"served": "serving", "batch": "batch", "streaming": "streaming"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairEffect:
    """Kind of change of each (window, key) of some windows."""

    counts: dict[str, dict[str, int]]  # served, batch, streaming -> same, changed, added, removed
    changes: pa.Table  # served rows that would change: window, key, `_change`, `old_<n>`, `new_<n>` of measure n
    served: pa.Table  # all that is served: window, key, measures, `_served_by`, `_state`, `_change`, `_served_from`
    batch_rows: pa.Table  # the batch table's own rows
    served_from: str | None  # ISO 8601


def compute_effect(lake: PipelineLake, rows: pa.Table, ranges: Sequence[Range]) -> RepairEffect:
    """Compare rows that were computed with what the tables hold of the same windows now.

    Args:
        lake: Pipeline whose tables are compared.
        rows: In the batch table's columns.
        ranges: The windows that lie wholly inside one of these.

    Raises:
        LakeError: A table cannot be read.
    """
    with views.open_views(lake) as connection:
        connection.register("computed_rows", rows)
        counts = {}
        for side in SIDES:
            connection.execute(
                f"CREATE TEMP TABLE {side}_rows AS SELECT * FROM {_VIEWS[side]} WHERE {inside_sql(ranges)}"
            )
            connection.execute(f"CREATE TEMP TABLE {side}_joined AS {_join_sql(lake.pipeline, side)}")
            query = f"SELECT _change, count(*) FROM {side}_joined GROUP BY ALL ORDER BY ALL"
            counts[side] = {str(kind): int(count) for kind, count in connection.execute(query).fetchall()}
        served = _read_served(connection, lake)
        return RepairEffect(
            counts=counts,
            changes=queries.query_table(connection, _changes_sql(lake.pipeline)),
            served=served,
            batch_rows=_read_before(connection, lake.pipeline),
            served_from=min((at for at in served["_served_from"].to_pylist() if at is not None), default=None),
        )


def read_served(lake: PipelineLake, ranges: Sequence[Range]) -> pa.Table:
    """Return what is served now of some windows: window, key, measures, `_served_by`."""
    with views.open_views(lake) as connection:
        columns = ", ".join([*_names(lake.pipeline), "_served_by"])
        return queries.query_table(connection, f"SELECT {columns} FROM serving WHERE {inside_sql(ranges)}")


def have_equal_rows(pipeline: Pipeline, table: pa.Table, second: pa.Table) -> bool:
    """Return whether two tables hold the same rows, in any order; NaN is itself."""
    columns = ", ".join([*_names(pipeline), "_served_by"])
    with queries.open_duckdb() as connection:
        connection.register("first_rows", table)
        connection.register("second_rows", second)
        pairs = (("first_rows", "second_rows"), ("second_rows", "first_rows"))
        sides = (f"(SELECT {columns} FROM {a} EXCEPT ALL SELECT {columns} FROM {b})" for a, b in pairs)
        counts = connection.execute(f"SELECT count(*) FROM ({' UNION ALL '.join(sides)})").fetchall()
        return bool(counts[0][0] == 0)


def _names(pipeline: Pipeline) -> list[str]:
    return [identifier(name) for name in ("window_start", "window_end", *pipeline.key, *pipeline.measures)]


def _join_sql(pipeline: Pipeline, side: str) -> str:
    """Return the query that joins each computed row with that of a side: `old_<n>`, `new_<n>` of measure n."""
    on = " AND ".join(f"o.{key} IS NOT DISTINCT FROM n.{key}" for key in _key(pipeline))
    key = ", ".join(f"CASE WHEN n.__there THEN n.{key} ELSE o.{key} END AS {key}" for key in _key(pipeline))
    measures = [identifier(name) for name in pipeline.measures]
    differ = " OR ".join(f"o.{name} IS DISTINCT FROM n.{name}" for name in measures)
    values = [f"o.{name} AS old_{i}, n.{name} AS new_{i}" for i, name in enumerate(measures)]
    kind = "CASE WHEN o.__there IS NULL THEN 'added' WHEN n.__there IS NULL THEN 'removed'"
    return (
        f"SELECT {key}, {kind} WHEN {differ} THEN 'changed' ELSE 'same' END AS _change, {', '.join(values)}"
        f" FROM (SELECT *, true AS __there FROM {side}_rows) o"
        f" FULL JOIN (SELECT *, true AS __there FROM computed_rows) n ON {on}"
    )


def _key(pipeline: Pipeline) -> list[str]:
    return [identifier(name) for name in ("window_start", "window_end", *pipeline.key)]


def _changes_sql(pipeline: Pipeline) -> str:
    return f"SELECT * FROM served_joined WHERE _change <> 'same' ORDER BY {', '.join(_key(pipeline))}"


def _read_before(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> pa.Table:
    schema = schemas.batch_schema(pipeline)
    columns = ", ".join(identifier(name) for name in schema.names)
    return queries.query_table(connection, f"SELECT {columns} FROM batch_rows ORDER BY ALL").cast(schema)


def _read_served(connection: duckdb.DuckDBPyConnection, lake: PipelineLake) -> pa.Table:
    """Return every row that is or would be served, with its kind of change and when its serving began."""
    served_from = _list_served_from(connection, lake)
    connection.register("since", served_from)
    on = " AND ".join(f"j.{key} IS NOT DISTINCT FROM s.{key}" for key in _key(lake.pipeline))
    key = ", ".join(f"j.{key}" for key in _key(lake.pipeline))
    measures = "".join(f", s.{identifier(name)}" for name in lake.pipeline.measures)
    query = (
        f"SELECT {key}{measures}, s._served_by, s._state, j._change, since._served_from FROM served_joined j"
        f" LEFT JOIN served_rows s ON {on} LEFT JOIN since ON epoch_us(s.window_start) = since._start"
        f" AND epoch_us(s.window_end) = since._end AND s._served_by = since._by ORDER BY {key}"
    )
    return queries.query_table(connection, query)


def _list_served_from(connection: duckdb.DuckDBPyConnection, lake: PipelineLake) -> pa.Table:
    """Return the time from which each window's answer has been served.

    A result of batch is served from its run on, one of the stream from its closing on, a row that an undo restored from
    the undo on.
    """
    query = "SELECT DISTINCT epoch_us(window_start), epoch_us(window_end), _served_by FROM served_rows ORDER BY ALL"
    windows = [(int(a), int(b), str(by)) for a, b, by in connection.execute(query).fetchall()]
    wrote = {run.run_id: run.computed for run in batch_runs.read_recorded_runs(lake)}
    runs = [
        (run.finished, wrote.get(run.undoes or "", run.computed))
        for run in batch_runs.read_effective_runs(lake)
        if run.batch_version is not None
    ]
    version = versions.find_current_version(lake)
    records = [] if version is None else EpochLog(version.uri).records()
    marks = [(r.watermark_after, r.processing_time) for r in records if r.watermark_after is not None]

    def since(start: int, end: int, by: str) -> str | None:
        if by != "streaming":
            finish_times = (at for at, spans in reversed(runs) if any(a <= start and end <= b for a, b in spans))
            return next(finish_times, None)  # of the run over it that was recorded last
        at = bisect_left(
            marks,
            compute_closing_watermark(lake.pipeline.window, lake.pipeline.lateness, end),
            key=lambda mark: mark[0],
        )
        return marks[at][1] or None if at < len(marks) else None

    names = ("_start", "_end", "_by")
    rows = [{**dict(zip(names, window, strict=True)), "_served_from": since(*window)} for window in windows]
    kinds: dict[str, pa.DataType] = {
        "_start": pa.int64(),
        "_end": pa.int64(),
        "_by": pa.string(),
        "_served_from": pa.string(),
    }
    return pa.Table.from_pylist(rows, schema=schemas.make_arrow_schema(kinds))
