# expects: none
from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast

spark = SparkSession.builder.getOrCreate()
shops = spark.read.table("shops")
source = spark.readStream.format("kafka").option("subscribe", "sales").option("startingOffsets", "earliest")
sales = source.load().selectExpr("CAST(key AS STRING) AS shop", "CAST(value AS STRING) AS sale")
enriched = sales.join(broadcast(shops), "shop", "left")
enriched.writeStream.format("delta").option("checkpointLocation", "/c/sales").toTable("enriched")
