"""The one Structured Streaming query: from exact offsets, a bounded number of records at a time, to a function."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.definition.model.pipeline import Pipeline
from cutover.log import options, topic_partitions
from cutover.log.options import bootstrap_servers
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_JVM_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySource:
    """Input of the query, and the checkpoint where Spark notes its progress until the driver ends."""

    pipeline: Pipeline
    offsets: Mapping[int, int]  # of every partition
    checkpoint: Path

    @property
    def name(self) -> str:
        """Return how Spark lists the query."""
        return query_name(self.pipeline, self.checkpoint)

    @property
    def joins(self) -> bool:
        """True for a join of two topics: both are read by one query."""
        return len(topic_partitions.split_topics(topic_partitions.name_log(self.pipeline))) > 1


def checkpoint_of(folder: Path, run_id: str) -> Path:
    """Return a new, empty place for Spark's notes; those of earlier runs are thrown away."""
    for old in folder.glob("checkpoint-*"):
        shutil.rmtree(old, ignore_errors=True)
    return folder / f"checkpoint-{run_id}"


def query_name(pipeline: Pipeline, checkpoint: Path) -> str:
    """Return how Spark lists the query that writes its notes to a checkpoint."""
    return f"cutover-{pipeline.name}-{checkpoint.name}"


def start(
    spark: "SparkSession", settings: Settings, reading: QuerySource, process_batch: "Callable[[DataFrame, int], None]"
) -> "StreamingQuery":
    """Start the query; `process_batch` is called with every micro-batch and its number, one at a time."""
    # Micro-batches follow one another at once while there is a backlog; the epoch pauses between them.
    # Without input, each look costs Spark and the broker some milliseconds of processor time.
    spark.conf.set("spark.sql.streaming.pollingDelay", f"{max(10, int(settings.stream.trigger_seconds * 1_000))}ms")
    records = spark.readStream.format("kafka").options(**source_options(settings, reading)).load()
    right = (
        f"(topic <=> '{topic_partitions.split_topics(topic_partitions.name_log(reading.pipeline))[-1]}')"
        if reading.joins
        else "false"
    )
    columns = (
        "value",
        f"partition + IF({right}, {RIGHT_PARTITION_BASE}, 0) AS partition",
        "offset",
        "timestamp",
        f"{right} AS _right",
    )
    writer = records.selectExpr(*columns).writeStream
    named_writer = writer.queryName(reading.name).option("checkpointLocation", str(reading.checkpoint))
    return named_writer.trigger(processingTime="0 seconds").foreachBatch(process_batch).start()


def source_options(settings: Settings, reading: QuerySource) -> dict[str, str]:
    """Return the Kafka source's options: exact offsets, nothing skipped, the isolation of the definition."""
    log = topic_partitions.name_log(reading.pipeline)
    starting: dict[str, dict[str, int]] = {topic: {} for topic in topic_partitions.split_topics(log)}
    for partition, offset in reading.offsets.items():
        place = topic_partitions.make_topic_partition(log, partition)
        starting[place.topic][str(place.partition)] = offset
    return {
        **options.make_spark_options(settings.kafka, bootstrap_servers(settings)),
        "subscribe": log,  # a list of topics, with commas between them
        "startingOffsets": json.dumps(starting),
        "maxOffsetsPerTrigger": str(reading.pipeline.max_rows_per_epoch),
        "kafka.isolation.level": reading.pipeline.source.isolation,
        "failOnDataLoss": "true",
    }


def end_offsets(checkpoint: Path, batch: int, log: str) -> dict[int, int]:
    """Return the next offsets that Spark noted for a micro-batch before it called our function.

    The largest offset seen plus one would be wrong: aborted and control records take offsets and are never seen.
    """
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    noted = json.loads(lines[-1])
    return {
        topic_partitions.number_partition(turn, int(partition)): int(offset)
        for turn, topic in enumerate(topic_partitions.split_topics(log))
        for partition, offset in noted.get(topic, {}).items()
    }


def jvm_gone(session: "SparkSession") -> bool:
    """Return whether the JVM that this process started has ended; asked after a failure, so it may be ending now."""
    process = getattr(session.sparkContext._gateway, "proc", None)  # noqa: SLF001 -- PySpark names it nowhere else
    if process is None:
        return False
    try:
        process.wait(timeout=_JVM_END_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
