"""Windows folded again from the log by Spark, once with the stream's versions of dimensions and once with batch's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import readback
from cutover.engine.effective_settings import EffectiveSettings
from cutover.engine.spark import session
from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.joined_versions import Rejoin, Spans
from cutover.lake.tables.schemas import partial_schema
from cutover.pipeline_lake import PipelineLake
from cutover.records import classify
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.enrich import Dimensions
from cutover.records.fold import finish_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from cutover.records.reading.scan import Offsets, read_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RefoldPart:
    """Windows, with the offsets of their records and the versions to join them with."""

    windows: tuple[int, ...]  # starts, microseconds
    reads: Offsets
    by_stream: Spans
    by_batch: Spans


def create_refold_tables(
    connection: duckdb.DuckDBPyConnection,
    lake: PipelineLake,
    parts: Sequence[RefoldPart],
    *,
    into: tuple[str, str],
    further: Sequence[Class] = (),
) -> EffectiveSettings:
    """Create two tables with the rows of `fold.finish_sql`: joined as the stream did, and as batch did.

    Args:
        connection: Connection that gets the tables.
        lake: Pipeline whose log is read again.
        parts: Windows, their offsets, and the versions of each side.
        into: Names of the two tables.
        further: Classes that are folded as well: each additional table folds one more of them (`table_with_classes`).

    Returns:
        The settings in force in the Spark session that folded them.

    Raises:
        LakeError: A version cannot be read.
    """
    pipeline = lake.pipeline
    spark, rejoin = session(lake.settings, app=f"cutover reconcile {pipeline.name}"), Rejoin(lake)
    for name, side in zip(into, ("by_stream", "by_batch"), strict=True):
        rows = []
        for part in parts:
            spans = {
                lookup: joined_versions.spans_to_read(getattr(part, side)[lookup], [part.reads], (0, ""))
                for lookup in pipeline.lookups
            }
            records = read_records(spark, lake, (part.reads,))
            rows.append(
                _aggregate_windows(
                    _classify_without_late(records, pipeline, rejoin.frames(spark, spans)), pipeline, part.windows
                )
            )
        connection.register("refolded", pa.concat_tables(rows))
        for class_count in range(len(further) + 1):
            folded = finish_sql(pipeline, "refolded", keep=(Class.ACCEPTED, *further[:class_count]))
            connection.execute(f"CREATE TEMP TABLE {table_with_classes(name, class_count)} AS {folded}")
        connection.unregister("refolded")
    return readback.read_session_settings(spark, pipeline)


def table_with_classes(name: str, class_count: int) -> str:
    """Return the table of `create_refold_tables` in which the first `class_count` further classes are folded too."""
    return f"{name}_{class_count}" if class_count else name


def _classify_without_late(records: "DataFrame", pipeline: Pipeline, dimensions: Dimensions) -> "DataFrame":
    """Return classified rows without lateness; records with an id count once, as in batch."""
    rows = parse_records(records, pipeline, dimensions)
    if pipeline.source.record_id is None:
        return classify_records(rows, pipeline, watermark_micros=None)
    return classify_records(
        classify.mark_duplicates(rows, pipeline), pipeline, watermark_micros=None, duplicate=classify.IS_TWIN
    )


def _aggregate_windows(classified: "DataFrame", pipeline: Pipeline, windows: Sequence[int]) -> pa.Table:
    """Aggregate the rows of windows (starts in microseconds) in the schema of partial aggregates."""
    starts = ", ".join(f"{start}L" for start in windows)
    selected = classified.where(f"unix_micros(window_start) IN ({starts})")
    schema = partial_schema(pipeline)
    return aggregate_partials(selected, pipeline).toArrow().select(schema.names).cast(schema)
