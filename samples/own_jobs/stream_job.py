"""A team's streaming query: settled payments and revenue of each shop and hour, merged into a Delta table.

python stream_job.py BOOTSTRAP FOLDER
"""

import sys

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as Spark's documentation does

SCHEMA = "event_id bigint, merchant string, amount decimal(10,2), status string, event_time timestamp"


def main(bootstrap: str, folder: str) -> None:
    """Read what the topic has now, in small batches, and end."""
    spark = SparkSession.builder.appName("payments_hourly").getOrCreate()
    table = f"{folder}/payments_hourly"
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    source = source.option("subscribe", "payments").option("startingOffsets", "earliest")
    messages = source.option("maxOffsetsPerTrigger", 1_500).load()
    payments = messages.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("payment")).select("payment.*")
    hourly = (
        payments.where("status = 'settled'")
        .withWatermark("event_time", "10 minutes")
        .groupBy(F.window("event_time", "1 hour"), "merchant")
        .agg(F.count("*").alias("payments"), F.sum("amount").alias("revenue"))
        .select(F.col("window.start").alias("window_start"), "merchant", "payments", "revenue")
    )

    def merge(rows: DataFrame, _batch: int) -> None:
        if not DeltaTable.isDeltaTable(spark, table):
            rows.write.format("delta").save(table)
            return
        (
            DeltaTable.forPath(spark, table)
            .alias("t")
            .merge(rows.alias("s"), "t.window_start = s.window_start AND t.merchant = s.merchant")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    query = hourly.writeStream.outputMode("update").foreachBatch(merge)
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
