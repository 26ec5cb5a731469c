# expects: watermark-without-effect
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest")
counts = source.load().withWatermark("timestamp", "1 hour").groupBy("key").count()


def upsert(batch, number):
    target = DeltaTable.forPath(spark, "/t/counts").alias("t")
    target.merge(batch.alias("s"), "t.key = s.key").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


counts.writeStream.outputMode("update").foreachBatch(upsert).option("checkpointLocation", "/c/counts").start()
