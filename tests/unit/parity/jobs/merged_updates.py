# expects: none
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest").load()


def upsert(batch, number):
    target = DeltaTable.forPath(spark, "/t/state")
    target.alias("t").merge(
        batch.alias("s"), "t.key = s.key"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


counts = rows.groupBy("key").count()
counts.writeStream.outputMode("update").foreachBatch(upsert).option("checkpointLocation", "/c/state").start()
