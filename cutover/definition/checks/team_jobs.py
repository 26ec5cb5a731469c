"""Checks of a definition of a team's own jobs: what a query cannot repeat exactly, or two engines not compute alike.

`check_spark_stream` is for a streaming path that is a team's own query, `check_batch_job` for a batch job.
"""

import re
from collections.abc import Iterator

from cutover.definition.checks.measures import reject_field
from cutover.definition.measures.doubles import Stddev, Variance
from cutover.definition.measures.kinds import Avg, Count, First, Last, Max, Min, Sum
from cutover.definition.model.batch_job import BatchJob, CompactedTopic, Iceberg, Parquet, Postgres, find_batch_job
from cutover.definition.model.joins import Join
from cutover.definition.model.pipeline import FOLLOWED_LATENESS, WINDOW_END, WINDOW_START, Delta, Pipeline, SparkStream
from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.windows.kinds import Sessions, SlidingWindows

REPEATED_MEASURES = (Avg, Count, Max, Min, Stddev, Sum, Variance)
"""Measures for which Spark's aggregate has one value, whatever the order of its rows."""

MEASURES_OF_RECORDS = (Count, First, Last, Max, Min, Sum)
"""Measures that can be computed over a table with a row per record; `First` and `Last` if there is one of each key."""

MEASURES_OF_PARTS = (Count, Max, Min, Sum)
"""Measures whose values of the parts of a session can be merged into that of the session."""


def check_spark_stream(pipeline: Pipeline) -> None:
    """Reject a definition with a `SparkStream` that `cutover follow` could not repeat exactly.

    Raises:
        DefinitionError: Names the field, the expected and the actual value.
    """
    stream = pipeline.stream
    if stream is None:
        return
    if not isinstance(stream, SparkStream):
        reject_field("stream", "SparkStream(...) or None", repr(stream)[:80])
    if not isinstance(stream.table, Delta):
        reject_field("stream.table", "Delta(...)", repr(stream.table)[:80])
    for field, path in (("stream.table", stream.table.path), ("stream.checkpoint", stream.checkpoint)):
        if not path.startswith("/") and "://" not in path:
            reject_field(field, "an absolute path or a URI", f"`{path}`", "the job may run in another folder")
    unfollowed = (
        *_list_joins(pipeline, stream),
        *_list_unrepeatable(pipeline),
        *_list_ungrouped(pipeline, stream),
        *_list_sessions(pipeline, stream),
    )
    for field, expected, actual, reason in unfollowed:
        reject_field(field, expected, actual, reason)
    names = _list_names(pipeline, stream)
    unknown_names = [name for name in stream.columns if name not in names]
    if unknown_names:
        reject_field("stream.columns", f"names of {', '.join(names)}", f"`{unknown_names[0]}`")


def _list_names(pipeline: Pipeline, stream: SparkStream) -> tuple[str, ...]:
    """List the names of the definition that the job's table has a column for."""
    if not stream.row_per_record:
        bounds = (WINDOW_START, WINDOW_END) if pipeline.window.merges else (WINDOW_START,)
        return (*bounds, *pipeline.key, *pipeline.measures)
    measures = (name for name, measure in pipeline.measures.items() if not isinstance(measure, Count))
    return (*list_row_times(pipeline), *list_row_key(pipeline), *measures)


def list_row_key(pipeline: Pipeline) -> tuple[str, ...]:
    """List the columns that identify a row of a table with a row per record, or per pair of a join."""
    ids = pipeline.join.pair_ids if isinstance(pipeline.join, Join) else ()
    return tuple(dict.fromkeys((*pipeline.key, *ids)))


def list_row_times(pipeline: Pipeline) -> tuple[str, ...]:
    """List the event times of a row of such a table, the earliest of which decides the row's window.

    Of a pair those that can be the earlier one.
    """
    join, left_time = pipeline.join, pipeline.source.event_time
    bounds = join.bounds if isinstance(join, Join) else None
    if bounds is None or not isinstance(join, Join) or bounds[0] >= 0:
        return (left_time,)
    return (join.right_time,) if bounds[1] <= 0 else (left_time, join.right_time)


def _find_measures(pipeline: Pipeline) -> tuple[tuple[type, ...], str]:
    """Find the measures that a definition may have, and the reason for which it has no other one."""
    if pipeline.stream is not None and pipeline.stream.row_per_record:
        return MEASURES_OF_RECORDS, "measures are computed over the rows of the job's table"
    if pipeline.stream is not None and has_parts_of_sessions(pipeline, pipeline.stream):
        return MEASURES_OF_PARTS, "in append mode a session may have several rows, whose values are merged"
    return REPEATED_MEASURES, "Spark's aggregate is approximate, or depends on the order of its rows"


def has_parts_of_sessions(pipeline: Pipeline, stream: SparkStream) -> bool:
    """Return whether a session may have several rows: in append mode Spark writes it before its last records came."""
    return pipeline.window.merges and stream.output_mode == "append"


def _list_unrepeatable(pipeline: Pipeline) -> Iterator[tuple[str, str, str, str]]:
    """Yield what another query's checkpoint does not determine: field, expected and actual value, reason."""
    if not isinstance(pipeline.window, SlidingWindows | Sessions):
        reason = "Spark has no other windows"
        yield "window", "Fixed(...), Sliding(...) or Sessions(...) with `stream`", repr(pipeline.window)[:80], reason
    measures, reason = _find_measures(pipeline)
    for name, measure in pipeline.measures.items():
        if not isinstance(measure, measures):
            allowed = ", ".join(kind.__name__ for kind in measures)
            yield f"measures.{name}", f"one of {allowed} with `stream`", type(measure).__name__, reason
    absent_parts = {
        "lookups": (not pipeline.lookups, "which version of a dimension the job joined is not in its checkpoint"),
        "source.id_horizon": (pipeline.source.id_horizon is None, "the job forgets ids by its watermark"),
        "trigger": (pipeline.trigger is None, "panes are those of Cutover's own path"),
        "changelog": (pipeline.changelog is None, "panes are those of Cutover's own path"),
    }
    for field, (is_absent, reason) in absent_parts.items():
        if not is_absent:
            yield field, "none with `stream`", "one", reason
    if pipeline.delivery != "exactly_once":
        yield "delivery", "exactly_once with `stream`", pipeline.delivery, "it is that of Cutover's own path"
    if pipeline.lateness != FOLLOWED_LATENESS:
        yield "lateness", "none with `stream`", "one", "the watermarks are read from the job's checkpoint"


def _list_joins(pipeline: Pipeline, stream: SparkStream) -> Iterator[tuple[str, str, str, str]]:
    """Yield what a job that joins two topics cannot have: field, expected and actual value, reason."""
    join = pipeline.join
    if join is None:
        return
    if not isinstance(join, Join):
        reason = "such a job reads its topic twice, up to two positions, and an epoch has one"
        yield "join", "Join(...) with `stream`", "SelfJoin(...)", reason
    elif join.bounds is None:
        reason = "without one Spark keeps each row for ever, and a pair of two days belongs to no window that closes"
        yield "join.between", "the range of both event times with `stream`", "None", reason
    elif not stream.row_per_record:
        reason = "which records an operator behind a join drops is not recorded"
        yield "stream.row_per_record", "True with `join`: a row per pair", "False", reason
    elif join.ids is None:
        reason = "the rows of the job's table are compared by them"
        yield "join.ids", "a column of each side that identifies its row", "None", reason
    elif stream.output_mode != "append":
        reason = "a pair is written once; a MERGE in foreachBatch is of a query in append mode"
        yield "stream.output_mode", "append with `join`", stream.output_mode, reason


def _list_ungrouped(pipeline: Pipeline, stream: SparkStream) -> Iterator[tuple[str, str, str, str]]:
    """Yield what a table with a row per record cannot be compared with: field, expected and actual value, reason."""
    if not stream.row_per_record:
        return
    if stream.output_mode == "complete":
        reason = "Spark has this mode for groupings only"
        yield "stream.output_mode", "append or update with `row_per_record`", stream.output_mode, reason
    if pipeline.window.merges or (pipeline.window.max_windows > 1 and pipeline.join is None):
        reason = "a record belongs to one window then, as its row does"
        yield "window", "Fixed(...) with `row_per_record`", repr(pipeline.window)[:80], reason
    if stream.latest_by is not None:
        reason = "each record has its own row"
        yield "stream.latest_by", "none with `row_per_record`", f"`{stream.latest_by}`", reason


def _list_sessions(pipeline: Pipeline, stream: SparkStream) -> Iterator[tuple[str, str, str, str]]:
    """Yield what Spark does not have for sessions: field, expected and actual value, reason."""
    if not pipeline.window.merges:
        return
    if stream.output_mode == "update":
        reason = "Spark has no update mode for session_window; a MERGE in foreachBatch is of a query in append mode"
        yield "stream.output_mode", "append or complete with Sessions(...)", stream.output_mode, reason
    if stream.latest_by is not None:
        reason = "a session is not updated, and its parts do not replace each other"
        yield "stream.latest_by", "none with Sessions(...)", f"`{stream.latest_by}`", reason


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TABLE = re.compile(r'("[^"]+"|[^\s".@:/?#]+)(\.("[^"]+"|[^\s".@:/?#]+)){0,2}')
_TOPIC = re.compile(r"(kafka://[^\s/@?#]*/)?(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "file", "memory")


def check_batch_job(pipeline: Pipeline) -> None:
    """Reject a definition with a `BatchJob` whose table could not be compared with what Cutover computes.

    Raises:
        DefinitionError: Names the field, the expected and the actual value, never an address with a password.
    """
    job = find_batch_job(pipeline.batch)
    if job is None:
        return
    _check_table(job)
    for field, expected, actual, reason in _list_incomparable(pipeline):
        reject_field(field, expected, actual, reason)
    _check_rules(pipeline, job)
    names = (WINDOW_START, *pipeline.key, *pipeline.measures)
    unknown_names = [name for name in job.columns if name not in names]
    if unknown_names:
        reject_field("batch.columns", f"names of {', '.join(names)}", f"`{unknown_names[0]}`")


def _check_table(job: BatchJob) -> None:
    match job.table:
        case Postgres(table=table, server=server):
            if not _VARIABLE.fullmatch(server):
                hint = (
                    'Postgres("schema.table", server="PAYMENTS_DB") and the address in `PAYMENTS_DB`: no password here.'
                )
                reject_field("batch.table.server", "the name of an environment variable", "another text", hint)
            if not _TABLE.fullmatch(table):
                reject_field("batch.table.table", "the name of a table, such as `analytics.hourly`", f"`{table[:80]}`")
        case Delta(path=place) | Iceberg(table=place):
            schemes = (*_STORES, "iceberg") if isinstance(job.table, Iceberg) else _STORES
            _check_place(place, schemes)
        case Parquet(path=place):
            _check_place(place, ())
        case CompactedTopic():
            _check_topic(job.table)


def _check_rules(pipeline: Pipeline, job: BatchJob) -> None:
    """Reject rules of the job that are not expressed soundly; those of the definition are checked as its own."""
    if job.where is not None and (not isinstance(job.where, str) or not job.where.strip()):
        reject_field("batch.where", "None or a condition", repr(job.where)[:80])
    if not isinstance(job.once_by, tuple) or len(job.once_by) > 1:
        hint = "records are told apart by one column and their event time"
        reject_field("batch.once_by", '() or one column, such as ("event_id",)', repr(job.once_by)[:80], hint)
    if job.once_by and pipeline.source.record_id is not None:
        hint = "the definition counts each record once already, and so must the job"
        reject_field("batch.once_by", "() with `source.record_id`", repr(job.once_by), hint)


def _check_topic(table: CompactedTopic) -> None:
    if not _TOPIC.fullmatch(table.topic):
        shown = "another address" if "://" in table.topic else f"`{table.topic[:80]}`"
        hint = "`kafka.*` in `cutover.toml` has the login, also for another broker"
        reject_field("batch.table.topic", "a topic, or `kafka://broker:9092/topic`", shown, hint)
    formats = ("iso", *EPOCH_FORMATS)
    if table.time_format not in formats:
        reject_field("batch.table.time_format", f"one of {', '.join(formats)}", repr(table.time_format)[:80])


def _check_place(place: str, schemes: tuple[str, ...]) -> None:
    """Reject a relative path, another scheme, and an address with a password, which is not shown."""
    scheme, separator, location = place.partition("://")
    if not separator:
        if not place.startswith("/"):
            reject_field("batch.table", "an absolute path", f"`{place[:80]}`", "the job may run in another folder")
        return
    if scheme not in schemes:
        expected = f"a path or a URI that begins with {', '.join(f'{name}://' for name in schemes)}" if schemes else ""
        reject_field("batch.table", expected or "an absolute path on this machine", f"`{scheme[:20]}://...`")
    if ":" in location.partition("/")[0].rpartition("@")[0]:
        hint = "credentials of an object store belong into the environment."
        reject_field("batch.table", "an address without a password", f"`{scheme}://...`", hint)


def _list_incomparable(pipeline: Pipeline) -> Iterator[tuple[str, str, str, str]]:
    """Yield what a job of another engine need not compute alike: field, expected and actual value, reason."""
    if not isinstance(pipeline.window, SlidingWindows):
        reason = "a row of the job's table is assigned to a window by its start alone"
        yield "window", "Fixed(...) or Sliding(...) with BatchJob(...)", repr(pipeline.window)[:80], reason
    for name, measure in pipeline.measures.items():
        if not isinstance(measure, REPEATED_MEASURES):
            allowed = ", ".join(kind.__name__ for kind in REPEATED_MEASURES)
            reason = "another engine's aggregate is approximate, or depends on the order of its rows"
            yield f"measures.{name}", f"one of {allowed} with BatchJob(...)", type(measure).__name__, reason
    absent_parts = {
        "join": (pipeline.join is None, "which records of two topics the job has read is not compared"),
        "lookups": (not pipeline.lookups, "which version of a dimension the job joined is not in its table"),
    }
    for field, (is_absent, reason) in absent_parts.items():
        if not is_absent:
            yield field, "none with BatchJob(...)", "one", reason
