# expects: not-idempotent
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
visits = (
    spark.readStream.option("kafka.bootstrap.servers", "kafka:9092")
    .option("subscribe", "visits")
    .option("startingOffsets", "earliest")
    .format("kafka")
    .load()
)
(
    visits.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", "kafka:9092")
    .option("topic", "copied")
    .option("checkpointLocation", "/c/copied")
    .start()
)
