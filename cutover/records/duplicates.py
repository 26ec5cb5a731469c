"""Twins among records: same id, same event time. One of them counts; Spark finds the others in one shuffle."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.record_ids import compute_oldest_remembered
from cutover.records.classify import future_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MOST_LISTED = 1_000
"""Positions that stand in a query's text; more of them are joined."""

_LISTED = 11  # entries: `spark.sql.optimizer.inSetConversionThreshold` and one more

IS_TWIN = "__twin"
CONFLICT = "__conflict"


def can_count_sql(pipeline: Pipeline) -> str:
    """Return whether a record could count: only such records are known by their ids. Over the parser's columns."""
    future = future_sql(pipeline, "unix_micros(_event_time)")
    return f"(_reason IS NULL AND NOT _filtered AND NOT coalesce({future}, false))"


def select_candidates(parsed: "DataFrame", pipeline: Pipeline, watermark: int | None) -> "DataFrame":
    """Return the records of an epoch whose ids are looked up: what could count and is not forgotten.

    Args:
        parsed: What `parse.parsed` returns.
        pipeline: With a record id.
        watermark: That judges the epoch, microseconds.

    Returns:
        `id` (of the id's own type), `event_time bigint` (microseconds), `partition int`, `offset bigint`.
    """
    condition, remembered = can_count_sql(pipeline), compute_oldest_remembered(pipeline, watermark)
    if remembered is not None:  # as a decimal: a bigint would be compiled anew in each epoch
        event = "CAST(unix_micros(_event_time) AS decimal(20,0))"
        condition += f" AND {event} - CAST('{remembered}' AS decimal(20,0)) >= 0"
    return parsed.where(condition).selectExpr(
        f"`{pipeline.source.record_id}` AS id",
        "unix_micros(_event_time) AS event_time",
        "_partition AS partition",
        "_offset AS offset",
    )


def match_positions_sql(positions: Iterable[tuple[int, int]]) -> str:
    """Return whether a record is one of some, by partition and offset. Over the parser's columns.

    However many they are the generated code is the same: Spark keeps a list that is longer than ten apart from it.
    """
    literals = [f"'{partition}:{offset}'" for partition, offset in positions]
    if not literals:
        return "false"
    filling = (f"':{number}'" for number in range(_LISTED - len(literals)))
    return f"concat(_partition, ':', _offset) IN ({', '.join([*literals, *filling])})"


def flag_records(parsed: "DataFrame", positions: "pa.Table") -> tuple["DataFrame", str]:
    """Return records, and the Spark SQL over them that is true of those at some positions.

    Args:
        parsed: What `parse.parsed` returns.
        positions: `partition int`, `offset bigint`.
    """
    if positions.num_rows <= MOST_LISTED:
        columns = (positions[name].to_pylist() for name in ("partition", "offset"))
        return parsed, match_positions_sql(zip(*columns, strict=True))
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own name for it

    position_columns = positions.select(["partition", "offset"]).rename_columns(["__partition", "__offset"])
    flagged_positions = parsed.sparkSession.createDataFrame(position_columns).withColumn(IS_TWIN, F.lit(True))  # noqa: FBT003 -- a literal
    is_same_position = F.expr("_partition = __partition AND _offset = __offset")
    joined = parsed.join(F.broadcast(flagged_positions), is_same_position, "left").drop("__partition", "__offset")
    return joined, f"coalesce({IS_TWIN}, false)"


def mark_duplicates(parsed: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    """Say of each record whether one of the lowest log position (partition, then offset) counts instead of it.

    Args:
        parsed: What `parse.parsed` returns, of all records among which twins are looked for.
        pipeline: With a record id.

    Returns:
        The columns given, `__twin boolean` and `__conflict int` (1 where it counts and one with the same id and an
        earlier event time does too); never null.
    """
    # What cannot count is alone: nulls of one group would all go to one task.
    partition_by = f"IF({can_count_sql(pipeline)}, NULL, struct(_partition, _offset)), `{pipeline.source.record_id}`"
    over = f"OVER (PARTITION BY {partition_by} ORDER BY _event_time, _partition, _offset)"
    with_predecessors = parsed.selectExpr("*", f"lag(_event_time) {over} AS __before")
    columns = [f"`{name}`" for name in parsed.columns]
    return with_predecessors.selectExpr(
        *columns,
        f"coalesce(__before = _event_time, false) AS {IS_TWIN}",
        f"IF(coalesce(__before < _event_time, false), 1, 0) AS {CONFLICT}",
    )
