"""One (window, key) in full: both values, the difference, and the rows behind it by partition and offset."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval, select_last_window
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.journal_rows import Loss
from cutover.lake.serving.spans import is_affected
from cutover.log.kafka import LogClient
from cutover.quoting import identifier
from cutover.reconcile.attribution import cells, log_rows
from cutover.reconcile.attribution.attribution import attribute_causes
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.attribution.loss import describe_touching
from cutover.reconcile.comparison.components import COMPONENT, MEMBERS
from cutover.reconcile.comparison.layout import additive
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.reconcile.comparison.sides import Sides, open_sides, state_of
from cutover.reconcile.preconditions import seal
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.codec import Scalar, encode, scalar
from cutover.reconcile.result.finding import CellStep
from cutover.records.reading.scan import Offsets
from cutover.settings import Settings
from cutover.timestamps import format_micros, to_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure on both sides."""

    measure: str
    streaming: Scalar
    batch: Scalar
    difference: Scalar  # of times in seconds, as text; None: of values that have none, see `cause`
    cause: str | None  # None: the sides are equal
    steps: tuple[CellStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedRecord:
    """One record that did not count."""

    class_: str
    partition: int
    offset: int
    event_time: str | None
    epoch: int
    reason: str | None
    watermark: str | None  # ISO, that judged the epoch: what made a late record late


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedIn:
    """Records that counted, by the epoch that read them (or the fold that merged it)."""

    epoch: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOf:
    """One session of a side, of those that are judged together."""

    side: str  # streaming or batch
    start: str
    end: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The cell that is asked for, as conditions: over rows of a side, of the ledger, of the epoch log."""

    row: str
    ledger: str
    counted: str
    one: Interval  # the window; of sessions the component


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of one cell."""

    pipeline: str
    window_start: str
    key: Mapping[str, Scalar]
    epoch: int  # the cut's
    state: str  # closed, open or incomplete(lost); of sessions: of all that touch one another
    values: tuple[Measured, ...]
    rows: tuple[UncountedRecord, ...]
    counted: tuple[CountedIn, ...]
    sessions: tuple[SessionOf, ...] = ()  # of both sides, as far as they touch one another
    unproven: str | None = None  # why it can no longer be shown that the cause holds
    lost: tuple[str, ...] = ()  # what the log has lost of the records that the window may need
    unasked: str | None = None  # why the log could not be asked whether it lost some

    def to_json(self) -> dict[str, Any]:
        """Encode for `explain --json`, with `class_` of a row as `class`."""
        raw: dict[str, Any] = encode(self)
        raw["rows"] = [{"class": row.pop("class_"), **row} for row in raw["rows"]]
        return raw


def explain(
    settings: Settings, pipeline: Pipeline, window: datetime, key: Sequence[str | None], *, log: LogReader | None = None
) -> Explanation:
    """Explain one cell at the newest batch run.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        window: Start of the window.
        key: One text for each key column, None for null.
        log: What is asked for records; None: the cluster of the settings.

    Raises:
        DefinitionError: The key has another number of columns, or no such row is on either side.
        LakeError: The sides cannot be compared.
    """
    if len(key) != len(pipeline.key):
        msg = f"Key of `{pipeline.name}`: expected {len(pipeline.key)} values ({', '.join(pipeline.key)})"
        msg += f", got {len(key)}."
        raise DefinitionError(msg + "\nHint: `a,b`; `null` for a null.")
    examined = seal.examine(settings, pipeline, epoch=None)
    if examined.evidence is None:
        first = examined.seal.breaches[0]
        raise LakeError(first.message, runbook=first.runbook)
    with open_sides(settings, pipeline, examined.evidence) as sides:
        place = _same_key(sides, pipeline, key)
        attribution = attribute_causes(settings, pipeline, examined.evidence, sides, log)
        row = _locate_row(attribution.sides, pipeline, window, place)
        explanation = _make_explanation(pipeline, examined.evidence, attribution.sides, window, row)
        touching = _select_touching(pipeline, examined.evidence, row.one)
        count = _count_again(settings, pipeline, examined.evidence, sides, row.one, log)
        return replace(
            explanation,
            unproven=None if attribution.unproven is None else attribution.unproven.message,
            lost=tuple(text for text in (describe_touching(touching), count.lost) if text is not None),
            unasked=count.unasked,
        )


def _select_touching(pipeline: Pipeline, evidence: SealEvidence, interval: Interval) -> list[Loss]:
    """Return the recorded losses that touch a window."""
    window = pipeline.window
    return [
        loss
        for loss in evidence.losses
        if loss.windows is not None
        and is_affected(window, interval, [(loss.windows[0], window.last_end_before(loss.windows[1]))])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    """What a count of the log's records has shown; nothing: it still holds all of them, or retention took them."""

    lost: str | None = None
    unasked: str | None = None


def _count_again(
    settings: Settings,
    pipeline: Pipeline,
    evidence: SealEvidence,
    sides: Sides,
    interval: Interval,
    log: LogReader | None,
) -> _Count:
    """Count the records again of the epochs that read what the batch index names for a window."""
    run, stretches = evidence.run, [pipeline.window.event_range(interval)]
    try:
        client = log or LogClient(settings)
        found = client.describe(run.topic)
        if (found.cluster_id, found.topic_id) != (run.cluster_id, run.topic_id):
            return _Count(
                lost=f"Topic {run.topic} has topic id {found.topic_id}, both sides were read from {run.topic_id}."
            )
        parts = log_rows.portions(settings, pipeline, sides.connection, run, stretches)
        reads = [offsets for part in parts for offsets in part.reads]
        epochs = [record for record in evidence.records if _reads_any(record, reads)]
        lost = lost_records.find_lost(client, epochs, evidence.losses, pipeline.window, most=lost_records.ALL)
    except (LogError, LakeError) as error:
        return _Count(
            unasked=f"Whether the log still holds the window's records is not known: {str(error).splitlines()[0]}"
        )
    return _Count(lost=f"{lost_records.format_lost(lost)}." if lost else None)


def _reads_any(record: EpochRecord, reads: Sequence[Offsets]) -> bool:
    """Return whether an epoch read some of these offsets."""
    return any(
        record.start.get(p, 0) < end and first < record.end.get(p, 0)
        for offsets in reads
        for p, (first, end) in offsets.items()
    )


def _same_key(sides: Sides, pipeline: Pipeline, key: Sequence[str | None]) -> str:
    """Put the asked key into the table `asked`, typed as the columns are, and return the SQL condition of the key."""
    types = {str(row[0]): str(row[1]) for row in sides.connection.execute("DESCRIBE all_1").fetchall()}
    columns = ", ".join(f"{identifier(name)} {types[name]}" for name in pipeline.key)
    sides.connection.execute(f"CREATE TEMP TABLE asked ({columns})")
    marks = ", ".join("?" for _ in key)
    try:
        sides.connection.execute(f"INSERT INTO asked VALUES ({marks})", list(key))
    except duckdb.ConversionException:
        wanted = ", ".join(f"{name} {types[name]}" for name in pipeline.key)
        msg = f"Key of `{pipeline.name}`: expected values of {wanted}, got `{','.join(str(text) for text in key)}`."
        raise DefinitionError(msg) from None
    same = [f"{identifier(k)} IS NOT DISTINCT FROM (SELECT {identifier(k)} FROM asked)" for k in pipeline.key]
    return " AND ".join(same)


def _locate_row(sides: Sides, pipeline: Pipeline, window: datetime, key: str) -> _Asked:
    at = to_micros(window)
    row = f"epoch_us(window_start) = {at} AND {key}"
    if not pipeline.window.merges:
        return _Asked(row=row, ledger=row, counted=row, one=select_last_window(pipeline.window, at))
    holds = f"{at} BETWEEN epoch_us(window_start) AND epoch_us(window_end)"
    query = f"SELECT DISTINCT epoch_us(window_start), epoch_us(window_end) FROM {MEMBERS} WHERE {holds} AND {key}"
    found = sides.connection.execute(query).fetchall()
    start, end = found[0] if found else select_last_window(pipeline.window, at)
    return _Asked(
        row=row,
        ledger=f"epoch_us({COMPONENT}) = {start} AND {key}",
        counted=f"epoch_us(window_start) BETWEEN {start} AND {end} AND {key}",
        one=Interval(start, end),
    )


def _make_explanation(
    pipeline: Pipeline, evidence: SealEvidence, sides: Sides, window: datetime, asked: _Asked
) -> Explanation:
    names = [value.name for value in sides.layout.values]
    streaming, batch = (_row(sides, table, asked.row, names) for table in ("all_0", "batch_table"))
    rows = _ledger(sides, asked.ledger)
    if streaming is None and batch is None and not rows:
        msg = (
            f"`{pipeline.name}`, window {window.astimezone(UTC).isoformat()}: expected a row with this key, found none."
        )
        raise DefinitionError(msg + "\nHint: WINDOW is a window's start in UTC, KEY its values in the key's order.")
    state = state_of(pipeline, evidence, asked.one)
    return Explanation(
        pipeline=pipeline.name,
        window_start=str(scalar(window)),
        key=_key(sides, asked, pipeline),
        epoch=evidence.run.epoch,
        state=state,
        values=_values(pipeline, sides, asked.row, (streaming or {}, batch or {}), state=state),
        rows=rows,
        counted=_count_by_epoch(sides, asked.counted),
        sessions=_sessions(sides, asked) if pipeline.window.merges else (),
    )


def _sessions(sides: Sides, asked: _Asked) -> tuple[SessionOf, ...]:
    both = " UNION ALL ".join(
        f"SELECT '{side}', window_start, window_end, _n FROM {table} WHERE {asked.counted}"
        for side, table in (("streaming", "all_0"), ("batch", "batch_table"))
    )
    found = sides.connection.execute(f"{both} ORDER BY 1 DESC, 2").fetchall()
    return tuple(
        SessionOf(side=side, start=str(scalar(start)), end=str(scalar(end)), records=int(n))
        for side, start, end, n in found
    )


def _row(sides: Sides, table: str, place: str, names: Sequence[str]) -> Mapping[str, Any] | None:
    columns = ", ".join(map(identifier, names))
    found = sides.connection.execute(f"SELECT {columns} FROM {table} WHERE {place}").fetchall()
    return dict(zip(names, found[0], strict=True)) if found else None


def _values(
    pipeline: Pipeline, sides: Sides, place: str, both: tuple[Mapping[str, Any], Mapping[str, Any]], *, state: str
) -> tuple[Measured, ...]:
    """Return each measure on both sides; where a window is not judged, a difference has that for its cause."""
    differing = {cell.measure: cell for cell in cells.read(sides, where=place)}
    shown = [v for v in sides.layout.values if v.name in differing or v.is_measure]
    found = []
    for value in shown:
        streaming, batch = (side.get(value.name) for side in both)
        cell = differing.get(value.name)
        unjudged = state != "closed" and not cells.equal(value, streaming, batch)
        found.append(
            Measured(
                measure=value.name,
                streaming=scalar(streaming),
                batch=scalar(batch),
                difference=_difference(streaming, batch, additive=value.name in additive(pipeline)),
                cause=cell.cause if cell else f"not judged: {state}" if unjudged else None,
                steps=cell.steps if cell else (),
            )
        )
    return tuple(found)


def _difference(streaming: Any, batch: Any, *, additive: bool) -> Scalar:
    """Return streaming - batch of numbers, of times in seconds."""
    if isinstance(streaming, date) and isinstance(batch, date):
        return f"{(streaming - batch).total_seconds():+.6f}".rstrip("0").rstrip(".") + " s"
    return cells.minus(streaming, batch, additive=additive)


def _ledger(sides: Sides, place: str) -> tuple[UncountedRecord, ...]:
    found = sides.connection.execute(
        "SELECT _class, _partition, _offset, event_time, _epoch, reason,"
        f" (SELECT w.watermark FROM {SharedTable.EPOCH_WATERMARKS} w WHERE w.epoch = l._epoch)"
        f" FROM {SharedTable.LEDGER} l WHERE {place} ORDER BY _partition, _offset, _class, _epoch LIMIT 1000"
    ).fetchall()
    return tuple(
        UncountedRecord(
            class_=str(cls),
            partition=int(partition),
            offset=int(offset),
            event_time=None if at is None else str(scalar(at)),
            epoch=int(epoch),
            reason=reason,
            watermark=format_micros(watermark),
        )
        for cls, partition, offset, at, epoch, reason, watermark in found
    )


def _count_by_epoch(sides: Sides, place: str) -> tuple[CountedIn, ...]:
    found = sides.connection.execute(
        f"SELECT _epoch, sum(_n) FROM {SharedTable.STREAM_LOG} WHERE _class = 'accepted' AND {place}"
        " GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return tuple(CountedIn(epoch=int(epoch), records=int(records)) for epoch, records in found)


def _key(sides: Sides, asked: _Asked, pipeline: Pipeline) -> dict[str, Scalar]:
    keys = ", ".join(map(identifier, pipeline.key)) or "1"
    places = {"all_1": asked.row, "batch_table": asked.row, "ledger": asked.ledger}
    rows = (f"SELECT {keys} FROM {table} WHERE {place}" for table, place in places.items())
    query = f"SELECT * FROM ({' UNION ALL '.join(rows)}) LIMIT 1"
    found = sides.connection.execute(query).fetchall()
    return {name: scalar(value) for name, value in zip(pipeline.key, found[0], strict=True)} if found else {}
