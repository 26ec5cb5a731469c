# expects: none
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.getOrCreate()
parts = [spark.read.parquet(f"/lake/{region}") for region in ("eu", "us", "asia")]
everything = reduce(DataFrame.unionByName, parts).dropDuplicates(["id"])
everything.repartition(8).write.partitionBy("region").mode("overwrite").parquet("/lake/all")
