"""Lower bound of a batch run: records are read once, parsed, classified and aggregated, with a noop sink."""

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
