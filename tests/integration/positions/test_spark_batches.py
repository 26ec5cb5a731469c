"""Batch jobs as teams write them in Spark: the position that they record is the one of their table."""

# ruff: noqa: S608 -- the queries of a test name its own table

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cutover.positions.position import Position, UnknownPosition
from cutover.positions.table_position import find_table_position

VACUUM_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def encode(offset: int) -> str:
    """Return what `CUTOVER_CUT` holds: Spark's own form of offsets."""
    return json.dumps({"payments": {"0": offset}})


def read_offset(table: str) -> int | str:
    position = find_table_position(table).position
    return position.reason if isinstance(position, UnknownPosition) else position.topics["payments"][0]


@pytest.mark.quick
def test_the_option_of_a_write_states_the_position(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path)
    rows = spark.range(4).repartition(2)
    rows.write.format("delta").option("userMetadata", encode(10)).save(table)
    assert read_offset(table) == 10
    rows.write.format("delta").mode("overwrite").option("userMetadata", encode(20)).save(table)
    assert read_offset(table) == 20


def test_maintenance_leaves_the_position_and_a_restore_does_not(spark: SparkSession, tmp_path: Path) -> None:
    table, rows = str(tmp_path), spark.range(4).repartition(2)
    for offset in (10, 20):
        rows.write.format("delta").mode("overwrite").option("userMetadata", encode(offset)).save(table)
    spark.sql(f"OPTIMIZE delta.`{table}`")
    spark.conf.set(VACUUM_TASKS, "2")  # by default VACUUM lists a folder in 10,000 tasks
    spark.sql(f"VACUUM delta.`{table}`")
    spark.conf.unset(VACUUM_TASKS)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('a' = 'b')")
    assert read_offset(table) == 20

    spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF 0")
    assert "(RESTORE) changed rows" in str(read_offset(table))


def test_a_session_states_a_position_only_by_what_it_writes(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path)
    spark.range(4).write.format("delta").option("userMetadata", encode(10)).save(table)
    spark.sql(f"SET {USER_METADATA} = {encode(20)}")
    try:
        spark.sql(f"OPTIMIZE delta.`{table}`")
        spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('a' = 'b')")
        assert read_offset(table) == 10
        spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 0")
        assert "(DELETE) changed rows" in str(read_offset(table))
        spark.range(8).createOrReplaceTempView("changes")
        merge = f"MERGE INTO delta.`{table}` t USING changes s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        spark.sql(merge)
        assert read_offset(table) == 20
    finally:
        spark.sql(f"RESET {USER_METADATA}")

    spark.sql(f"INSERT INTO delta.`{table}` VALUES (99)")
    assert "(WRITE) changed rows without a position" in str(read_offset(table))


def test_a_table_with_deletion_vectors_has_a_position(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path)
    spark.sql(
        f"CREATE TABLE delta.`{table}` (id bigint) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = true)"
    )
    spark.range(8).write.format("delta").mode("append").option("userMetadata", encode(10)).save(table)
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 3")
    assert "(DELETE) changed rows" in str(read_offset(table))
    spark.range(8, 9).write.format("delta").mode("append").option("userMetadata", encode(20)).save(table)
    assert read_offset(table) == 20

    assert isinstance(find_table_position(table).position, Position)
