"""DuckDB views of one pipeline for readers, bound to one version and its stage, without a JVM.

Views: `serving` (served rows, and the side that serves them), `streaming` (fold of the epoch log), `batch`, `ledger`,
`batch_ledger` (each record that did not count, by position), `epochs` (one row per epoch), `panes` (results that were
emitted of each window, and when; empty if the definition has no trigger). In `serving` and `streaming`, `_state` is the
state of the window: `open`, `final`, or `incomplete` with a reason: lost, doubled, expired.

A range of event time where rows may be missing affects the windows inside it, and all sessions that it touches: a
missing row may belong to each of them and may merge two of them. Ranges of sessions extend by the gap after the last
row that may be missing.

If the log was recreated or rewritten, the current version cannot read the lost records again. Of each window that they
affect, the version that counted more records is served, so that no window disappears or shrinks; its state is
`incomplete(lost)`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.definition.windows.kinds import can_merge
from cutover.definition.windows.window_fn import Interval, WindowFn
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import Starts
from cutover.lake.control.served import current_stage
from cutover.lake.control.versions import Version
from cutover.lake.epochs import delivery
from cutover.lake.epochs.delivery import DOUBLED, DeliveryFaults
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord, epoch_rows
from cutover.lake.integrity import table_weights
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema, batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.records.fold import finish_columns, finish_sql, make_finishable
from cutover.records.watermark import is_closed_sql

_LEDGER = """
    SELECT _class, window_start, window_end, {keys}, _epoch, position.partition AS _partition,
           position."offset" AS _offset, position.event_time AS event_time, position.reason AS reason
    FROM (SELECT *, unnest(_positions) AS position FROM {table} WHERE _positions IS NOT NULL)
"""


def is_affected_sql(window: WindowFn, ranges: Iterable[Range]) -> str:
    """Return DuckDB's condition over `window_start` and `window_end` that one of the ranges affects a window."""
    start, end = "epoch_us(window_start)", "epoch_us(window_end)"
    if window.merges:
        return " OR ".join(f"({start} <= {int(b)} AND {end} >= {int(a)})" for a, b in ranges) or "false"
    return " OR ".join(f"({start} >= {int(a)} AND {end} <= {int(b)})" for a, b in ranges) or "false"


def is_affected(window: WindowFn, interval: Interval, ranges: Iterable[Range]) -> bool:
    """Return whether a range contains a window entirely, or touches a session."""
    if window.merges:
        return any(can_merge(interval, Interval(*span)) for span in ranges)
    return any(start <= interval.start and interval.end <= end for start, end in ranges)


def list_earlier(lake: PipelineLake, version: Version) -> list[Version]:
    """List the versions that read records which the log of a version no longer holds, newest first."""
    accepted, lateness = losses.list_up_to(lake.settings, version), lateness_fingerprint(lake.pipeline)
    candidates = {
        version.number: version
        for version in versions.list_stream_versions(lake)
        if version.lateness_fingerprint == lateness and not version.parallel
    }
    return list(_follow(candidates, accepted, version.number))


def _follow(candidates: dict[int, Version], losses: Sequence[Loss], number: int) -> Iterator[Version]:
    while any(loss.stream_version == number and _is_of_another_log(loss) for loss in losses):
        previous = max((n for n in candidates if n < number), default=None)
        if previous is None:
            return
        yield candidates[previous]
        number = previous


def _is_of_another_log(loss: Loss) -> bool:
    """Return whether the previous version read another log; otherwise its own table was broken, and is not used."""
    return loss.kind == "anew" and (loss.again or loss.topic_id != loss.onward_topic_id)


def bind_served_rows(
    connection: duckdb.DuckDBPyConnection, lake: PipelineLake, version: Version, *, is_lost: str
) -> str:
    """Return the relation of the rows that the streaming side serves.

    Args:
        connection: Has the view `streaming` of the version.
        lake: Pipeline that is served.
        version: The current version.
        is_lost: Condition that recorded losses affect a window.
    """
    relation = "streaming"
    for earlier in list_earlier(lake, version):
        name = f"lost_{earlier.number}"
        if _bind_lost(connection, lake.pipeline, earlier, name=name, is_lost=is_lost):
            connection.execute(f"CREATE TEMP VIEW {name}_served AS {_merge_sql(lake.pipeline, relation, name)}")
            relation = f"{name}_served"
    return relation


def _bind_lost(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, earlier: Version, *, name: str, is_lost: str
) -> bool:
    """Read the affected windows of an earlier version; return False if its table can no longer be read."""
    try:
        epochs = EpochLog(earlier.uri)
        newest = epochs.newest()
        if newest is None:
            return False
        epochs.relation(connection, f"{name}_log", epoch=newest.epoch)
        rows = f"SELECT * FROM ({finish_sql(pipeline, f'{name}_log')}) WHERE {is_lost}"  # noqa: S608 -- ours
        connection.execute(f"CREATE TEMP TABLE {name} AS {rows}")
    except (LakeError, duckdb.Error) as error:
        log.warning("earlier_version_unreadable", version=earlier.app_id, error=str(error).partition("\n")[0])
        return False
    return True


def _merge_sql(pipeline: Pipeline, relation: str, earlier: str) -> str:
    """Return the query of a relation's rows, with the windows of an earlier version of which it holds fewer records.

    Of sessions, those of the earlier version are added that touch no session of the same key.
    """
    columns = ", ".join(map(identifier, ("window_start", "window_end", *pipeline.key, *pipeline.measures, "_n")))
    newer, older = f"SELECT {columns} FROM {relation} AS newer", f"SELECT {columns} FROM {earlier} AS older"  # noqa: S608 -- quoted
    if pipeline.window.merges:
        same_key = (f"r.{key} IS NOT DISTINCT FROM older.{key}" for key in map(identifier, pipeline.key))
        touches = " AND ".join(("r.window_start <= older.window_end AND older.window_start <= r.window_end", *same_key))
        return f"{newer} UNION ALL {older} WHERE NOT EXISTS (SELECT 1 FROM {relation} AS r WHERE {touches})"  # noqa: S608 -- quoted
    totals = "SELECT window_start, sum(_n) AS records FROM {} GROUP BY window_start"
    larger = (
        f"SELECT window_start FROM ({totals.format(earlier)}) AS before"  # noqa: S608 -- ours
        f" LEFT JOIN ({totals.format(relation)}) AS since USING (window_start)"
        " WHERE before.records > coalesce(since.records, 0)"
    )
    return f"{newer} WHERE window_start NOT IN ({larger}) UNION ALL {older} WHERE window_start IN ({larger})"


def open_views(lake: PipelineLake, *, epoch: int | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection with the pipeline's views.

    Args:
        lake: Pipeline that is served.
        epoch: The stream's views show its commits up to this epoch; None: up to the newest epoch.

    Raises:
        DefinitionError: The epoch does not exist.
        LakeError: The pipeline has no epoch yet, the epoch was folded into later ones, or a table cannot be read.
    """
    pipeline = lake.pipeline
    version = table_weights.check_epoch_log(lake, versions.find_current_version(lake))
    connection = queries.open_duckdb(queries.make_reader_limits(lake.settings))
    epoch_log = EpochLog(version.uri)
    records = _read_records(pipeline, epoch_log, epoch)
    newest = records[-1] if records else None
    epoch_log.relation(connection, "epoch_log", epoch=-1 if newest is None else newest.epoch)
    watermark = None if newest is None else newest.watermark_after
    # Read once: a run that finishes meanwhile has computed windows that the version bound here does not have.
    runs = [run for run in batch_runs.read_effective_runs(lake) if run.batch_version is not None]
    evidence = _Evidence(
        watermark=watermark,
        lost=losses.find_touched_windows(losses.list_up_to(lake.settings, version)),
        delivered=delivery.find_delivery_faults(records, delivery.read_attempts(epoch_log, records)),
        runs=runs,
    )
    states = _make_states(pipeline, evidence)
    folded = finish_sql(pipeline, "epoch_log")
    connection.execute(f"CREATE TEMP VIEW streaming AS SELECT *, {states.streaming} AS _state FROM ({folded})")  # noqa: S608
    keys = ", ".join(identifier(key) for key in pipeline.key)
    connection.execute(f"CREATE TEMP VIEW ledger AS {_LEDGER.format(keys=keys, table='epoch_log')}")
    connection.register("epochs", epoch_rows(records))
    epoch_log.panes(connection, "pane_rows", epoch=-1 if newest is None else newest.epoch)
    connection.execute(f"CREATE TEMP VIEW panes AS {panes_sql(pipeline, 'pane_rows')}")
    _bind_batch(connection, lake, runs)
    connection.execute(f"CREATE TEMP VIEW batch_ledger AS {_LEDGER.format(keys=keys, table='batch_ledger_rows')}")
    connection.register("batch_held", _list_ranges(batch_runs.list_held_ranges(runs)))
    repaired = [span for run in runs if run.repair is not None for span in run.computed]
    connection.register("batch_repaired", _list_ranges(repaired))
    rows = bind_served_rows(connection, lake, version, is_lost=states.is_lost)
    connection.execute(f"CREATE TEMP VIEW serving AS {_query_serving(lake, states, rows)}")
    return connection


def _read_records(pipeline: Pipeline, epoch_log: EpochLog, epoch: int | None) -> list[EpochRecord]:
    """Read the records of all epochs up to one."""
    records = epoch_log.records()
    if epoch is None:
        return records
    selected = [record for record in records if record.epoch <= epoch]
    if not selected or selected[-1].epoch != epoch:
        existing = f"0 to {records[-1].epoch}" if records else "none yet"
        msg = f"Epoch of `{pipeline.name}`: expected an existing one ({existing}), got {epoch}."
        raise DefinitionError(msg)
    if delivery.find_folded_classes(epoch_log, selected):
        msg = f"Epoch {epoch} of `{pipeline.name}`: expected separate rows, they were folded into later epochs."
        raise LakeError(msg + "\nHint: a savepoint protects an epoch from being folded; choose a later epoch.")
    return selected


def panes_sql(pipeline: Pipeline, relation: str) -> str:
    """Return the query of the view `panes` over rows of the epoch log.

    Columns: window, key, measures, and the attributes of each pane; a retraction has the values that it withdraws.
    """
    attributes = {
        "_pane": "_class",
        "_timing": "_record->>'$.timing'",
        "_index": "CAST(_record->>'$.index' AS bigint)",
        "_processing_time": "make_timestamptz(CAST(_record->>'$.processing_time' AS bigint))",
        "_epoch": "_epoch",
        "_order": "CAST(_record->>'$.order' AS bigint)",
        "_n": "_n",
    }
    plain = (identifier(name) for name in ("window_start", "window_end", *pipeline.key))
    finished = finish_columns(pipeline)
    columns = [*plain, *(finished[name] for name in pipeline.measures)]
    columns += [f"{text} AS {identifier(name)}" for name, text in attributes.items()]
    return f"SELECT {', '.join(columns)} FROM {make_finishable(pipeline, relation)}"  # noqa: S608 -- quoted


def _bind_batch(connection: duckdb.DuckDBPyConnection, lake: PipelineLake, runs: Sequence[BatchRun]) -> None:
    if not runs:
        connection.register("batch", batch_schema(lake.pipeline).empty_table())
        connection.register("batch_ledger_rows", batch_ledger_schema(lake.pipeline).empty_table())
    else:
        delta.relation(connection, "batch", lake.batch_uri(), version=runs[-1].batch_version)
        ledger = lake.batch_uri("batch_ledger")
        delta.relation(connection, "batch_ledger_rows", ledger, version=runs[-1].ledger_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _States:
    """SQL of the state of a window, by the side that serves it: open, final, incomplete(lost, doubled or expired)."""

    streaming: str
    streaming_in_lambda: str  # of windows that batch does not have
    batch: str
    is_lost: str  # condition: records of the window may have been lost by the log


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Facts that determine the state of windows."""

    watermark: int | None
    lost: Sequence[Starts]  # window starts that recorded losses touch
    delivered: DeliveryFaults
    runs: Sequence[BatchRun]


def _make_states(pipeline: Pipeline, evidence: _Evidence) -> _States:
    """Return the states of both sides; in LAMBDA, windows that expired for batch are incomplete on both."""
    start, lost_windows = "epoch_us(window_start)", evidence.lost
    is_lost = " OR ".join(f"({start} >= {int(a)} AND {start} < {int(b)})" for a, b in lost_windows) or "false"
    if pipeline.window.merges:
        is_lost = is_affected_sql(pipeline.window, ((a, b - 1) for a, b in lost_windows))
    entries = [entry for run in evidence.runs[-1:] for entry in run.incomplete if entry.reason == batch_runs.EXPIRED]
    is_expired = is_affected_sql(pipeline.window, ((entry.window_start, entry.window_end) for entry in entries))
    is_doubled = is_affected_sql(pipeline.window, evidence.delivered.doubled_windows)
    is_missing = is_affected_sql(pipeline.window, evidence.delivered.lost_windows)
    when_lost = f"CASE WHEN {is_lost} THEN 'incomplete({batch_runs.LOST})'"
    when_misdelivered = f"WHEN {is_missing} THEN 'incomplete({batch_runs.LOST})'"
    when_misdelivered += f" WHEN {is_doubled} THEN 'incomplete({DOUBLED})'"
    when_expired = f"WHEN {is_expired} THEN 'incomplete({batch_runs.EXPIRED})'"
    otherwise = f"WHEN {is_closed_sql(pipeline, evidence.watermark)} THEN 'final' ELSE 'open' END"
    return _States(
        streaming=f"{when_lost} {when_misdelivered} {otherwise}",
        streaming_in_lambda=f"{when_lost} {when_misdelivered} {when_expired} {otherwise}",
        batch=f"{when_lost} {when_expired} {otherwise}",
        is_lost=f"({is_lost})",
    )


def _query_serving(lake: PipelineLake, states: _States, rows_of_stream: str) -> str:
    """Return the query of the view: in LAMBDA each window that batch has from batch, other windows from the stream.

    Batch computes up to its horizon, except windows that a run over a range left out. In the other stages only these
    windows come from batch: those that a person repaired, and those whose records the log has lost since batch computed
    them, because a new version of the stream cannot read them again. `rows_of_stream` is the relation of the stream.
    """
    pipeline = lake.pipeline
    columns = ", ".join(identifier(c) for c in ("window_start", "window_end", *pipeline.key, *pipeline.measures))
    is_lambda = current_stage(lake) is Stage.LAMBDA
    repaired = "false" if pipeline.window.merges else _is_inside_sql("batch_repaired")  # sessions are not repaired
    computed = _is_inside_sql("batch_held")
    from_batch = computed if is_lambda else f"({computed} AND ({repaired} OR {states.is_lost}))"
    by = "'batch'" if is_lambda else f"CASE WHEN {repaired} THEN 'repair' ELSE 'batch' END"
    state = states.streaming_in_lambda if is_lambda else states.streaming
    streaming = f"SELECT {columns}, 'streaming' AS _served_by, {state} AS _state"
    streaming += f" FROM {rows_of_stream} AS streaming"
    batch = f"SELECT {columns}, {by} AS _served_by, {states.batch} AS _state FROM batch"  # noqa: S608 -- quoted
    if pipeline.window.merges:  # an open session may contain a session of batch
        same_key = " AND ".join(
            f"b.{key} IS NOT DISTINCT FROM streaming.{key}" for key in map(identifier, pipeline.key)
        )
        touches = "b.window_start <= streaming.window_end AND streaming.window_start <= b.window_end"
        rows = "batch" if is_lambda else f"(SELECT * FROM batch WHERE {from_batch})"  # noqa: S608 -- quoted
        batch = f"SELECT {columns}, {by} AS _served_by, {states.batch} AS _state FROM {rows}"  # noqa: S608 -- quoted
        streaming += f" WHERE NOT EXISTS (SELECT 1 FROM {rows} b WHERE {touches} AND {same_key}) AND NOT {from_batch}"  # noqa: S608 -- quoted
        return f"{batch} UNION ALL {streaming}"
    return f"{batch} WHERE {from_batch} UNION ALL {streaming} WHERE NOT {from_batch}"


def _is_inside_sql(ranges: str) -> str:
    """Return the condition that a window lies entirely inside one of the ranges of a relation."""
    return (
        f"EXISTS (SELECT 1 FROM {ranges} AS span"  # noqa: S608 -- internal names
        " WHERE epoch_us(window_start) >= span.first AND epoch_us(window_end) <= span.last)"
    )


def _list_ranges(ranges: Iterable[Range]) -> pa.Table:
    """Return distinct ranges of windows, `first` and `last` in microseconds."""
    distinct = sorted(set(ranges))
    ends = {"first": [start for start, _ in distinct], "last": [end for _, end in distinct]}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in ends.items()})
