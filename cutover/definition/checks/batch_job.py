"""Checks of a definition whose batch job is a team's own: what two engines cannot compute alike is rejected."""

import re
from collections.abc import Iterator

from cutover.definition.checks.measures import reject_field
from cutover.definition.checks.spark_stream import REPEATED_MEASURES
from cutover.definition.model.batch_job import BatchJob, Iceberg, Parquet, Postgres, find_batch_job
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.spark_stream import WINDOW_START, Delta
from cutover.definition.windows.aligned import SlidingWindows

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TABLE = re.compile(r'("[^"]+"|[^\s".@:/?#]+)(\.("[^"]+"|[^\s".@:/?#]+)){0,2}')
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
