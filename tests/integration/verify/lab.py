"""A small lake as both paths leave it, made without Spark: real log, real commits, rows by plain Python."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.definition.compile.fingerprint import batch_fingerprint
from cutover.definition.windows.window_fn import select_last_window
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import BATCH_INDEX, batch_schema, epoch_log_schema
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient, RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verify.facts.facts import CheckState, Verification
from cutover.reconcile.verify.record import verify_pipeline
from cutover.records import reference
from cutover.records.classes import Class
from cutover.records.watermark import Observation, WatermarkState, advance_watermark
from cutover.settings import Settings
from cutover.streaming.compaction.compactor import list_files
from cutover.streaming.compaction.merge import merge_group
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Committer
from tests.integration.reconcile.lake_of import in_force, write_run
from tests.integration.streaming.rig import Event, make_topic, pipeline, send
from tests.support.comparison.planted import replace_rows

Raw = dict[str, Any]
Rows = list[Raw]
RUN_ID = "pid-1-lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A finished lake: epochs, a batch run at the newest cut."""

    lake: PipelineLake
    version: Version
    records: tuple[EpochRecord, ...]
    batch: BatchRun


def build(settings: Settings, topic: str, epochs: Sequence[Sequence[Event]]) -> Lab:
    """Send each epoch's events and commit them as an epoch; then batch at the newest cut."""
    definition = pipeline(topic)
    make_topic(settings, topic, partitions=2)
    client = LogClient(settings)
    log = client.describe(topic)
    lake = PipelineLake(settings, definition)
    version = versions.open_or_create(lake, SystemClock())
    schema = epoch_log_schema(definition)
    table = delta.ensure(version.uri, schema, partition_by=["_kind"])
    committer = Committer(version, RUN_ID, table, reload_every=100)
    time = WatermarkState()
    records: list[EpochRecord] = []
    raw: list[RawRecord] = []
    for events in epochs:
        send(settings, topic, events)
        record, rows, time, read = _epoch(client, definition, version, log, time, records)
        committer.commit(pa.Table.from_pylist([*rows, _epoch_row(record)], schema=schema), record)
        records.append(record)
        raw += read
    run = write_batch(lake, records[-1], raw)
    return Lab(lake=lake, version=version, records=tuple(records), batch=run)


def write_batch(lake: PipelineLake, record: EpochRecord, raw: Sequence[RawRecord]) -> BatchRun:
    """Write the batch truth of records and the run at an epoch's cut."""
    definition = lake.pipeline
    rows = [
        _row(group, row) | {"_epoch": record.epoch}
        for group, row in reference.compute_reference(definition, raw).rows.items()
    ]
    batch = delta.ensure(lake.batch_uri(), batch_schema(definition))
    commits.append(batch, pa.Table.from_pylist(rows, schema=batch_schema(definition)))
    starts = [round(row["window_start"].timestamp() * 1_000_000) for row in rows]
    run = BatchRun(
        run_id="batch-1",
        epoch=record.epoch,
        stream_version=0,
        topic=record.topic,
        topic_id=record.topic_id,
        cluster_id=record.cluster_id,
        cut=dict(record.end),
        scanned={p: (0, end) for p, end in record.end.items()},
        watermark=record.watermark_after,
        result_fingerprint=record.result_fingerprint,
        batch_fingerprint=batch_fingerprint(definition),
        isolation="read_committed",
        computed=((min(starts), select_last_window(definition.window, max(starts)).end),),
        batch_version=int(batch.version()),
        finished="2026-01-05T00:00:00Z",
        in_force=in_force(definition).digest,
        in_force_items=in_force(definition).families,
    )
    spans = delta.ensure(lake.batch_uri("batch_index"), BATCH_INDEX)
    ranges = [_range(definition, record) | {"_run": run.run_id, "_epoch": run.epoch} for record in raw]
    commits.append(spans, pa.Table.from_pylist([row for row in ranges if "_kind" in row], schema=BATCH_INDEX))
    write_run(lake.settings, run, definition)
    return run


def _range(definition: Pipeline, record: RawRecord) -> Raw:
    """Return the row of the index that says where a record's window has it; nothing for one without a window."""
    for group, row in reference.compute_reference(definition, [record]).rows.items():
        window = {name: value for name, value in _row(group, row).items() if name in {"window_start", "window_end"}}
        place = {"_partition": record.partition, "first_offset": record.offset, "last_offset": record.offset}
        return {"_kind": "range", "_n": 1, **window, **place}
    return {}


def _epoch(
    client: LogClient,
    definition: Pipeline,
    version: Version,
    log: LogId,
    time: WatermarkState,
    epoch_records: Sequence[EpochRecord],
) -> tuple[EpochRecord, list[Raw], WatermarkState, list[RawRecord]]:
    end = client.latest(log.topic)
    start = dict(epoch_records[-1].end) if epoch_records else dict.fromkeys(end, 0)
    raw = list(client.read_ranges(log.topic, {p: (start[p], end[p]) for p in end}))
    result = reference.compute_reference(definition, raw, epochs=[end], watermarks=[time.watermark])
    select_last_window: dict[int, int] = {}
    for record in raw:
        for group in reference.compute_reference(definition, [record]).rows:
            event = max(select_last_window.get(record.partition, 0), _event(definition, record))
            select_last_window[record.partition] = event if group else 0
    time_after = advance_watermark(
        time, Observation(now=0.0, read=end, high=end, max_event=select_last_window), definition.lateness
    )
    record_ = EpochRecord(
        epoch=len(epoch_records),
        run_id=RUN_ID,
        topic=log.topic,
        topic_id=log.topic_id,
        cluster_id=log.cluster_id,
        start=start,
        end=end,
        max_event=dict(time_after.max_event),
        watermark_before=time.watermark,
        watermark_after=time_after.watermark,
        counts={name.value: n for name, n in result.counts.items()},
        records=len(raw),
        result_fingerprint=version.result_fingerprint,
        lateness_fingerprint=version.lateness_fingerprint,
        in_force=in_force(definition).digest,
        in_force_items=in_force(definition).families,
    )
    rows = [_row(group, row) | _tail("accepted", "partial", record_.epoch) for group, row in result.rows.items()]
    return record_, [*rows, *_ledger_rows(definition, raw, result, record_.epoch)], time_after, raw


def _event(definition: Pipeline, record: RawRecord) -> int:
    single_result = reference.compute_reference(definition, [replace(record, log_time_micros=0)])
    return next(
        row.event_time or 0 for row in single_result.ledger
    )  # dated ahead of 1970, so that the ledger holds its time


def _ledger_rows(definition: Pipeline, raw: Sequence[RawRecord], result: reference.Result, epoch: int) -> list[Raw]:
    by_place = {(record.partition, record.offset): record for record in raw}
    rows: list[Raw] = []
    for entry in result.ledger:
        record = by_place[entry.partition, entry.offset]
        own_states = {}
        if entry.window_start is not None:
            near = replace(record, log_time_micros=entry.event_time or 0)
            own_states = next(
                _row(g, r)
                for g, r in reference.compute_reference(definition, [near]).rows.items()
                if g[0] == entry.window_start
            )
        at = None if entry.event_time is None else _moment(entry.event_time)
        place = {"partition": entry.partition, "offset": entry.offset, "event_time": at, "reason": entry.reason}
        rows.append(own_states | _tail(entry.cls.value, "ledger", epoch) | {"_n": 1, "_positions": [place]})
    counts: dict[int, int] = defaultdict(int)
    for record in raw:
        counts[record.partition] += reference.compute_reference(definition, [record]).counts[Class.FILTERED]
    return rows + [
        _tail("filtered", "ledger", epoch) | {"_n": n, "_partition": p} for p, n in sorted(counts.items()) if n
    ]


def _tail(name: str, kind: str, epoch: int) -> Raw:
    return {"_kind": kind, "_epoch": epoch, "_class": name, "_unknown": 0}


def _row(group: tuple[int, int, tuple[Any, ...]], row: reference.ResultRow) -> Raw:
    start, end, (key,) = group
    return {"window_start": _moment(start), "window_end": _moment(end), "k": key, "_n": row.n, **row.measures}


def _epoch_row(record: EpochRecord) -> Raw:
    return {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


ALL = {"N1", "N2", "N3", "N4", "N5", "N6", "N8", "N9"}
LATE = Event(id=103, minute=2, partition=1)
EPOCHS: tuple[list[Event], ...] = (
    [Event(id=i, minute=i, key="ab"[i % 2], partition=i % 2) for i in range(20)],
    [
        *(Event(id=i, minute=i, key="ab"[i % 2], partition=i % 2) for i in range(20, 50)),
        Event(id=100, minute=0, key="drop"),
        Event(id=101, raw=b"{"),
        Event(id=102, minute=5000, logged=21),
    ],
    [*(Event(id=i, minute=i, key=None, partition=i % 2) for i in range(50, 80)), LATE],
    [],
)


def verify_lab(lab: Lab, **options: Any) -> Verification:
    return verify_pipeline(lab.lake, exhaustive=True, **options)


def list_violated(verification: Verification) -> set[str]:
    return {name for name, checked in verification.checks.items() if checked.state is CheckState.VIOLATED}


def rewrite(lab: Lab, edit: Callable[[Rows], Rows]) -> None:
    """Put an edited copy of the epoch log's rows in place of them, as a hand would; of one kind at a time."""
    schema = epoch_log_schema(lab.lake.pipeline)
    rows_before = DeltaTable(lab.version.uri).to_pyarrow_table().cast(schema).to_pylist()
    rows_after = edit(rows_before)
    kinds = ("partial", "ledger", "epoch")
    changed_kinds = [kind for kind in kinds if _of_kind(rows_before, kind) != _of_kind(rows_after, kind)]
    for kind in changed_kinds or ["ledger"]:
        rows = pa.Table.from_pylist(_of_kind(rows_after, kind), schema=schema)
        replace_rows(lab.version.uri, rows, kind=kind)


def _of_kind(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row["_kind"] == kind]


def row_edit(is_chosen: Callable[[Raw], bool], edit: Callable[[Raw], Rows]) -> Callable[[Rows], Rows]:
    """Return an edit of the first row that is chosen."""

    def edited(rows: Rows) -> Rows:
        place = next(i for i, row in enumerate(rows) if is_chosen(row))
        return [*rows[:place], *edit(rows[place]), *rows[place + 1 :]]

    return edited


def of_class(name: str, epoch: int) -> Callable[[Raw], bool]:
    return lambda row: (row["_class"], row["_epoch"]) == (name, epoch)


def fold(lab: Lab, *, upto: int, forget: int = 0) -> None:
    """Fold the partials of epochs up to one, as the driver's compaction does; some files may be forgotten."""
    committer = Committer(lab.version, RUN_ID, delta.open_table(lab.version.uri), reload_every=100)
    group = [file for file in list_files(committer.table) if file.kind == "partial" and file.last_epoch <= upto]
    merged = merge_group(lab.lake, lab.version.uri, group[forget:])
    assert committer.replace_files([merged.action, *(files.make_removal(file) for file in group)], reason="fold")
