"""Exact reads of the log by Spark: from an offset to an offset, never to `latest`."""

import json
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.definition.model.pipeline import Pipeline
from cutover.log import options, topic_partitions
from cutover.log.address import bootstrap_servers
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ISOLATION = "kafka.isolation.level"
Offsets = Mapping[int, tuple[int, int]]
"""Partition -> `[from, to)`."""


def read_records(
    spark: "SparkSession", settings: Settings, pipeline: Pipeline, reads: tuple[Offsets, ...]
) -> "DataFrame":
    """Return the records of disjoint offset ranges, as Spark's Kafka source gives them, and `_right boolean`.

    `_right` says of a join of two topics that a record is of the right one, whose partitions are numbered as in `two`.

    Args:
        spark: The session.
        settings: How to reach the log.
        pipeline: Names the topic and the isolation.
        reads: At least one; each at most one range a partition, `[from, to)`.
    """
    topics = topic_partitions.topics_of(topic_partitions.log_of(pipeline))
    topic_reads = [
        (topic, _select_topic(offsets, topic_index), topic_index)
        for offsets in reads
        for topic_index, topic in enumerate(topics)
    ]
    frames = [
        _read(spark, settings, pipeline, topic, topic_offsets).selectExpr(
            "* EXCEPT (partition)", f"partition + {turn * RIGHT_PARTITION_BASE} AS partition", f"{bool(turn)} AS _right"
        )
        for topic, topic_offsets, turn in topic_reads
        if topic_offsets
    ]
    return reduce(lambda frame, other: frame.unionByName(other), frames)


def _select_topic(offsets: Offsets, turn: int) -> Offsets:
    """Return the ranges of one topic of the log, by Kafka's numbers of its partitions."""
    return {
        partition % RIGHT_PARTITION_BASE: span
        for partition, span in offsets.items()
        if partition // RIGHT_PARTITION_BASE == turn
    }


def _read(spark: "SparkSession", settings: Settings, pipeline: Pipeline, topic: str, offsets: Offsets) -> "DataFrame":
    from_, to = ({str(p): span[end] for p, span in sorted(offsets.items())} for end in (0, 1))
    return (
        spark.read.format("kafka")
        .options(**options.spark(settings.kafka, bootstrap_servers(settings)))
        .option(ISOLATION, pipeline.source.isolation)
        .option("assign", json.dumps({topic: sorted(offsets)}))
        .option("startingOffsets", json.dumps({topic: from_}))
        .option("endingOffsets", json.dumps({topic: to}))
        .option("failOnDataLoss", "true")
        .load()
    )
