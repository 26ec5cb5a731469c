"""Explanation of one (window, key): both values, the difference, and the records that cause it, with their offsets."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import duckdb

from cutover.counts import count_noun
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures.kinds import Count
from cutover.definition.model.joins import Join
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval, select_last_window
from cutover.engine.queries import query_table
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.journal_rows import Loss
from cutover.lake.serving.views import is_affected
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.attribution import cells, log_rows
from cutover.reconcile.attribution.attribution import attribute_causes
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.comparison.batch_job import compare_jobs
from cutover.reconcile.comparison.digests import MEMBERS
from cutover.reconcile.comparison.layout import COMPONENT, SharedTable, additive
from cutover.reconcile.comparison.sides import Sides, open_sides, state_of
from cutover.reconcile.preconditions import seal
from cutover.reconcile.preconditions.log_state import describe_touching
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result.codec import Scalar, encode_tree, scalar
from cutover.reconcile.result.finding import CellStep
from cutover.reconcile.result.parts import JobTable
from cutover.records.fold import select_pairs_sql
from cutover.records.reading.scan import Offsets
from cutover.timestamps import format_micros, to_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Value of one measure on both sides."""

    measure: str
    streaming: Scalar
    batch: Scalar
    difference: Scalar  # for times in seconds, as text; None for values that cannot be subtracted, see `cause`
    cause: str | None  # None: the sides are equal
    steps: tuple[CellStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedRecord:
    """Record that did not count."""

    class_: str
    partition: int
    offset: int
    event_time: str | None
    epoch: int
    reason: str | None
    watermark: str | None  # ISO; the epoch's watermark, by which its records were late or not


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedIn:
    """Number of records that counted, by the epoch that read them (or the fold that merged it)."""

    epoch: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOf:
    """Session of one side, among those that are compared together."""

    side: str  # streaming or batch
    start: str
    end: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostPair:
    """Pairs of an interval join with the same ids and times that the streaming side lacks."""

    left_time: str  # event time of the left row
    right_time: str
    ids: Mapping[str, Scalar]  # names in a pair -> ids of both rows; empty if the join names none
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellConditions:
    """SQL conditions that select the explained cell in a side, in the ledger and in the epoch log."""

    row: str
    ledger: str
    partials: str
    interval: Interval  # the window; for sessions the component


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explanation of one cell at a cut."""

    pipeline: str
    window_start: str
    key: Mapping[str, Scalar]
    epoch: int  # the cut's
    state: str  # closed, open or incomplete(lost); for sessions: of all that overlap
    values: tuple[Measured, ...]
    rows: tuple[UncountedRecord, ...]
    counted: tuple[CountedIn, ...]
    sessions: tuple[SessionOf, ...] = ()  # overlapping ones of both sides
    lost_pairs: tuple[LostPair, ...] = ()  # of an interval join: those of the batch side that the stream lacks
    unproven: str | None = None  # reason why the cause can no longer be verified
    lost: tuple[str, ...] = ()  # records of the window that the log may have lost, one sentence each
    unasked: str | None = None  # reason why the log could not be checked for losses
    jobs: tuple[JobTable, ...] = ()  # tables of the team's own jobs, with the cells of this row in which they differ
    jobs_unread: str | None = None  # reason why one of them could not be compared

    def to_json(self) -> dict[str, Any]:
        """Encode for `explain --json`, with `class_` of a row as `class`."""
        raw: dict[str, Any] = encode_tree(self)
        raw["rows"] = [{"class": row.pop("class_"), **row} for row in raw["rows"]]
        return raw


def explain_cell(
    lake: PipelineLake, window: datetime, key: Sequence[str | None], *, log: LogReader | None = None
) -> Explanation:
    """Explain one cell at the latest batch run.

    Args:
        lake: Pipeline that the cell belongs to.
        window: Start of the window.
        key: One text for each key column, None for null.
        log: Source of the records; None: the cluster of the settings.

    Raises:
        DefinitionError: The key has the wrong number of columns, or neither side has such a row.
        LakeError: The sides cannot be compared.
    """
    pipeline = lake.pipeline
    if len(key) != len(pipeline.key):
        msg = f"Key of `{pipeline.name}`: expected {count_noun(len(pipeline.key), 'value')} ({', '.join(pipeline.key)})"
        msg += f", got {len(key)}."
        raise DefinitionError(msg + "\nHint: `a,b`; `null` for a null.")
    examined = seal.evaluate_seal(lake, epoch=None)
    if examined.evidence is None:
        first_breach = examined.seal.breaches[0]
        raise LakeError(first_breach.message, runbook=first_breach.runbook)
    with open_sides(lake, examined.evidence) as sides:
        place = _create_key_condition(sides, pipeline, key)
        attribution = attribute_causes(lake, examined.evidence, sides, log)
        conditions = _locate_row(attribution.sides, pipeline, window, place)
        explanation = _explain_cell(pipeline, examined.evidence, attribution.sides, window, conditions)
        touching = _select_touching(pipeline, examined.evidence, conditions.interval)
        log_count = _find_losses_in_log(lake, examined.evidence, sides, conditions.interval, log)
        jobs, jobs_unread = _compare_jobs(lake, examined.evidence, sides, conditions.row)
        return replace(
            explanation,
            unproven=None if attribution.unproven is None else attribution.unproven.message,
            lost=tuple(text for text in (describe_touching(touching), log_count.loss) if text is not None),
            unasked=log_count.unasked,
            jobs=jobs,
            jobs_unread=jobs_unread,
        )


def _compare_jobs(
    lake: PipelineLake, evidence: SealEvidence, sides: Sides, row: str
) -> tuple[tuple[JobTable, ...], str | None]:
    """Compare the tables of the team's own jobs, and list the cells of one row; else return why they cannot be."""
    try:
        return compare_jobs(lake, evidence, sides, listed=row), None
    except SealError as error:
        return (), error.breach.message


def _select_touching(pipeline: Pipeline, evidence: SealEvidence, interval: Interval) -> list[Loss]:
    """Return the recorded losses that affect a window."""
    window = pipeline.window
    return [
        loss
        for loss in evidence.losses
        if loss.windows is not None
        and is_affected(window, interval, [(loss.windows[0], window.last_end_before(loss.windows[1]))])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogCount:
    """Result of counting the log's records; empty if the log has all of them or retention deleted them."""

    loss: str | None = None
    unasked: str | None = None


def _find_losses_in_log(
    lake: PipelineLake,
    evidence: SealEvidence,
    sides: Sides,
    interval: Interval,
    log: LogReader | None,
) -> _LogCount:
    """Count the log's records again for the epochs that read the window's offsets in the batch index."""
    run, stretches = evidence.run, [lake.pipeline.window.event_range(interval)]
    try:
        client = log or LogClient(lake.settings)
        log_id = client.describe(run.topic)
        if (log_id.cluster_id, log_id.topic_id) != (run.cluster_id, run.topic_id):
            return _LogCount(
                loss=f"Topic {run.topic} has topic id {log_id.topic_id}, both sides were read from {run.topic_id}."
            )
        portions = log_rows.list_read_portions(lake, sides.connection, run, stretches)
        reads = [offsets for portion in portions for offsets in portion.reads]
        epochs = [record for record in evidence.records if _reads_any(record, reads)]
        losses = lost_records.find_lost(
            client, epochs, evidence.losses, lake.pipeline.window, max_offsets=lost_records.ALL
        )
    except (LogError, LakeError) as error:
        return _LogCount(
            unasked=f"Cannot check whether the log still has the window's records: {str(error).splitlines()[0]}"
        )
    return _LogCount(loss=f"{lost_records.format_lost(losses)}." if losses else None)


def _reads_any(record: EpochRecord, reads: Sequence[Offsets]) -> bool:
    """Return whether an epoch read any of these offsets."""
    return any(
        record.start.get(partition, 0) < end and first_offset < record.end.get(partition, 0)
        for offsets in reads
        for partition, (first_offset, end) in offsets.items()
    )


def _create_key_condition(sides: Sides, pipeline: Pipeline, key: Sequence[str | None]) -> str:
    """Insert the key into the table `asked`, with the columns' types, and return the SQL condition that matches it."""
    types = {str(row[0]): str(row[1]) for row in sides.connection.execute("DESCRIBE all_1").fetchall()}
    columns_sql = ", ".join(f"{identifier(name)} {types[name]}" for name in pipeline.key)
    sides.connection.execute(f"CREATE TEMP TABLE asked ({columns_sql})")
    marks = ", ".join("?" for _ in key)
    try:
        sides.connection.execute(f"INSERT INTO asked VALUES ({marks})", list(key))
    except duckdb.ConversionException:
        columns_text = ", ".join(f"{name} {types[name]}" for name in pipeline.key)
        msg = (
            f"Key of `{pipeline.name}`: expected values of {columns_text}, got `{','.join(str(text) for text in key)}`."
        )
        raise DefinitionError(msg) from None
    conditions = [f"{identifier(k)} IS NOT DISTINCT FROM (SELECT {identifier(k)} FROM asked)" for k in pipeline.key]
    return " AND ".join(conditions)


def _locate_row(sides: Sides, pipeline: Pipeline, window: datetime, key: str) -> _CellConditions:
    micros = to_micros(window)
    row = f"epoch_us(window_start) = {micros} AND {key}"
    if not pipeline.window.merges:
        return _CellConditions(row=row, ledger=row, partials=row, interval=select_last_window(pipeline.window, micros))
    contains = f"{micros} BETWEEN epoch_us(window_start) AND epoch_us(window_end)"
    query = f"SELECT DISTINCT epoch_us(window_start), epoch_us(window_end) FROM {MEMBERS} WHERE {contains} AND {key}"
    sessions = sides.connection.execute(query).fetchall()
    start, end = sessions[0] if sessions else select_last_window(pipeline.window, micros)
    return _CellConditions(
        row=row,
        ledger=f"epoch_us({COMPONENT}) = {start} AND {key}",
        partials=f"epoch_us(window_start) BETWEEN {start} AND {end} AND {key}",
        interval=Interval(start, end),
    )


def _explain_cell(
    pipeline: Pipeline, evidence: SealEvidence, sides: Sides, window: datetime, conditions: _CellConditions
) -> Explanation:
    names = [value.name for value in sides.layout.values]
    streaming, batch = (_read_row(sides, table, conditions.row, names) for table in ("all_0", "batch_table"))
    rows = _read_ledger(sides, conditions.ledger)
    if streaming is None and batch is None and not rows:
        msg = (
            f"`{pipeline.name}`, window {window.astimezone(UTC).isoformat()}: expected a row with this key, found none."
        )
        raise DefinitionError(msg + "\nHint: WINDOW is a window's start in UTC, KEY its values in the key's order.")
    state = state_of(pipeline, evidence, conditions.interval)
    return Explanation(
        pipeline=pipeline.name,
        window_start=str(scalar(window)),
        key=_read_key(sides, conditions, pipeline),
        epoch=evidence.run.epoch,
        state=state,
        values=_measure_values(pipeline, sides, conditions.row, (streaming or {}, batch or {}), state=state),
        rows=rows,
        counted=_count_by_epoch(sides, conditions.partials),
        sessions=_read_sessions(sides, conditions) if pipeline.window.merges else (),
        lost_pairs=tuple(_list_lost_pairs(sides, pipeline, conditions.row)),
    )


def _list_lost_pairs(sides: Sides, pipeline: Pipeline, row: str) -> Iterator[LostPair]:
    """Yield the pairs of one row that only the batch side has, with the earliest first."""
    interval, join = compile_pipeline(pipeline).interval, pipeline.join
    if interval is None or not isinstance(join, Join):
        return
    times = (interval.left, interval.right)
    counted = replace(pipeline, measures={"__pairs": Count()})
    streaming, batch = (
        select_pairs_sql(counted, f"(SELECT * FROM {side} WHERE {row})", by=(*times, *join.pair_ids))
        for side in ("all_0", "batch_table")
    )
    query = f"""
        SELECT * EXCLUDE (__pairs), sum(__pairs)::BIGINT AS __pairs
        FROM ({batch} UNION ALL SELECT * REPLACE (-__pairs AS __pairs) FROM ({streaming}))
        GROUP BY ALL HAVING sum(__pairs) > 0 ORDER BY ALL LIMIT 1000
    """
    for pair in query_table(sides.connection, query).to_pylist():
        left_time, right_time = (str(scalar(pair[name].replace(tzinfo=UTC))) for name in times)
        yield LostPair(
            left_time=left_time,
            right_time=right_time,
            ids={name: scalar(pair[name]) for name in join.pair_ids},
            pairs=int(pair["__pairs"]),
        )


def _read_sessions(sides: Sides, conditions: _CellConditions) -> tuple[SessionOf, ...]:
    sessions_sql = " UNION ALL ".join(
        f"SELECT '{side}', window_start, window_end, _n FROM {table} WHERE {conditions.partials}"
        for side, table in (("streaming", "all_0"), ("batch", "batch_table"))
    )
    rows = sides.connection.execute(f"{sessions_sql} ORDER BY 1 DESC, 2").fetchall()
    return tuple(
        SessionOf(side=side, start=str(scalar(start)), end=str(scalar(end)), records=int(n))
        for side, start, end, n in rows
    )


def _read_row(sides: Sides, table: str, condition: str, names: Sequence[str]) -> Mapping[str, Any] | None:
    columns = ", ".join(map(identifier, names))
    rows = sides.connection.execute(f"SELECT {columns} FROM {table} WHERE {condition}").fetchall()
    return dict(zip(names, rows[0], strict=True)) if rows else None


def _measure_values(
    pipeline: Pipeline, sides: Sides, condition: str, rows: tuple[Mapping[str, Any], Mapping[str, Any]], *, state: str
) -> tuple[Measured, ...]:
    """Return each measure on both sides; in a window that is not compared, the cause of a difference says so."""
    differing = {cell.measure: cell for cell in cells.read_cells(sides, condition=condition)}
    values = [v for v in sides.layout.values if v.name in differing or v.is_measure]
    measured = []
    for value in values:
        streaming, batch = (side.get(value.name) for side in rows)
        cell = differing.get(value.name)
        not_compared = state != "closed" and not cells.are_equal(value, streaming, batch)
        measured.append(
            Measured(
                measure=value.name,
                streaming=scalar(streaming),
                batch=scalar(batch),
                difference=_subtract(streaming, batch, additive=value.name in additive(pipeline)),
                cause=cell.cause if cell else f"not compared: {state}" if not_compared else None,
                steps=cell.steps if cell else (),
            )
        )
    return tuple(measured)


def _subtract(streaming: Any, batch: Any, *, additive: bool) -> Scalar:
    """Return streaming - batch, for times in seconds."""
    if isinstance(streaming, date) and isinstance(batch, date):
        return f"{(streaming - batch).total_seconds():+.6f}".rstrip("0").rstrip(".") + " s"
    return cells.subtract(streaming, batch, additive=additive)


def _read_ledger(sides: Sides, condition: str) -> tuple[UncountedRecord, ...]:
    rows = sides.connection.execute(
        "SELECT _class, _partition, _offset, event_time, _epoch, reason,"
        f" (SELECT w.watermark FROM {SharedTable.EPOCH_WATERMARKS} w WHERE w.epoch = l._epoch)"
        f" FROM {SharedTable.LEDGER} l WHERE {condition} ORDER BY _partition, _offset, _class, _epoch LIMIT 1000"
    ).fetchall()
    return tuple(
        UncountedRecord(
            class_=str(class_name),
            partition=int(partition),
            offset=int(offset),
            event_time=None if event_time is None else str(scalar(event_time)),
            epoch=int(epoch),
            reason=reason,
            watermark=format_micros(watermark),
        )
        for class_name, partition, offset, event_time, epoch, reason, watermark in rows
    )


def _count_by_epoch(sides: Sides, condition: str) -> tuple[CountedIn, ...]:
    rows = sides.connection.execute(
        f"SELECT _epoch, sum(_n) FROM {SharedTable.STREAM_LOG} WHERE _class = 'accepted' AND {condition}"
        " GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return tuple(CountedIn(epoch=int(epoch), records=int(records)) for epoch, records in rows)


def _read_key(sides: Sides, conditions: _CellConditions, pipeline: Pipeline) -> dict[str, Scalar]:
    keys = ", ".join(map(identifier, pipeline.key)) or "1"
    conditions_by_table = {"all_1": conditions.row, "batch_table": conditions.row, "ledger": conditions.ledger}
    rows = (f"SELECT {keys} FROM {table} WHERE {condition}" for table, condition in conditions_by_table.items())
    query = f"SELECT * FROM ({' UNION ALL '.join(rows)}) LIMIT 1"
    key_rows = sides.connection.execute(query).fetchall()
    return {name: scalar(value) for name, value in zip(pipeline.key, key_rows[0], strict=True)} if key_rows else {}
