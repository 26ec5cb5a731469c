"""Slices: a record of sliding windows is aggregated once; the driver makes windows from what slices add up to.

Only records that count in all of their windows are: a late one keeps a row for each of its windows. What is committed
adds up to the same as without slices.

Source:
    Li et al., No Pane, No Gain, SIGMOD Record 34(1), 2005, section 3 (there a slice is called a pane).
"""

# ruff: noqa: S608 -- numbers and constant names

import pyarrow as pa
import pyarrow.compute as pc

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.sliding import SlidingWindows
from cutover.engine import queries
from cutover.lake.tables.schemas import partial_schema
from cutover.records.classes import Class
from cutover.settings import Settings
from cutover.streaming.compaction.merge import merge_sql

MOST = 20
"""Times the limit that rows of windows may be before they are merged."""


def are_of(pipeline: Pipeline) -> bool:
    """Return whether a pipeline's records are aggregated by slice: of a join the rows of both sides are kept."""
    return pipeline.window.slice_micros is not None and pipeline.join is None


def open_slices(rows: pa.Table, pipeline: Pipeline, settings: Settings) -> pa.Table | None:
    """Make rows of windows from those of slices; rows of a window and key are merged.

    Args:
        rows: The partial shape (`partials.aggregate_partials`); an accepted row as long as a slice represents all of
            its windows.
        pipeline: A definition with sliding windows.
        settings: For `stream.overflow_rows`, which rows may be at most, and `stream.fold_memory`, then disk.

    Returns:
        The partial shape, `_unknown` null in rows that count; None: they would be too many.
    """
    window, schema, limit = pipeline.window, partial_schema(pipeline), settings.stream.overflow_rows
    is_accepted = pc.equal(rows["_class"], pa.scalar(Class.ACCEPTED.value))
    other_rows = rows.filter(pc.invert(is_accepted))
    if (
        not isinstance(window, SlidingWindows)
        or (rows.num_rows - other_rows.num_rows) * window.max_windows > MOST * limit
    ):
        return None
    with queries.connect(queries.Bounds(memory=settings.stream.fold_memory, home=settings.home)) as connection:
        connection.register("found", rows.filter(is_accepted))
        merged = merge_sql(pipeline, schema, f"({_expand_slices_sql(window)})")
        connection.execute(f"CREATE TEMP TABLE merged AS {merged}")
        table = queries.read_table(connection, f"SELECT * FROM merged LIMIT {int(limit) + 1}")
    return pa.concat_tables([table.cast(schema), other_rows]) if table.num_rows + other_rows.num_rows <= limit else None


def _expand_slices_sql(window: SlidingWindows) -> str:
    """Return the query of the rows `found`, those of slices once for each of their windows."""
    start = "epoch_us(window_start)"
    into = f"(({start} - {window.offset}) % {window.every} + {window.every}) % {window.every}"
    newest = f"{start} - {into}"
    oldest = f"{newest} - (({window.size - 1} - {into}) // {window.every}) * {window.every}"
    starts = f"unnest(generate_series({newest}, {oldest}, {-window.every}))"
    is_slice = f"epoch_us(window_end) - {start} = {window.slice_micros}"
    opened = f"SELECT *, {starts} AS __start FROM found WHERE {is_slice}"
    bounds = f"make_timestamptz(__start) AS window_start, make_timestamptz(__start + {window.size}) AS window_end"
    return (
        f"SELECT * EXCLUDE (__start) REPLACE ({bounds}) FROM ({opened})"
        f" UNION ALL SELECT * FROM found WHERE NOT ({is_slice})"
    )
