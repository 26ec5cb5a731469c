# expects: micro-batch-totals
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("revenue").getOrCreate()


def save(batch, batch_id):
    totals = batch.groupBy("shop").agg(F.sum("cents").alias("cents"))
    totals.write.mode("overwrite").parquet(f"/revenue/batch={batch_id}")


orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "kafka:9092")
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
    .selectExpr("CAST(key AS STRING) AS shop", "CAST(value AS BIGINT) AS cents")
)
orders.writeStream.foreachBatch(save).option("checkpointLocation", "/checkpoints/revenue").start().awaitTermination()
