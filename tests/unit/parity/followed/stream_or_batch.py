# expects: none
import argparse

from pyspark.sql import SparkSession


def run(streaming: bool) -> None:
    spark = SparkSession.builder.getOrCreate()
    reader = spark.readStream if streaming else spark.read
    rows = reader.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()
    values = rows.selectExpr("CAST(value AS STRING)", "partition", "offset")
    if streaming:
        values.writeStream.format("delta").option("checkpointLocation", "/c/t").start("/t/values")
    else:
        values.write.format("delta").mode("overwrite").save("/t/values")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--streaming", action="store_true")
    run(parser.parse_args().streaming)
