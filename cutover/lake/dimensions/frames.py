"""Dimensions in Spark: small ones through Arrow, so that no job reads them again, large ones by Delta's reader."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from cutover.definition.model.topic import normalize_type
from cutover.lake.dimensions import dimension as dimensions
from cutover.lake.dimensions.dimension import Dimension
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.records.enrich import VERSION, VERSION_RANGES, DimensionFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def join_version(spark: "SparkSession", dimension: Dimension, *, broadcast_rows: int) -> DimensionFrame:
    """Return one version, with which every row is joined; a large one stays persisted until `frame.unpersist`."""
    small = dimension.size <= broadcast_rows
    frame = _frame(spark, dimension, small=small)
    if not small:
        # Partitioned and sorted once: an epoch then shuffles only its own rows.
        keys = [f"`{column}`" for column in dimension.lookup.on.values()]
        frame = frame.repartition(*keys).sortWithinPartitions(*keys).persist()
    return DimensionFrame(frame=frame, is_small=small)


def join_versions(
    spark: "SparkSession", versions: Sequence[Dimension], spans: Sequence[VersionSpan], *, broadcast_rows: int
) -> DimensionFrame:
    """Return all versions with which records of some offsets are joined.

    Args:
        spark: The session.
        versions: Versions of one table, at least one.
        spans: Version of each range of offsets; every joined record lies in one span.
        broadcast_rows: Number of rows up to which the dimension is broadcast to every task.
    """
    if len(versions) == 1:
        return join_version(spark, versions[0], broadcast_rows=broadcast_rows)
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own name; only a run needs it

    small = sum(version.size for version in versions) <= broadcast_rows
    frames = [
        _frame(spark, version, small=small).withColumn(VERSION, F.lit(version.version).cast("bigint"))
        for version in versions
    ]
    places = [(span.partition, span.first, span.next, span.version) for span in spans]
    return DimensionFrame(
        frame=reduce(lambda combined, right: combined.unionByName(right), frames),
        is_small=small,
        version_ranges=spark.createDataFrame(places, VERSION_RANGES),
    )


def _frame(spark: "SparkSession", dimension: Dimension, *, small: bool) -> "DataFrame":
    """Return the key columns and the columns that the lookup takes."""
    if small:
        return spark.createDataFrame(dimensions.rows(dimension))
    lookup = dimension.lookup
    zero = {name: " + 0D" for name, kind in lookup.columns.items() if normalize_type(kind) == "double"}
    names = dict.fromkeys([*lookup.on.values(), *lookup.columns])
    read = spark.read.format("delta").option("versionAsOf", dimension.version).load(dimensions.spark_uri(dimension))
    return read.selectExpr(*(f"`{name}`{zero.get(name, '')} AS `{name}`" for name in names))
