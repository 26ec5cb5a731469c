"""Exact reads of the log by Spark: from an offset to an offset, never to `latest`."""

import json
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from cutover.definition.pipeline import Pipeline
from cutover.log import options
from cutover.log.kafka import bootstrap_servers
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offsets = Mapping[int, tuple[int, int]]
"""Partition -> `[from, to)`."""


def read(spark: "SparkSession", settings: Settings, pipeline: Pipeline, reads: tuple[Offsets, ...]) -> "DataFrame":
    """Return the records of disjoint offset ranges, as Spark's Kafka source gives them.

    Args:
        spark: The session.
        settings: How to reach the log.
        pipeline: Names the topic and the isolation.
        reads: At least one; each at most one range a partition, `[from, to)`.
    """
    frames = [_read(spark, settings, pipeline, offsets) for offsets in reads]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _read(spark: "SparkSession", settings: Settings, pipeline: Pipeline, offsets: Offsets) -> "DataFrame":
    topic = pipeline.source.name
    from_, to = ({str(p): span[end] for p, span in sorted(offsets.items())} for end in (0, 1))
    return (
        spark.read.format("kafka")
        .options(**options.spark(settings.kafka, bootstrap_servers(settings)))
        .option("kafka.isolation.level", pipeline.source.isolation)
        .option("assign", json.dumps({topic: sorted(offsets)}))
        .option("startingOffsets", json.dumps({topic: from_}))
        .option("endingOffsets", json.dumps({topic: to}))
        .option("failOnDataLoss", "true")
        .load()
    )
