"""One pass over one micro-batch: parse once, classify, aggregate, and observe the event time of each partition.

A record of sliding windows is aggregated once, in its slice; the driver makes windows from what slices add up to. Only
records that count in all of their windows are: a late one keeps a row for each of its windows. What is committed adds
up to the same as without slices.

Very many partial rows of an epoch never reach the driver: Spark's executors write Parquet files into the table's
folder, by kind, and the driver commits their add actions together with the epoch's record. Spark's own Delta writer is
not used: it skips a stale version in silence.

Source:
    Li et al., No Pane, No Gain, SIGMOD Record 34(1), 2005, section 3 (there a slice is called a pane).
"""

# ruff: noqa: S608 -- numbers and constant names

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow import fs

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import list_column_types
from cutover.definition.windows.kinds import SlidingWindows
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.epochs.delivery import EXACTLY_ONCE
from cutover.lake.tables import checksums, data_files
from cutover.lake.tables.schemas import RowKind, partial_schema
from cutover.pipeline_lake import PipelineLake
from cutover.records import classify, columns, partials
from cutover.records.classes import Class
from cutover.records.enrich import NO_DIMENSIONS, Dimensions
from cutover.records.parsing import parser
from cutover.streaming.compaction.merge import fold_partials_sql
from cutover.streaming.microbatch.dedup_state import DedupState, LookupResult
from cutover.streaming.panes import values
from cutover.streaming.sink import files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


MOST = 20
"""Times the limit that rows of windows may be before they are merged."""

_AGE_METRIC, _RECORDS_METRIC = "ago", "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """Ranges that an epoch reads, and the watermark that decides lateness: the one the previous epoch committed."""

    epoch: int
    start: Mapping[int, int]
    end: Mapping[int, int]
    clipped: bool  # the micro-batch reaches beyond `end`
    watermark: int | None  # microseconds

    @property
    def span(self) -> int:
        """Return the number of offsets; control records take some, so there may be fewer records."""
        return sum(end - self.start.get(partition, 0) for partition, end in self.end.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationPass:
    """Aggregation of a micro-batch that is defined but not run; running `partials` or `slices` fills `observation`."""

    partials: "DataFrame"  # partial shape, every class
    slices: "DataFrame | None" = None  # the same, but accepted rows as long as a slice represent all of its windows
    # p0, p1, ...: newest event time by partition; `ago`: oldest log time, negative; `records`: a count
    observation: "Observation"
    lookup: LookupResult | None = None  # if records have ids
    cached_rows: "DataFrame | None" = None  # parsed records that are read twice

    def release(self) -> None:
        """Release the cached records of the pass."""
        if self.cached_rows is not None:
            self.cached_rows.unpersist()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCounts:
    """Counts that an epoch's partial aggregates add up to."""

    counts: Mapping[str, int]  # class -> (record, window) pairs
    records: int
    unknown: int  # fields that the schema does not name


NOTHING = EpochCounts(counts={kind.value: 0 for kind in Class}, records=0, unknown=0)


def uses_slices(pipeline: Pipeline) -> bool:
    """Return whether a pipeline's records are aggregated by slice: of a join the rows of both sides are kept."""
    return pipeline.window.slice_micros is not None and pipeline.join is None


def open_slices(rows: pa.Table, lake: PipelineLake) -> pa.Table | None:
    """Make rows of windows from those of slices; rows of a window and key are merged.

    Args:
        rows: The partial shape (`partials.aggregate_partials`); an accepted row as long as a slice represents all of
            its windows.
        lake: A pipeline with sliding windows. `stream.overflow_rows` limits the rows; beyond `stream.fold_memory` they
            are merged on disk.

    Returns:
        The partial shape, `_unknown` null in rows that count; None: they would be too many.
    """
    settings, pipeline = lake.settings, lake.pipeline
    window, schema, limit = pipeline.window, partial_schema(pipeline), settings.stream.overflow_rows
    is_accepted = pc.equal(rows["_class"], pa.scalar(Class.ACCEPTED.value))
    other_rows = rows.filter(pc.invert(is_accepted))
    if (
        not isinstance(window, SlidingWindows)
        or (rows.num_rows - other_rows.num_rows) * window.max_windows > MOST * limit
    ):
        return None
    with queries.open_duckdb(queries.Bounds(memory=settings.stream.fold_memory, home=settings.home)) as connection:
        connection.register("found", rows.filter(is_accepted))
        merged = fold_partials_sql(pipeline, schema, f"({_expand_slices_sql(window)})")
        connection.execute(f"CREATE TEMP TABLE merged AS {merged}")
        table = queries.query_table(connection, f"SELECT * FROM merged LIMIT {int(limit) + 1}")
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


def one_pass(
    batch: "DataFrame",
    pipeline: Pipeline,
    plan: EpochPlan,
    dimensions: Dimensions = NO_DIMENSIONS,
    ids: DedupState | None = None,
) -> AggregationPass:
    """Define the pass; where records have ids, look them up first, in a separate job over the same parsed rows.

    Args:
        batch: `value binary`, `partition int`, `offset bigint`, `timestamp timestamp` (UTC).
        pipeline: The definition.
        plan: The epoch's offsets and watermark. Rows beyond `end` are left out.
        dimensions: Dimensions of the lookups.
        ids: Remembered ids; None: the definition has no record id.
    """
    from pyspark.sql import Observation  # noqa: PLC0415 -- only a driver needs Spark

    observation = Observation(f"epoch-{plan.epoch}")
    records = _clip(batch, plan) if plan.clipped else batch
    rows = parser.parse_records(records, pipeline, dimensions, learns_schemas=False)
    persisted = None if ids is None else rows.persist()
    lookup_result, duplicate = None, "false"
    if ids is not None:
        lookup_result = ids.find_twins(classify.select_candidates(rows, pipeline, plan.watermark).toArrow())
        rows, duplicate = classify.flag_records(rows, lookup_result.twins)
    watched = columns.observe(rows, observation, _newest(pipeline, tuple(plan.end)))

    def aggregate_records(*, by_slice: bool) -> "DataFrame":
        records = classify.classify_records(
            watched, pipeline, watermark_micros=plan.watermark, duplicate=duplicate, by_slice=by_slice
        )
        return partials.aggregate_partials(records, pipeline)

    return AggregationPass(
        partials=aggregate_records(by_slice=False),
        slices=aggregate_records(by_slice=True) if uses_slices(pipeline) else None,
        observation=observation,
        lookup=lookup_result,
        cached_rows=persisted,
    )


def collect_partials(frame: "DataFrame", pipeline: Pipeline) -> pa.Table:
    """Run the pass by one of its frames and return its partial aggregates as Arrow rows of the partial shape."""
    schema = partial_schema(pipeline)
    return frame.toArrow().select(schema.names).cast(schema)


def newest_events(aggregation_pass: AggregationPass) -> dict[int, int]:
    """Return the newest event time of each partition that had a valid one, after the pass was run."""
    observed = aggregation_pass.observation.get.items()
    return {
        int(name[1:]): int(micros)
        for name, micros in observed
        if name not in {_AGE_METRIC, _RECORDS_METRIC} and micros is not None
    }


def oldest_log_time(aggregation_pass: AggregationPass) -> int | None:
    """Return the oldest log timestamp of the records that were read, microseconds, after the pass was run."""
    ago = aggregation_pass.observation.get.get(_AGE_METRIC)
    return None if ago is None else -int(ago)


def set_record_count(aggregation_pass: AggregationPass, epoch_counts: EpochCounts, pipeline: Pipeline) -> EpochCounts:
    """Return an epoch's counts with the number of records that it read, after the pass was run.

    Where records fall into different numbers of windows, their number cannot be derived from the pairs, and the
    observation counts them; it counts a record twice if an executor dies behind its map task.
    """
    if pipeline.window.max_windows == pipeline.window.min_windows:
        return epoch_counts
    return replace(epoch_counts, records=int(aggregation_pass.observation.get.get(_RECORDS_METRIC) or 0))


def pairs_bound(pipeline: Pipeline, plan: EpochPlan) -> int:
    """Return how many (record, window) pairs an epoch can have at most, and so how many partial rows."""
    return plan.span * pipeline.window.max_windows


def sum_partial_rows(rows: pa.Table, pipeline: Pipeline, plan: EpochPlan) -> EpochCounts:
    """Return the sums over partial rows of `_class`, `_n` and `_unknown`."""
    sums = rows.group_by("_class").aggregate([("_n", "sum"), ("_unknown", "sum")]).to_pylist()
    return sum_counts({row["_class"]: (row["_n_sum"], row["_unknown_sum"] or 0) for row in sums}, pipeline, plan)


def sum_counts(by_class: Mapping[str, tuple[int, int]], pipeline: Pipeline, plan: EpochPlan) -> EpochCounts:
    """Return the counts of an epoch from (pairs, unknown) by class.

    A record that parsed and was not filtered is one pair in each of its windows. Where records fall into different
    numbers of windows (of a sliding one whose `size` is no multiple of `every`), `records` is the number of offsets,
    until `count_records` replaces it.
    """
    counts = {kind.value: int(by_class.get(kind.value, (0, 0))[0]) for kind in Class}
    single = counts[Class.MALFORMED] + counts[Class.FILTERED]
    windowed = sum(counts.values()) - single
    window = pipeline.window
    records = single + windowed // window.max_windows if window.max_windows == window.min_windows else plan.span
    return EpochCounts(counts=counts, records=records, unknown=sum(int(unknown) for _, unknown in by_class.values()))


def one_key_share(rows: pa.Table, pipeline: Pipeline) -> float | None:
    """Return the accepted pairs of the largest key / all of them; None without a key or an accepted pair."""
    accepted = rows.filter(pc.equal(rows["_class"], pa.scalar(Class.ACCEPTED.value)))
    if not pipeline.key or not accepted.num_rows:
        return None
    by_key = accepted.group_by(list(pipeline.key)).aggregate([("_n", "sum")])["_n_sum"]
    return float(pc.max(by_key).as_py() / pc.sum(by_key).as_py())


def _newest(pipeline: Pipeline, partitions: tuple[int, ...]) -> list[str]:
    """Return a maximum for each partition, one of the log timestamps taken negative (the oldest), and a count.

    Maxima hold whatever happens; the count doubles when an executor dies after its map task.
    """
    micros = "unix_micros(_event_time)"
    valid = f"_reason IS NULL AND NOT {classify.future_sql(pipeline, micros)}"
    newest = [f"max(CASE WHEN {valid} AND _partition = {p} THEN {micros} END) AS p{p}" for p in partitions]
    return [*newest, f"max(-unix_micros(_log_time)) AS {_AGE_METRIC}", f"count(1) AS {_RECORDS_METRIC}"]


def _clip(batch: "DataFrame", plan: EpochPlan) -> "DataFrame":
    cases = " ".join(f"WHEN {partition} THEN {end}" for partition, end in plan.end.items())
    return batch.where(f"offset < CASE partition {cases} ELSE 0 END")


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
    if pairs_bound(pipeline, plan) <= limit:
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
            rows=empty, counts=sum_counts(by_class, pipeline, plan), spilled_files=actions, number=number
        )
    finally:
        aggregation_pass.partials.unpersist()


def _collect_partials(aggregation_pass: AggregationPass, pipeline: Pipeline, plan: EpochPlan) -> EpochPartials:
    rows = collect_partials(aggregation_pass.partials, pipeline)
    return EpochPartials(rows=rows, counts=sum_partial_rows(rows, pipeline, plan), number=rows.num_rows)


def _collect_slices(frame: "DataFrame", lake: PipelineLake, plan: EpochPlan) -> EpochPartials | None:
    """Collect the rows of slices and make those of windows; None: either are more than `stream.overflow_rows`."""
    pipeline, limit = lake.pipeline, lake.settings.stream.overflow_rows
    # Records that are late, or do not count, keep a row for each of their windows.
    bounded = frame if pairs_bound(pipeline, plan) <= limit else frame.limit(limit + 1)
    partials = collect_partials(bounded, pipeline)
    rows = open_slices(partials, lake) if partials.num_rows <= limit else None
    if rows is None:
        return None
    unknown = sum_partial_rows(partials, pipeline, plan).unknown  # rows of windows whose newest row is unknown
    epoch_counts = replace(sum_partial_rows(rows, pipeline, plan), unknown=unknown)
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
