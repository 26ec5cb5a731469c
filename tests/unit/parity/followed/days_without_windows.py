# expects: watermark-without-effect, output-mode
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
source = spark.readStream.format("kafka").option("subscribe", "events").option("startingOffsets", "earliest")
events = source.load().withWatermark("timestamp", "10 minutes")
days = events.withColumn("day", F.to_date("timestamp")).groupBy("day").count()
days.writeStream.outputMode("update").format("console").option("checkpointLocation", "/c/days").start()
