"""Lower bound of a streaming path: the same parser, classes and aggregate on every micro-batch, with a noop sink.

It collects and commits nothing and maintains no watermark.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cutover.definition.model.pipeline import Pipeline
from cutover.records.classify import classify_records
from cutover.records.enrich import Dimensions
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials


def start(
    spark: SparkSession,
    *,
    bootstrap: str,
    pipeline: Pipeline,
    checkpoint: Path,
    name: str,
    dimensions: Dimensions,
) -> StreamingQuery:
    """Start a query that reads a topic from its beginning, at most `max_rows_per_epoch` records per micro-batch."""

    def process_batch(batch: DataFrame, _: int) -> None:
        records = parse_records(batch, pipeline, dimensions)
        rows = aggregate_partials(classify_records(records, pipeline, watermark_micros=None), pipeline)
        rows.write.format("noop").mode("overwrite").save()

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", pipeline.source.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", pipeline.max_rows_per_epoch)
        .load()
    )
    return (
        records.writeStream.queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(process_batch)
        .start()
    )
