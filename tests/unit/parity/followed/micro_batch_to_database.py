# expects: not-idempotent, offsets, checkpoint
from pyspark.sql import SparkSession

URL = "jdbc:postgresql://db/shop"


def save(batch_df, batch_id):
    if batch_df.rdd.isEmpty():
        return
    batch_df.write.jdbc(URL, "events", mode="append", properties={"driver": "org.postgresql.Driver"})


def main():
    spark = SparkSession.builder.appName("to-postgres").getOrCreate()
    df = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "events")
        .option("startingOffsets", "latest")
        .load()
    )
    df.selectExpr("CAST(value AS STRING)").writeStream.foreachBatch(save).start().awaitTermination()


main()
