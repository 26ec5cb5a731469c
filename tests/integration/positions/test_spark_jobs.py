"""Streaming jobs as teams write them: what their checkpoints and tables show is what Spark itself counts."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

from cutover.cli.position import position
from cutover.positions.delta_versions import Evidence, list_table_versions
from cutover.positions.position import Position, find_position
from cutover.positions.spark_checkpoint import Batch, LateRule, SparkCheckpoint, read_checkpoint
from cutover.settings import Settings
from tests.integration.streaming.rig import MINUTE, Event, make_topic, send
from tests.support.jobs import merge_into

HOUR = 60 * MINUTE
SCHEMA = "id bigint, k string, at timestamp"
EVENTS = [
    Event(id=number, minute=6.0 * number - (260 if number % 9 == 8 else 0), key="ab"[number % 2], partition=number % 2)
    for number in range(60)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A finished run of a query."""

    checkpoint: SparkCheckpoint
    table: str
    dropped: dict[int, int]  # batch -> rows that Spark counts as dropped by the watermark


@pytest.fixture(scope="module")
def source(spark: SparkSession, module_settings: Settings) -> DataFrame:
    """Return the query of a team up to its grouping: JSON of a topic, 10 records a partition in each batch."""
    topic = "positions-of-jobs"
    make_topic(module_settings, topic, partitions=2)
    send(module_settings, topic, EVENTS)
    options = {
        "kafka.bootstrap.servers": str(module_settings.kafka.bootstrap_servers),
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "20",
    }
    value = F.from_json(F.col("value").cast("string"), "id bigint, k string, at bigint").alias("v")
    rows = spark.readStream.format("kafka").options(**options).load().select(value)
    return rows.select("v.id", "v.k", F.timestamp_millis("v.at").alias("at"))


@pytest.fixture(scope="module")
def module_settings(tmp_path_factory: pytest.TempPathFactory, kafka_bootstrap: str) -> Settings:
    """Return settings with the broker of the tests."""
    home = tmp_path_factory.mktemp("home")
    return Settings(home=home, kafka={"bootstrap_servers": kafka_bootstrap})


def run(query: DataFrame, place: Path, mode: str, write: Callable[[DataFrame, int], None] | None = None) -> Job:
    writer = query.writeStream.outputMode(mode).option("checkpointLocation", f"{place}/checkpoint")
    writer = writer.trigger(availableNow=True)
    table = f"{place}/table"
    running = writer.format("delta").start(table) if write is None else writer.foreachBatch(write).start()
    running.awaitTermination()
    dropped = {
        int(progress["batchId"]): sum(int(state["numRowsDroppedByWatermark"]) for state in progress["stateOperators"])
        for progress in running.recentProgress
    }
    return Job(checkpoint=read_checkpoint(f"{place}/checkpoint"), table=table, dropped=dropped)


def count_hourly(source: DataFrame) -> DataFrame:
    return source.withWatermark("at", "10 minutes").groupBy(F.window("at", "1 hour"), "k").count()


def list_read(batch: Batch, before: Batch | None) -> Iterator[Event]:
    """Yield the events of one batch, by its offsets."""
    (ends,) = batch.ends.values()
    starts = {0: 0, 1: 0} if before is None else next(iter(before.ends.values()))
    for partition, end in ends.items():
        of_partition = [event for event in EVENTS if event.partition == partition]
        yield from of_partition[starts[partition] : end]


def list_late(checkpoint: SparkCheckpoint, is_late: Callable[[Event, int], bool]) -> set[int]:
    """List the batches in which a record is late by the watermark that judged it."""
    batches = [None, *checkpoint.batches]
    return {
        batch.number
        for before, batch in zip(batches, checkpoint.batches, strict=False)
        if batch.judged_by and any(is_late(event, batch.judged_by) for event in list_read(batch, before))
    }


def is_window_closed(event: Event, watermark: int) -> bool:
    return event.micros // HOUR * HOUR + HOUR <= watermark


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_native_sink(source: DataFrame, tmp_path: Path, mode: str) -> None:
    job = run(count_hourly(source), tmp_path, mode)
    versions = list_table_versions(job.table, job.checkpoint)

    assert [(version.version, version.batch, version.evidence) for version in versions] == [
        (number, number, Evidence.QUERY) for number in range(len(job.checkpoint.batches))
    ]
    assert [operator.late_rule for operator in job.checkpoint.operators] == [LateRule.WINDOW]
    assert [operator.watermark_delay for operator in job.checkpoint.operators] == [10 * MINUTE]
    with_drops = {batch for batch, count in job.dropped.items() if count}
    assert with_drops == (list_late(job.checkpoint, is_window_closed) if mode == "append" else set())
    assert with_drops or mode == "complete"


@pytest.mark.parametrize("marks", [True, False])
def test_merge_in_foreach_batch(source: DataFrame, tmp_path: Path, marks: bool) -> None:
    job = run(count_hourly(source), tmp_path, "update", merge_into(f"{tmp_path}/table", marks=marks))
    versions = [version for version in list_table_versions(job.table, job.checkpoint) if version.operation == "MERGE"]
    newest = find_position(job.checkpoint, list_table_versions(job.table, job.checkpoint))

    assert {version.evidence for version in versions} == {Evidence.MARK if marks else Evidence.TIME}
    with_rows = [batch.number for batch in job.checkpoint.batches if batch.number < len(EVENTS) // 20]
    assert [version.batch for version in versions][: len(with_rows)] == with_rows
    assert isinstance(newest, Position)
    assert newest.topics == {"positions-of-jobs": {0: 30, 1: 30}}
    assert newest.table_version == versions[-1].version


def test_deduplication_drops_by_the_time_of_the_row(source: DataFrame, tmp_path: Path) -> None:
    job = run(source.withWatermark("at", "10 minutes").dropDuplicates(["id", "at"]), tmp_path, "append")

    assert [operator.late_rule for operator in job.checkpoint.operators] == [LateRule.ROW]
    late = list_late(job.checkpoint, lambda event, watermark: event.micros <= watermark)
    assert {batch for batch, count in job.dropped.items() if count} == late != set()


def test_query_without_state_and_group_without_time(source: DataFrame, tmp_path: Path) -> None:
    rows = run(source, tmp_path / "rows", "append")
    totals = run(source.withWatermark("at", "10 minutes").groupBy("k").count(), tmp_path / "totals", "complete")

    assert rows.checkpoint.operators == ()
    assert Counter(operator.late_rule for operator in totals.checkpoint.operators) == {LateRule.NEVER: 1}


def test_a_batch_that_was_killed_before_its_commit_has_written_the_table(source: DataFrame, tmp_path: Path) -> None:
    job = run(count_hourly(source), tmp_path, "append")
    newest = job.checkpoint.batches[-1]
    for file in (f"{newest.number}", f".{newest.number}.crc"):
        (tmp_path / "checkpoint" / "commits" / file).unlink(missing_ok=True)
    checkpoint = read_checkpoint(f"{tmp_path}/checkpoint")

    found = find_position(checkpoint, list_table_versions(job.table, checkpoint))

    assert checkpoint.newest_committed == checkpoint.batches[-2]
    assert isinstance(found, Position)
    assert found.at == newest.planned_at


def test_the_command_prints_the_contract(source: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = run(source, tmp_path, "append")

    assert position(f"{tmp_path}/checkpoint", table=job.table).exit_code == 0

    document: Any = position(f"{tmp_path}/checkpoint", table=job.table).document
    assert json.loads(json.dumps(document))["position"]["topics"] == {"positions-of-jobs": {"0": 30, "1": 30}}
    assert document["position"]["format"] == "cutover.position/1"
    capsys.readouterr()
