"""Comparison of two tables by DataComPy on Spark, as in its documentation: join columns, then `matches()`.

It makes no report, which would take longer. Only `make bench` installs DataComPy (benchmarks/requirements.txt), in
addition to Cutover's packages.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession


def matches(spark: SparkSession, expected: DataFrame, actual: DataFrame, *, key: Sequence[str]) -> bool:
    """Check that two frames have equal rows."""
    from datacompy import SparkSQLCompare  # noqa: PLC0415 -- only installed for benchmarks

    try:
        return bool(SparkSQLCompare(spark, expected, actual, join_columns=list(key)).matches())
    finally:
        spark.catalog.clearCache()
