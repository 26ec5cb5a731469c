"""Two tables compared by DataComPy on Spark, as its documentation shows it: join columns, then `matches()`.

Its report is not asked for, which would take longer. DataComPy is installed by `make bench` alone
(benchmarks/requirements.txt), beside the packages that Cutover runs on.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession


def matches(spark: SparkSession, expected: DataFrame, actual: DataFrame, *, key: Sequence[str]) -> bool:
    """Return whether two frames hold the same rows."""
    from datacompy import SparkSQLCompare  # noqa: PLC0415 -- of the benchmarks alone

    try:
        return bool(SparkSQLCompare(spark, expected, actual, join_columns=list(key)).matches())
    finally:
        spark.catalog.clearCache()
