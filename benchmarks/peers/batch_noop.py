"""The limit of a batch: the same records read once, parsed, classified, aggregated by window and key, thrown away."""

from pyspark.sql import SparkSession

from cutover.definition.model.pipeline import Pipeline
from cutover.records.classify import classify_records
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials


def scan(spark: SparkSession, *, bootstrap: str, pipeline: Pipeline) -> None:
    """Read a topic from its beginning to its end."""
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", pipeline.source.name)
        .load()
    )
    rows = aggregate_partials(
        classify_records(parse_records(records, pipeline), pipeline, watermark_micros=None), pipeline
    )
    rows.write.format("noop").mode("overwrite").save()
