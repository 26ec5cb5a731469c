"""Tables of one pipeline as both paths would have left them, made from a list of records; and ways to spoil them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction

from cutover import files
from cutover.batch.read import index
from cutover.clock import SystemClock
from cutover.definition import Avg, Count, Fixed, Lateness, Max, Min, Pipeline, Policy, Sum, Topic
from cutover.definition.compile.fingerprint import batch_fingerprint, lateness_fingerprint, result_fingerprint
from cutover.definition.model.pipeline import SameDefinition
from cutover.definition.windows.window_fn import select_last_window
from cutover.engine import effective_settings, readback
from cutover.engine.effective_settings import EffectiveSettings
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import checksums, commits, delta
from cutover.lake.tables.schemas import BATCH_INDEX, batch_schema, epoch_log_schema
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.process import identify_current
from cutover.reconcile import run
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from tests.support.comparison.planted import replace_rows
from tests.support.log.held_log import HeldLog

_HELD: dict[Path, HeldLog] = {}
START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
CLOSED_UNTIL = 100  # hours after START: the watermark from epoch 1 on, so windows 0 to 98 are closed
Raw = dict[str, Any]

PIPELINE = Pipeline(
    name="sales",
    source=Topic(
        name="sales",
        schema="id bigint NOT NULL, shop string, desk int, amount bigint, at timestamp",
        event_time="at",
    ),
    key=("shop", "desk"),
    window=Fixed(hours=1),
    measures={
        "sales": Count(),
        "revenue": Sum("amount"),
        "least": Min("amount"),
        "most": Max("amount"),
        "mean": Avg("amount"),
    },
    lateness=Lateness(allowed="1 hour"),
    policy=Policy(max_late_share=0.5),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sale:
    """One record; its offset is its place among the records of its epoch and the ones before."""

    epoch: int = 0
    hour: int = 0
    shop: str | None = "a"
    desk: int | None = 1
    amount: int = 1
    kind: str = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """Contents to write; `replace` damages single fields."""

    partials: tuple[Raw, ...]
    epochs: tuple[EpochRecord, ...]
    batch: tuple[Raw, ...]
    run: BatchRun
    transaction: int
    log: tuple[RawRecord, ...] = ()
    ranges: tuple[Raw, ...] = ()  # of the batch index


def micros(hour: int) -> int:
    return int(START.timestamp()) * 1_000_000 + hour * HOUR


def lake_of(sales: Sequence[Sale], pipeline: Pipeline = PIPELINE) -> Lake:
    """Return both sides of these records: late ones count in batch alone, future ones nowhere."""
    last_epoch = max((sale.epoch for sale in sales), default=0)
    ordered = sorted(sales, key=lambda sale: sale.epoch)
    epochs = tuple(_epoch(pipeline, ordered, number) for number in range(last_epoch + 1))
    partials = [
        _partial(group, [(offset, sale) for offset, sale in enumerate(ordered) if _group(sale) == group])
        for group in {_group(sale): None for sale in ordered}
    ]
    batch = _batch([sale for sale in ordered if sale.kind in {"accepted", "late"}], pipeline, epoch=last_epoch)
    batch_run = _run(pipeline, epochs[-1])
    return Lake(
        partials=_with_window_ends(partials, pipeline),
        epochs=epochs,
        batch=_with_window_ends(batch, pipeline),
        run=batch_run,
        transaction=last_epoch,
        log=tuple(_record(offset, sale) for offset, sale in enumerate(ordered)),
        ranges=_with_window_ends([_range(offset, sale) for offset, sale in enumerate(ordered)], pipeline),
    )


def log_of_lake(lake: Lake) -> HeldLog:
    """Return the log that the lake was built from."""
    return HeldLog(records=lake.log)


def reconcile(lake: PipelineLake, **options: Any) -> Report:
    """Compare both sides of the lake that was written last, together with its log."""
    return run.run_reconciliation(lake, log=_HELD.get(lake.settings.home), **options)


def in_force(pipeline: Pipeline = PIPELINE) -> EffectiveSettings:
    """Return the settings that both sides record: those of this process, and of a session without options."""
    further = {"spark": effective_settings.PINNED, "jvm": {"locale": "en_US", "time zone": "UTC"}}
    return EffectiveSettings({**_process_settings(pipeline.lateness).families, **further})


@cache
def _process_settings(lateness: Lateness) -> EffectiveSettings:
    return readback.read_process_settings(replace(PIPELINE, lateness=lateness))


def leave_word(lake: PipelineLake, **changes: object) -> None:
    """Leave the last heartbeat of a driver that this process is: it stopped, and found nothing wrong with its log."""
    process = identify_current()
    word = {"pid": process.pid, "boot": process.boot, "started": process.started, "run_id": "r", "state": "STOPPED"}
    file = heartbeat.run_folder(lake.settings, lake.name) / "heartbeat.json"
    files.write_json(file, word | {"at": START.isoformat()} | changes)


def write(settings: Settings, lake: Lake, pipeline: Pipeline = PIPELINE) -> str:
    """Write the tables and return the epoch log's folder."""
    _HELD[settings.home] = log_of_lake(lake)
    pipeline_lake = PipelineLake(settings, pipeline)
    leave_word(pipeline_lake)  # tests of tables have no broker
    version = versions.open_or_create(pipeline_lake, SystemClock())
    schema = epoch_log_schema(pipeline)
    log = delta.ensure(version.uri, schema, partition_by=["_kind"])
    stem = checksums.new_stem("epoch", len(lake.epochs))
    kinds = {"epoch", *(row["_kind"] for row in lake.partials)}
    weight = checksums.encode_weight(sum(checksums.compute_weight(f"_kind={kind}", stem) for kind in kinds))
    last_epoch = max(epoch.epoch for epoch in lake.epochs)
    epochs = [replace(epoch, files=weight) if epoch.epoch == last_epoch else epoch for epoch in lake.epochs]
    records = [{"_kind": "epoch", "_epoch": e.epoch, "_record": e.to_json()} for e in epochs]
    note = {"userMetadata": epochs[-1].to_json()}
    commit = CommitProperties(app_transactions=[Transaction(version.app_id, lake.transaction)], custom_metadata=note)
    commits.append(log, pa.Table.from_pylist([*lake.partials, *records], schema=schema), stem=stem, commit=commit)
    batch = delta.ensure(pipeline_lake.batch_uri(), batch_schema(pipeline))
    commits.append(batch, pa.Table.from_pylist(list(lake.batch), schema=batch_schema(pipeline)))
    spans = delta.ensure(pipeline_lake.batch_uri("batch_index"), BATCH_INDEX)
    ranges = [row | {"_kind": "range", "_run": lake.run.run_id, "_epoch": lake.run.epoch} for row in lake.ranges]
    commits.append(spans, pa.Table.from_pylist(ranges, schema=BATCH_INDEX))
    write_run(settings, replace(lake.run, batch_version=int(batch.version())), pipeline)
    return version.uri


def write_run(settings: Settings, run: BatchRun, pipeline: Pipeline = PIPELINE) -> None:
    """Record a run as the next one, whatever its times say."""
    lake = PipelineLake(settings, pipeline)
    index.record_run(lake, run, sequence=batch_runs.read_next_run_sequence(lake))


def replace_batch(settings: Settings, lake: Lake, pipeline: Pipeline = PIPELINE) -> None:
    """Replace the stored batch by the lake's, as a further run."""
    uri = PipelineLake(settings, pipeline).batch_uri()
    rows = pa.Table.from_pylist(list(lake.batch), schema=batch_schema(pipeline))
    write_run(settings, replace(lake.run, batch_version=replace_rows(uri, rows)), pipeline)


def edit_batch_row(lake: Lake, place: int, edit: Callable[[Raw], Raw | None]) -> Lake:
    """Return the lake with one row of the batch edited, or taken out."""
    row = edit(dict(lake.batch[place]))
    batch_rows = [*lake.batch[:place], *([] if row is None else [row]), *lake.batch[place + 1 :]]
    return replace(lake, batch=tuple(batch_rows))


def _with_window_ends(rows: Iterable[Raw], pipeline: Pipeline) -> tuple[Raw, ...]:
    """Return rows with the end of their window, which is as long as the definition says."""
    ends = {row["window_start"]: _end(pipeline, row["window_start"]) for row in rows}
    return tuple(row | {"window_end": ends[row["window_start"]]} for row in rows)


def _end(pipeline: Pipeline, start: datetime) -> datetime:
    micros_of = round(start.timestamp() * 1_000_000)
    return start + timedelta(microseconds=select_last_window(pipeline.window, micros_of).end - micros_of)


def _record(offset: int, sale: Sale) -> RawRecord:
    at = START + timedelta(hours=sale.hour, minutes=1)
    fields = {"id": offset, "shop": sale.shop, "desk": sale.desk, "amount": sale.amount, "at": at.isoformat()}
    logged = at - timedelta(days=30 if sale.kind == "future" else 0)
    micros_of = round(logged.timestamp() * 1_000_000)
    return RawRecord(partition=0, offset=offset, log_time_micros=micros_of, value=json.dumps(fields).encode())


def _range(offset: int, sale: Sale) -> Raw:
    place = {"first_offset": offset, "last_offset": offset, "_partition": 0, "_n": 1}
    return {"window_start": START + timedelta(hours=sale.hour), **place}


def _group(sale: Sale) -> tuple[Any, ...]:
    return (sale.epoch, sale.kind, sale.hour, sale.shop, sale.desk)


def _partial(group: tuple[Any, ...], members: list[tuple[int, Sale]]) -> Raw:
    epoch, kind, hour, shop, desk = group
    row = _result(hour, shop, desk, [sale.amount for _, sale in members])
    at = START + timedelta(hours=hour, minutes=1)
    positions = [{"partition": 0, "offset": offset, "event_time": at, "reason": None} for offset, _ in members]
    listed_positions = None if kind == "accepted" else positions
    is_accepted = kind == "accepted"
    return {
        **row,
        "_kind": "partial" if is_accepted else "ledger",
        "_epoch": epoch,
        "_class": kind,
        "_positions": listed_positions,
        "_unknown": 0,
    }


def _result(hour: int, shop: str | None, desk: int | None, amounts: list[int]) -> Raw:
    at = START + timedelta(hours=hour)
    return {
        "window_start": at,
        "shop": shop,
        "desk": desk,
        "sales": len(amounts),
        "revenue": Decimal(sum(amounts)),
        "least": min(amounts),
        "most": max(amounts),
        "mean__sum": Decimal(sum(amounts)),
        "mean__count": len(amounts),
        "_n": len(amounts),
    }


def _batch(sales: list[Sale], pipeline: Pipeline, *, epoch: int) -> tuple[Raw, ...]:
    rows = []
    for place in {(s.hour, s.shop, s.desk): None for s in sales}:
        amounts = [s.amount for s in sales if (s.hour, s.shop, s.desk) == place]
        row = _result(*place, amounts) | {"mean": sum(amounts) / len(amounts), "_epoch": epoch}
        if not isinstance(pipeline.batch, SameDefinition):
            row = {k: v for k, v in row.items() if "__" not in k} | {"_n": None}
        rows.append(row)
    return tuple(rows)


def _epoch(pipeline: Pipeline, ordered: list[Sale], number: int) -> EpochRecord:
    epoch_sales = [sale for sale in ordered if sale.epoch == number]
    start = sum(sale.epoch < number for sale in ordered)
    counts = {kind: sum(s.kind == kind for s in epoch_sales) for kind in ("accepted", "late", "future")}
    settings_in_force = in_force(pipeline)
    return EpochRecord(
        epoch=number,
        run_id="driver",
        topic="sales",
        topic_id="topic-1",
        cluster_id="cluster-1",
        start={0: start},
        end={0: start + len(epoch_sales)},
        max_event={0: micros(CLOSED_UNTIL)},
        watermark_before=micros(CLOSED_UNTIL) if number else None,
        watermark_after=micros(CLOSED_UNTIL),
        counts=counts,
        records=len(epoch_sales),
        seconds=0.1,
        result_fingerprint=result_fingerprint(pipeline),
        lateness_fingerprint=lateness_fingerprint(pipeline),
        in_force=settings_in_force.digest,
        in_force_items=None if number else settings_in_force.families,
    )


def _run(pipeline: Pipeline, record: EpochRecord) -> BatchRun:
    return BatchRun(
        run_id="batch-1",
        epoch=record.epoch,
        stream_version=0,
        topic=record.topic,
        topic_id=record.topic_id,
        cluster_id=record.cluster_id,
        cut=dict(record.end),
        scanned={0: (0, record.end[0])},
        watermark=record.watermark_after,
        result_fingerprint=result_fingerprint(pipeline),
        batch_fingerprint=batch_fingerprint(pipeline),
        isolation="read_committed",
        computed=((micros(0), micros(CLOSED_UNTIL)),),
        in_force=in_force(pipeline).digest,
        in_force_items=in_force(pipeline).families,
        finished="2026-01-05T00:00:00Z",
    )
