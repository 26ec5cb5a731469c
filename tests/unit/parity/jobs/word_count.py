# expects: output-mode, checkpoint, unbounded-state
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.format("kafka").option("subscribe", "lines").option("startingOffsets", "earliest").load()
words = lines.select("timestamp", F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
counts = words.groupBy(F.window("timestamp", "1 hour"), "word").count()
counts.writeStream.outputMode("complete").format("console").queryName("counts").start()
