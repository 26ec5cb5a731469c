# expects: offsets
import os

from pyspark.sql import SparkSession

KAFKA = {"kafka.bootstrap.servers": os.environ["BROKERS"], "subscribe": "orders", "maxOffsetsPerTrigger": "10000"}


def main():
    spark = SparkSession.builder.getOrCreate()
    orders = spark.readStream.format("kafka").options(**KAFKA).load()
    values = orders.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset")
    query = values.writeStream.format("parquet").option("checkpointLocation", "/c/orders").start("/lake/orders")
    query.awaitTermination()


if __name__ == "__main__":
    main()
