"""Windows that batch knows of from records that went before a version of the stream began: nothing to compare."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.sessions import Sessions
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, merge_intervals
from cutover.engine import queries
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind
from cutover.settings import Settings

_WINDOWS = f"""
    SELECT DISTINCT epoch_us(window_start), epoch_us(window_end) FROM batch_index
    JOIN starts ON starts.partition = _partition AND first_offset < starts.first
    JOIN runs ON runs.run = _run
    WHERE _kind = '{IndexKind.RANGE}' ORDER BY 1
"""  # noqa: S608 -- a constant


def find_unread_windows(
    settings: Settings, pipeline: Pipeline, start: Mapping[int, int], runs: Sequence[BatchRun]
) -> tuple[Range, ...]:
    """Return the windows that hold records before the offsets at which the stream's first epoch starts.

    Of sessions: the stretches of time, by whose touch a session may have such records.

    A version begins where the log does: what retention took before, an earlier version has read, and batch.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        start: Partition -> offset at which epoch 0 of the version starts.
        runs: Batch runs over the same log.
    """
    start_offsets = {partition: offset for partition, offset in start.items() if offset}
    uri = batch_uri(settings, pipeline, "batch_index")
    if not start_offsets or not delta.exists(uri):
        return ()
    with queries.connect() as connection:
        delta.relation(connection, "batch_index", uri)
        schema = pa.schema([("partition", pa.int32()), ("first", pa.int64())])
        offsets = {"partition": list(start_offsets), "first": list(start_offsets.values())}
        connection.register("starts", pa.table(offsets, schema=schema))
        connection.register("runs", pa.table({"run": pa.array([run.run_id for run in runs], pa.string())}))
        intervals = [Interval(*row) for row in connection.execute(_WINDOWS).fetchall()]
    if isinstance(pipeline.window, Sessions):  # the index knows stretches of time that hold rows
        return merge_intervals(Interval(start, end - 1 + pipeline.window.gap_micros) for start, end in intervals)
    return _join_windows(intervals, pipeline.window)


def _join_windows(windows: Sequence[Interval], window: AlignedWindowFn) -> tuple[Range, ...]:
    """Return windows that follow one another as one range: first start, last end."""
    ranges: list[Range] = []
    following = None
    for start, end in windows:
        if start == following:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
        following = window.next_start(start)
    return tuple(ranges)
