"""The limit of a batch: the same records read once, parsed, classified, aggregated by window and key, thrown away."""

from pyspark.sql import SparkSession

from cutover.definition.model.pipeline import Pipeline
from cutover.records.classify import classified
from cutover.records.parsing.parser import parsed
from cutover.records.partials import aggregated


def scan(spark: SparkSession, *, bootstrap: str, pipeline: Pipeline) -> None:
    """Read a topic from its beginning to its end."""
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", pipeline.source.name)
        .load()
    )
    rows = aggregated(classified(parsed(records, pipeline), pipeline, watermark_micros=None), pipeline)
    rows.write.format("noop").mode("overwrite").save()
