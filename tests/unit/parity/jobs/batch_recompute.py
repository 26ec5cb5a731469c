# expects: none
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
rows = spark.read.format("kafka").option("subscribe", "sales").option("startingOffsets", "earliest").load()
parsed = rows.select(F.from_json(F.col("value").cast("string"), "shop string, cents bigint, at timestamp").alias("e"))
totals = parsed.groupBy(F.window("e.at", "1 hour"), "e.shop").agg(F.sum("e.cents").alias("cents"), F.count("*"))
totals.write.format("delta").mode("overwrite").save("/t/totals")
