"""Detection of duplicates: of records with the same id and event time (twins) one counts, the others do not."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.record_ids import compute_oldest_remembered
from cutover.records.classify import future_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MOST_LISTED = 1_000
"""Maximum number of positions in an IN list; more of them are joined instead."""

_MIN_IN_LIST = 11  # entries: one more than `spark.sql.optimizer.inSetConversionThreshold`

IS_TWIN = "__twin"
CONFLICT = "__conflict"


def can_count_sql(pipeline: Pipeline) -> str:
    """Return the condition over the parser's columns that a record can count; only such records' ids are tracked."""
    is_future = future_sql(pipeline, "unix_micros(_event_time)")
    return f"(_reason IS NULL AND NOT _filtered AND NOT coalesce({is_future}, false))"


def select_candidates(parsed: "DataFrame", pipeline: Pipeline, watermark: int | None) -> "DataFrame":
    """Return the records of an epoch whose ids are looked up: those that can count and whose ids have not expired.

    Args:
        parsed: Records as `parser.parse_records` returns them.
        pipeline: A pipeline with a record id.
        watermark: The watermark by which the epoch is classified, in microseconds.

    Returns:
        `id` (of the id column's type), `event_time bigint` (microseconds), `partition int`, `offset bigint`.
    """
    is_candidate, oldest_remembered = can_count_sql(pipeline), compute_oldest_remembered(pipeline, watermark)
    if oldest_remembered is not None:  # as a decimal: Spark would recompile the code for each bigint literal
        event = "CAST(unix_micros(_event_time) AS decimal(20,0))"
        is_candidate += f" AND {event} - CAST('{oldest_remembered}' AS decimal(20,0)) >= 0"
    return parsed.where(is_candidate).selectExpr(
        f"`{pipeline.source.record_id}` AS id",
        "unix_micros(_event_time) AS event_time",
        "_partition AS partition",
        "_offset AS offset",
    )


def match_positions_sql(positions: Iterable[tuple[int, int]]) -> str:
    """Return the condition, over the parser's columns, that a record is at one of some (partition, offset) positions.

    Short lists are padded to more than ten entries: Spark then passes the list to the generated code as a set, so the
    code does not depend on the positions and is compiled only once.
    """
    literals = [f"'{partition}:{offset}'" for partition, offset in positions]
    if not literals:
        return "false"
    padding = (f"':{number}'" for number in range(_MIN_IN_LIST - len(literals)))
    return f"concat(_partition, ':', _offset) IN ({', '.join([*literals, *padding])})"


def flag_records(parsed: "DataFrame", positions: "pa.Table") -> tuple["DataFrame", str]:
    """Return the records, possibly with a helper column, and the Spark SQL condition that is true at some positions.

    Args:
        parsed: Records as `parser.parse_records` returns them.
        positions: `partition int`, `offset bigint`.
    """
    if positions.num_rows <= MOST_LISTED:
        columns = (positions[name].to_pylist() for name in ("partition", "offset"))
        return parsed, match_positions_sql(zip(*columns, strict=True))
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's name for it

    position_columns = positions.select(["partition", "offset"]).rename_columns(["__partition", "__offset"])
    flagged_positions = parsed.sparkSession.createDataFrame(position_columns).withColumn(IS_TWIN, F.lit(True))  # noqa: FBT003 -- a literal
    is_same_position = F.expr("_partition = __partition AND _offset = __offset")
    joined = parsed.join(F.broadcast(flagged_positions), is_same_position, "left").drop("__partition", "__offset")
    return joined, f"coalesce({IS_TWIN}, false)"


def mark_duplicates(parsed: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    """Mark each record whose twin at a lower log position (partition, then offset) counts instead of it.

    Args:
        parsed: Records as `parser.parse_records` returns them; twins are detected among all of them.
        pipeline: A pipeline with a record id.

    Returns:
        The columns of `parsed`, `__twin boolean` and `__conflict int` (1 if the record counts and so does one with the
        same id and an earlier event time); never null.
    """
    # A record that cannot count is its own partition: a shared null would send all of them to one task.
    partition_by = f"IF({can_count_sql(pipeline)}, NULL, struct(_partition, _offset)), `{pipeline.source.record_id}`"
    over = f"OVER (PARTITION BY {partition_by} ORDER BY _event_time, _partition, _offset)"
    with_predecessors = parsed.selectExpr("*", f"lag(_event_time) {over} AS __previous")
    columns = [f"`{name}`" for name in parsed.columns]
    return with_predecessors.selectExpr(
        *columns,
        f"coalesce(__previous = _event_time, false) AS {IS_TWIN}",
        f"IF(coalesce(__previous < _event_time, false), 1, 0) AS {CONFLICT}",
    )
