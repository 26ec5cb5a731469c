# expects: watermark
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

spark = SparkSession.builder.getOrCreate()


def read(topic, alias):
    source = spark.readStream.format("kafka").option("subscribe", topic).option("startingOffsets", "earliest")
    return source.load().selectExpr(f"CAST(key AS STRING) AS {alias}_id", f"timestamp AS {alias}_at")


impressions = read("impressions", "shown").withWatermark("shown_at", "2 hours")
clicked = read("clicks", "clicked").withWatermark("clicked_at", "3 hours")
joined = impressions.join(
    clicked,
    expr("shown_id = clicked_id AND clicked_at >= shown_at AND clicked_at <= shown_at + interval 1 hour"),
    "leftOuter",
)
joined.writeStream.format("delta").option("checkpointLocation", "/c/joined").start("/t/joined")
