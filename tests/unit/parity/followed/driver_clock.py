# expects: clock
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

spark = SparkSession.builder.getOrCreate()
cutoff = datetime.utcnow() - timedelta(days=1)
orders = spark.read.table("orders").where(col("ordered_at") > cutoff)
orders.write.mode("overwrite").saveAsTable("recent_orders")
