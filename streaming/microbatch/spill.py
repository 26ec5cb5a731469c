"""Overflow: an epoch with very many partial rows is written by Spark's executors and only listed by the driver.

The rows never reach the driver: Spark writes Parquet files into the table's folder, by kind, and the driver commits
their add actions together with the epoch's record. Spark's own Delta writer is not used: it skips a
stale version in silence.
"""

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow import fs

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import list_column_types
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.epochs.delivery import EXACTLY_ONCE
from cutover.lake.tables import checksums, data_files
from cutover.lake.tables.schemas import RowKind, partial_schema
from cutover.pipeline_lake import PipelineLake
from cutover.records.classes import Class
from cutover.streaming.microbatch import aggregate
from cutover.streaming.microbatch.aggregate import AggregationPass, EpochCounts, EpochPlan
from cutover.streaming.panes import values
from cutover.streaming.sink import files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPartials:
    """Partial rows of an epoch, in the driver or in files, with their counts."""

    rows: pa.Table  # empty if the rows are in files
    counts: EpochCounts
    spilled_files: list[AddAction] | None = None  # None: the rows are in memory
    number: int  # of rows, in memory or in files


def run_aggregation(
    aggregation_pass: AggregationPass, lake: PipelineLake, plan: EpochPlan, *, uri: str
) -> EpochPartials:
    """Run the pass; collect its rows, or, beyond `stream.overflow_rows`, let Spark write them into the folder."""
    pipeline, limit = lake.pipeline, lake.settings.stream.overflow_rows
    collected = None if aggregation_pass.slices is None else _collect_slices(aggregation_pass.slices, lake, plan)
    if collected is not None:
        return collected
    if aggregate.pairs_bound(pipeline, plan) <= limit:
        return _collect_partials(aggregation_pass, pipeline, plan)
    aggregation_pass.partials.persist()
    try:
        number, by_class = sums(aggregation_pass.partials)
        if number <= limit:
            return _collect_partials(aggregation_pass, pipeline, plan)
        log.info("overflow", pipeline=pipeline.name, epoch=plan.epoch, rows=number)
        actions = spill_partials(aggregation_pass, pipeline, plan, uri, expected=number)
        empty = partial_schema(pipeline).empty_table()
        return EpochPartials(
            rows=empty, counts=aggregate.sum_counts(by_class, pipeline, plan), spilled_files=actions, number=number
        )
    finally:
        aggregation_pass.partials.unpersist()


def _collect_partials(aggregation_pass: AggregationPass, pipeline: Pipeline, plan: EpochPlan) -> EpochPartials:
    rows = aggregate.collect_partials(aggregation_pass.partials, pipeline)
    return EpochPartials(rows=rows, counts=aggregate.sum_partial_rows(rows, pipeline, plan), number=rows.num_rows)


def _collect_slices(frame: "DataFrame", lake: PipelineLake, plan: EpochPlan) -> EpochPartials | None:
    """Collect the rows of slices and make those of windows; None: either are more than `stream.overflow_rows`."""
    pipeline, limit = lake.pipeline, lake.settings.stream.overflow_rows
    # Records that are late, or do not count, keep a row for each of their windows.
    bounded = frame if aggregate.pairs_bound(pipeline, plan) <= limit else frame.limit(limit + 1)
    partials = aggregate.collect_partials(bounded, pipeline)
    rows = aggregate.open_slices(partials, lake) if partials.num_rows <= limit else None
    if rows is None:
        return None
    unknown = aggregate.sum_partial_rows(
        partials, pipeline, plan
    ).unknown  # rows of windows whose newest row is unknown
    epoch_counts = replace(aggregate.sum_partial_rows(rows, pipeline, plan), unknown=unknown)
    return EpochPartials(rows=rows, counts=epoch_counts, number=rows.num_rows)


def sums(partials: "DataFrame") -> tuple[int, dict[str, tuple[int, int]]]:
    """Return the number of partial rows, and (pairs, unknown fields) by class, without collecting the rows."""
    counts_by_class = partials.groupBy("_class").agg({"*": "count", "_n": "sum", "_unknown": "sum"}).collect()
    by_class = {row["_class"]: (int(row["sum(_n)"]), int(row["sum(_unknown)"] or 0)) for row in counts_by_class}
    return sum(int(row["count(1)"]) for row in counts_by_class), by_class


def spill_partials(
    aggregation_pass: AggregationPass, pipeline: Pipeline, plan: EpochPlan, uri: str, *, expected: int
) -> list[AddAction]:
    """Let Spark write the partial rows into the table's folder; return the actions that list the files.

    Raises:
        LakeError: The written files do not hold `expected` rows. Nothing was committed.
    """
    folder = f"overflow-{plan.epoch}-{uuid.uuid4().hex}"
    columns = [f"`{name}`" for name in partial_schema(pipeline).names]
    kind = f"IF(_class = '{Class.ACCEPTED}', '{RowKind.PARTIAL}', '{RowKind.LEDGER}') AS __kind"
    # Every column of the table, the empty one too: readers expect one shape of all files of a kind.
    own_columns = [f"CAST({plan.epoch} AS bigint) AS _epoch", "CAST(NULL AS string) AS _record"]
    if pipeline.source.record_id is not None:
        kind_of_id = list_column_types(pipeline.source)[pipeline.source.record_id]
        own_columns.append(f"CAST(NULL AS array<struct<id:{kind_of_id},event_time:timestamp>>) AS _ids")
    rows = aggregation_pass.partials.selectExpr(kind, *own_columns, *columns)
    unmarked = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
    rows.write.partitionBy("__kind").options(**unmarked).parquet(f"{uri}/{folder}")
    system, root = files.resolve_folder(uri)
    file_info = system.get_file_info(fs.FileSelector(f"{root}/{folder}", recursive=True))
    for info in file_info:
        if info.is_file and not info.path.endswith(".parquet"):
            system.delete_file(info.path)  # Hadoop's checksum files: no vacuum would ever delete them
    rows_of = {
        info.path: pq.read_metadata(info.path, filesystem=system).num_rows for info in file_info if _is_data(info)
    }
    reject_missing(folder, expected=expected, actual=sum(rows_of.values()))
    label = "epoch" if pipeline.delivery == EXACTLY_ONCE else checksums.APART
    actions = [_action(uri, root, info, checksums.new_stem(label, plan.epoch)) for info in file_info if _is_data(info)]
    system.delete_dir(f"{root}/{folder}")
    return actions


def reject_missing(folder: str, *, expected: int, actual: int) -> None:
    """Check that the files of an epoch hold all its rows: a store may list less than was written.

    Raises:
        LakeError: `actual` is not `expected`. Nothing was committed.
    """
    if actual != expected:
        msg = f"Overflow `{folder}`: expected {expected} rows in its files, got {actual}."
        raise LakeError(msg + "\nHint: nothing was committed; check the storage and start again.")


def _is_data(info: fs.FileInfo) -> bool:
    return bool(info.is_file and info.path.endswith(".parquet"))


def read_accepted(epoch_partials: EpochPartials, pipeline: Pipeline, uri: str) -> pa.Table:
    """Read the accepted partial aggregates of an epoch from memory or files: the driver computes panes."""
    if epoch_partials.spilled_files is None:
        return values.filter_accepted(epoch_partials.rows)
    system, root = files.resolve_folder(uri)
    schema = partial_schema(pipeline)
    parts = [
        pq.read_table(f"{root}/{action.path}", filesystem=system, columns=schema.names).cast(schema)
        for action in epoch_partials.spilled_files
        if action.partition_values["_kind"] == RowKind.PARTIAL
    ]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _action(uri: str, root: str, info: fs.FileInfo, stem: str) -> AddAction:
    """Name a file of Spark's by its checksum, in the folder of its kind."""
    path = info.path.removeprefix(root).lstrip("/")
    kind = RowKind.PARTIAL if f"/__kind={RowKind.PARTIAL}/" in path else RowKind.LEDGER
    return data_files.adopt_data_file(uri, path, stem, partition={"_kind": kind})
