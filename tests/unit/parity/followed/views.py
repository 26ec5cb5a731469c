# expects: unbounded-state
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
raw = spark.readStream.format("kafka").option("subscribe", "t").option("startingOffsets", "earliest").load()
raw.selectExpr("CAST(value AS STRING) AS word", "timestamp").createOrReplaceTempView("words")
counts = spark.sql("""
    WITH cleaned AS (SELECT lower(word) AS word, timestamp FROM words)
    SELECT window(timestamp, '10 minutes') AS w, word, count(*) AS n FROM cleaned GROUP BY 1, word
""")
counts.writeStream.format("memory").queryName("counts").outputMode("complete").option(
    "checkpointLocation", "/c/words"
).start()
