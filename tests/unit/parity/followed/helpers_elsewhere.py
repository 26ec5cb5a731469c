# expects: not-understood
from pyspark.sql import SparkSession
from pyspark.sql.functions import window
from shop.cleaning import clean

spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("subscribe", "sales").option("startingOffsets", "earliest")
sales = clean(source.load())
counts = sales.groupBy(window("timestamp", "1 hour")).count()
counts.writeStream.format("delta").option("checkpointLocation", "/c/sales").start("/t/sales")
