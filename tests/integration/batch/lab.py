"""One pipeline with its own topic and lake; epochs are committed by hand, since batch takes the cut alone from them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from cutover.clock import SystemClock
from cutover.definition import Avg, Count, Fixed, Lateness, Max, Pipeline, Sum, Topic
from cutover.engine import queries
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import batch_schema, epoch_log_schema
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log
from cutover.pipeline_lake import BatchTable, PipelineLake
from cutover.settings import Settings

HOUR = 3_600
BASE = 1_357_000_000 // HOUR * HOUR  # seconds; a full hour of 2013
PARTITIONS = 2


def pipeline_of(topic: str, **changes: Any) -> Pipeline:
    pipeline = Pipeline(
        name=topic,
        source=Topic(
            name=topic,
            schema="seq bigint NOT NULL, carrier string, delay int, event_time timestamp NOT NULL",
            event_time="event_time",
            time_format="seconds",
        ),
        where="carrier IS NULL OR carrier <> 'XX'",
        key=("carrier",),
        window=Fixed(hours=1),
        measures={"flights": Count(), "delay": Sum("delay"), "worst": Max("delay"), "mean": Avg("delay")},
        lateness=Lateness(max_ahead="1 hour"),
    )
    return replace(pipeline, **changes)


@dataclass
class Lab:
    settings: Settings
    pipeline: Pipeline
    newest: dict[int, int] = field(default_factory=dict)  # partition -> newest event time that was sent, microseconds

    @property
    def lake(self) -> PipelineLake:
        """Log, lake and definition of the pipeline."""
        return PipelineLake(self.settings, self.pipeline)

    @property
    def topic(self) -> str:
        return self.pipeline.source.name

    def send(self, *rows: tuple[int, int, str | None, int | None], ahead: int = 0) -> None:
        """Append records: partition, seconds after BASE, carrier, delay; the log timestamp is the event time."""
        producer = Producer({"bootstrap.servers": self.settings.kafka.bootstrap_servers, "max.in.flight": 1})
        for seq, (partition, second, carrier, delay) in enumerate(rows):
            event = {"seq": seq, "carrier": carrier, "delay": delay, "event_time": BASE + second}
            stamp = (BASE + second - ahead) * 1000
            producer.produce(self.topic, json.dumps(event).encode(), partition=partition, timestamp=stamp)
            self.newest[partition] = max(self.newest.get(partition, 0), (BASE + second) * 1_000_000)
        producer.flush(30)

    def send_raw(self, partition: int, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.settings.kafka.bootstrap_servers})
        producer.produce(self.topic, value, partition=partition, timestamp=BASE * 1000)
        producer.flush(30)

    def commit_epoch(self, watermark: int | None, *, records: int = 0) -> EpochRecord:
        """Commit an epoch that ends at the log's end and counted `records`; the watermark in seconds after BASE."""
        version = versions.open_or_create(self.lake, SystemClock())
        schema = epoch_log_schema(self.pipeline)
        table = delta.ensure(version.uri, schema, partition_by=["_kind"])
        client = LogClient(self.settings)
        log = name_log(self.pipeline)
        identity = client.describe(log)
        number = len(self.epochs(version.uri))
        record = EpochRecord(
            epoch=number,
            run_id="by hand",
            topic=log,
            topic_id=identity.topic_id,
            cluster_id=identity.cluster_id,
            start={},
            end=client.latest(log),
            max_event=dict(self.newest),
            watermark_before=None,
            watermark_after=None if watermark is None else (BASE + watermark) * 1_000_000,
            isolation=self.pipeline.source.isolation,
            counts={"accepted": records},
            records=records,
        )
        row = {"_kind": "epoch", "_epoch": number, "_record": record.to_json()}
        commits.append(table, pa.Table.from_pylist([row], schema=schema))
        return record

    def epochs(self, uri: str) -> list[int]:
        return [row["_epoch"] for row in rows_of(uri)]

    def table(self, run: BatchRun | None, *columns: str) -> list[tuple[Any, ...]]:
        """Return the batch table at the version that a run names: hour after BASE, then columns, in order."""
        assert run is not None
        stored_rows = rows_of(self.lake.batch_uri(), run.batch_version)
        starts = ((row["window_start"].timestamp() - BASE) // HOUR for row in stored_rows)
        rows = [(start, *(row[name] for name in columns)) for start, row in zip(starts, stored_rows, strict=True)]
        return sorted(rows, key=lambda row: [str(value) for value in row])

    def plant(self, *, hour: int, like: BatchRun) -> None:
        """Append a row that no record accounts for to the batch table."""
        uri = self.lake.batch_uri()
        start = datetime.fromtimestamp(BASE + hour * HOUR, UTC)
        row = rows_of(uri, like.batch_version)[0]
        planted = row | {"carrier": "planted", "window_start": start, "window_end": start + timedelta(hours=1)}
        schema = batch_schema(self.pipeline)
        commits.append(delta.open_table(uri), pa.Table.from_pylist([planted], schema=schema))

    def rows(self, name: BatchTable, version: int | None = None) -> list[dict[str, Any]]:
        return rows_of(self.lake.batch_uri(name), version)


def rows_of(uri: str, version: int | None = None) -> list[dict[str, Any]]:
    connection = queries.open_duckdb()
    delta.relation(connection, "found", uri, version=version)
    return list(queries.query_table(connection, "SELECT * FROM found").to_pylist())


def hours(ranges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return ranges in hours after BASE."""
    return [((a / 1e6 - BASE) / HOUR, (b / 1e6 - BASE) / HOUR) for a, b in ranges]
