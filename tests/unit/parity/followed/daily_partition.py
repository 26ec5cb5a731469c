# expects: none
import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

parser = argparse.ArgumentParser()
parser.add_argument("--day", required=True)
args = parser.parse_args()

spark = SparkSession.builder.getOrCreate()
events = spark.read.parquet("/lake/events").where(col("day") == args.day)
totals = events.groupBy("shop").count()
totals.write.mode("append").partitionBy("shop").saveAsTable("totals")
