"""Exact reads of the log by Spark: bounded offset ranges, never up to `latest`, and their planning.

A read can count its records, so that the caller can check that every offset is accounted for. The plan is pure: a few
offset ranges per partition that contain all records of some windows.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from cutover.definition.model.joins import RIGHT_PARTITION_BASE
from cutover.log import options, topic_partitions
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.records.columns import observe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


ISOLATION = "kafka.isolation.level"
Offsets = Mapping[int, tuple[int, int]]
"""Partition -> `[from, to)`."""

_RECORDS = "records"

MERGED_GAP = 5_000  # offsets; reading them is cheaper than another Spark job
MAX_RANGES = 8  # ranges per partition, hence Spark reads


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRead:
    """Offset ranges, and the observation that counts their records when the frame is first evaluated."""

    reads: tuple[Offsets, ...]
    observation: "Observation"

    @property
    def records(self) -> int | None:
        """Number of records; None if the frame has not been evaluated.

        A map task that is repeated because its executor was lost counts its records twice.
        """
        java: Any = self.observation._jo  # noqa: SLF001 -- `get` alone would block forever without an evaluation
        is_complete = java is not None and java.future().isCompleted()
        return int(self.observation.get[_RECORDS]) if is_complete else None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetSpan:
    """Offsets `[first, last]` of one partition."""

    partition: int
    first_offset: int
    last_offset: int  # inclusive


def read_records(spark: "SparkSession", lake: PipelineLake, reads: tuple[Offsets, ...]) -> "DataFrame":
    """Read the records of disjoint offset ranges, with the columns of Spark's Kafka source and `_right boolean`.

    `_right` is true for records of the right topic of a join; its partitions are numbered from `RIGHT_PARTITION_BASE`.

    Args:
        spark: The session.
        lake: Addresses and credentials of the brokers, topics and isolation level.
        reads: Offset ranges `[from, to)`; at least one read, each with at most one range per partition.
    """
    topics = topic_partitions.split_topics(topic_partitions.name_log(lake.pipeline))
    topic_reads = [
        (topic, _select_topic(offsets, topic_index), topic_index)
        for offsets in reads
        for topic_index, topic in enumerate(topics)
    ]
    frames = [
        _read(spark, lake, topic, topic_offsets).selectExpr(
            "* EXCEPT (partition)",
            f"partition + {topic_index * RIGHT_PARTITION_BASE} AS partition",
            f"{bool(topic_index)} AS _right",
        )
        for topic, topic_offsets, topic_index in topic_reads
        if topic_offsets
    ]
    return reduce(lambda frame, other: frame.unionByName(other), frames)


def _select_topic(offsets: Offsets, topic_index: int) -> Offsets:
    """Return the ranges of one topic of the log, by its partition numbers in Kafka."""
    return {
        partition % RIGHT_PARTITION_BASE: span
        for partition, span in offsets.items()
        if partition // RIGHT_PARTITION_BASE == topic_index
    }


def _read(spark: "SparkSession", lake: PipelineLake, topic: str, offsets: Offsets) -> "DataFrame":
    starts, ends = ({str(p): span[index] for p, span in sorted(offsets.items())} for index in (0, 1))
    return (
        spark.read.format("kafka")
        .options(**options.make_spark_options(lake.settings.kafka, bootstrap_servers(lake.settings)))
        .option(ISOLATION, lake.pipeline.source.isolation)
        .option("assign", json.dumps({topic: sorted(offsets)}))
        .option("startingOffsets", json.dumps({topic: starts}))
        .option("endingOffsets", json.dumps({topic: ends}))
        .option("failOnDataLoss", "true")
        .load()
    )


def count_records(frame: "DataFrame", reads: tuple[Offsets, ...]) -> "tuple[DataFrame, CountedRead]":
    """Return a frame that counts its records while it is evaluated.

    Args:
        frame: Records as `read_records` returns them.
        reads: The ranges that the frame reads.
    """
    from pyspark.sql import Observation  # noqa: PLC0415 -- other commands need not load Spark

    observation = Observation()
    counting = observe(frame, observation, (f"count(1) AS {_RECORDS}",))
    return counting, CountedRead(reads=reads, observation=observation)


def plan_reads(spans: Iterable[OffsetSpan], *, max_ranges: int = MAX_RANGES) -> tuple[Offsets, ...]:
    """Plan disjoint reads that together cover every span; each read has at most one range per partition.

    Spans that overlap or are at most `MERGED_GAP` offsets apart are merged. If more than `max_ranges` ranges of a
    partition remain, they are merged over the smallest gaps.
    """
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for span in sorted(spans):
        ranges = by_partition.setdefault(span.partition, [])
        if ranges and span.first_offset <= ranges[-1][1] + MERGED_GAP:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], span.last_offset + 1))
        else:
            ranges.append((span.first_offset, span.last_offset + 1))
    ranges_by_partition = {partition: _merge_ranges(ranges, max_ranges) for partition, ranges in by_partition.items()}
    read_count = max((len(ranges) for ranges in ranges_by_partition.values()), default=0)
    return tuple(
        {p: ranges[i] for p, ranges in ranges_by_partition.items() if i < len(ranges)} for i in range(read_count)
    )


def _merge_ranges(ranges: Sequence[tuple[int, int]], max_ranges: int) -> list[tuple[int, int]]:
    """Merge ranges over the smallest gaps until `max_ranges` remain."""
    gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i - 1][1] - ranges[i][0])
    borders = sorted(gaps[: max_ranges - 1])  # the widest gaps remain
    starts, ends = [0, *borders], [*borders, len(ranges)]
    return [(ranges[a][0], ranges[b - 1][1]) for a, b in zip(starts, ends, strict=True)]
