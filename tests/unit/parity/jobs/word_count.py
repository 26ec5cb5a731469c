# expects: output-mode, checkpoint
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.format("kafka").option("subscribe", "lines").option("startingOffsets", "earliest").load()
words = lines.select(F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
counts = words.groupBy("word").count()
counts.writeStream.outputMode("complete").format("memory").queryName("counts").start()
