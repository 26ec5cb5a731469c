# expects: not-understood
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
lines = spark.sparkContext.textFile("/logs")
pairs = lines.flatMap(lambda line: line.split()).map(lambda word: (word, 1))
pairs.reduceByKey(lambda a, b: a + b).saveAsTextFile("/counts")
