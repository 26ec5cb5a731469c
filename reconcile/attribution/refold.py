"""Windows folded anew from the log by Spark, once as the stream joined its records and once as batch did."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import readback
from cutover.engine.in_force import InForce
from cutover.engine.spark import session
from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.rejoin import Rejoin, Spans
from cutover.lake.tables.schemas import partial_schema
from cutover.records import duplicates
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.enrich import Dimensions
from cutover.records.fold import finish_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from cutover.records.reading.scan import Offsets, read
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RefoldPart:
    """Windows whose records lie in some offsets."""

    windows: tuple[int, ...]  # starts, microseconds
    reads: Offsets
    by_stream: Spans
    by_batch: Spans


def make(
    connection: duckdb.DuckDBPyConnection,
    settings: Settings,
    pipeline: Pipeline,
    parts: Sequence[RefoldPart],
    *,
    into: tuple[str, str],
    further: Sequence[Class] = (),
) -> InForce:
    """Make two tables of what `fold.finish_sql` returns: joined as the stream did, joined as batch did.

    Args:
        connection: Where the tables are made.
        settings: How to reach the log.
        pipeline: The definition.
        parts: Which windows, of which records, joined with which versions on each side.
        into: The names of the two tables.
        further: Classes whose rows are folded too, one more in each of as many tables beside (`counting`).

    Returns:
        The settings in force in the session that did it.

    Raises:
        LakeError: A version cannot be read.
    """
    spark, rejoin = session(settings, app=f"cutover reconcile {pipeline.name}"), Rejoin(settings, pipeline)
    for name, of in zip(into, ("by_stream", "by_batch"), strict=True):
        rows = []
        for part in parts:
            wanted = {
                lookup: joined_versions.spans_to_read(getattr(part, of)[lookup], [part.reads], (0, ""))
                for lookup in pipeline.lookups
            }
            records = read(spark, settings, pipeline, (part.reads,))
            rows.append(
                _aggregate_windows(
                    _classify_without_late(records, pipeline, rejoin.frames(spark, wanted)), pipeline, part.windows
                )
            )
        connection.register("refolded", pa.concat_tables(rows))
        for also in range(len(further) + 1):
            folded = finish_sql(pipeline, "refolded", keep=(Class.ACCEPTED, *further[:also]))
            connection.execute(f"CREATE TEMP TABLE {counting(name, also)} AS {folded}")
        connection.unregister("refolded")
    return readback.of_session(spark, pipeline)


def counting(name: str, also: int) -> str:
    """Return the table of `make` in which the first `also` of the further classes are folded too."""
    return f"{name}_{also}" if also else name


def _classify_without_late(records: "DataFrame", pipeline: Pipeline, dimensions: Dimensions) -> "DataFrame":
    """Return classified rows without lateness; of records with an id each counts once, as batch has it."""
    rows = parse_records(records, pipeline, dimensions)
    if pipeline.source.record_id is None:
        return classify_records(rows, pipeline, watermark_micros=None)
    return classify_records(
        duplicates.mark_duplicates(rows, pipeline), pipeline, watermark_micros=None, duplicate=duplicates.IS_TWIN
    )


def _aggregate_windows(judged: "DataFrame", pipeline: Pipeline, windows: Sequence[int]) -> pa.Table:
    """Aggregate rows of windows that begin at the given microseconds, in the schema of partial aggregates."""
    starts = ", ".join(f"{start}L" for start in windows)
    expression = judged.where(f"unix_micros(window_start) IN ({starts})")
    schema = partial_schema(pipeline)
    return aggregate_partials(expression, pipeline).toArrow().select(schema.names).cast(schema)
