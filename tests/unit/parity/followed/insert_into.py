# expects: appended-again
from pyspark.sql import SparkSession

spark = SparkSession.builder.enableHiveSupport().getOrCreate()
spark.read.json("/landing/users").createOrReplaceTempView("users")
query = """
    INSERT INTO warehouse.users
    SELECT id, lower(email) AS email FROM users WHERE email IS NOT NULL
"""
spark.sql(query)
