"""Rows of a test as a DataFrame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = "value binary, partition int, offset bigint, timestamp timestamp"
"""What a Kafka source gives, as far as the paths read it."""


def frame(spark: "SparkSession", rows: Sequence[tuple[Any, ...]], schema: str = LOG) -> "DataFrame":
    """Return rows as a DataFrame, by Arrow: of a list of tuples Spark would start Python workers, a second each."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 -- only where Spark is
    from pyspark.sql.types import StructType  # noqa: PLC0415 -- the same

    types = StructType.fromDDL(schema)
    assert isinstance(types, StructType)
    fields = to_arrow_schema(types, timezone="UTC")
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(fields)]
    data_frame: DataFrame = spark.createDataFrame(pa.table(columns, schema=fields), types)
    return data_frame
