"""Versions of dimensions that records were joined with, as epochs and batch runs record them, and the join in Spark.

Small dimensions are read through Arrow, so that no job reads them again, large ones by Delta's reader. A rejoin joins
records again with the versions that were recorded for their place in the log.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from cutover.definition.model.topic import normalize_type
from cutover.errors import LakeError
from cutover.events import log
from cutover.json_text import EXACT
from cutover.lake.dimensions import dimension as dimensions
from cutover.lake.dimensions.dimension import Dimension
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.records.enrich import VERSION, VERSION_RANGES, DimensionFrame, Dimensions
from cutover.records.reading.scan import Offsets
from cutover.records.reference import lookups as plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


END = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class VersionSpan:
    """Offsets `[first, next)` of one partition that are joined with one version of a dimension."""

    __pydantic_config__ = EXACT

    partition: int
    first: int
    next: int
    version: int
    table_id: str
    instead_of: int | None = None  # the version that the stream recorded, if it can no longer be read


Spans = Mapping[str, tuple[VersionSpan, ...]]  # by lookup


def list_recorded_spans(records: Iterable[EpochRecord], name: str) -> tuple[VersionSpan, ...]:
    """List the spans that epochs recorded for a lookup, by partition and offset; neighbours are merged."""
    spans = (
        VersionSpan(
            partition=partition,
            first=record.start.get(partition, 0),
            next=end,
            version=record.dimensions[name],
            table_id=record.dimension_ids[name],
        )
        for record in records
        if name in record.dimensions
        for partition, end in record.end.items()
        if record.start.get(partition, 0) < end
    )
    return merge_spans(spans)


def merge_spans(spans: Iterable[VersionSpan]) -> tuple[VersionSpan, ...]:
    """Merge adjacent spans of one version; the result is ordered by partition and offset."""
    merged: list[VersionSpan] = []
    for span in sorted(spans):
        longer = replace(merged[-1], next=span.next) if merged and merged[-1].next == span.first else None
        if longer is not None and longer == replace(span, first=longer.first):
            merged[-1] = longer
        else:
            merged.append(span)
    return tuple(merged)


def spans_to_read(
    spans: Sequence[VersionSpan], reads: Iterable[Offsets], newest: tuple[int, str]
) -> tuple[VersionSpan, ...]:
    """Cover all offsets that are to be read, each by the version that it is joined with.

    A record that no epoch read (it was lost, or expired before the version began) is joined as the next epoch was.

    Args:
        spans: Spans that the epochs recorded.
        reads: Partition -> `[from, to)`, disjoint.
        newest: Version and table id for partitions without a recorded span.
    """
    spans_by_partition = _stretch_spans(spans)
    version, table_id = newest
    clipped: list[VersionSpan] = []
    for offsets in reads:
        for partition, (start, end) in offsets.items():
            default = [VersionSpan(partition=partition, first=0, next=END, version=version, table_id=table_id)]
            clipped += _clip_spans(spans_by_partition.get(partition, default), start, end)
    return merge_spans(clipped)


def _stretch_spans(spans: Sequence[VersionSpan]) -> dict[int, list[VersionSpan]]:
    """Return the spans of each partition, stretched so that together they hold every offset."""
    stretched: dict[int, list[VersionSpan]] = defaultdict(list)
    for span in sorted(spans):
        previous_end = stretched[span.partition][-1].next if stretched[span.partition] else 0
        stretched[span.partition].append(replace(span, first=previous_end))
    for of_partition in stretched.values():
        of_partition[-1] = replace(of_partition[-1], next=END)
    return stretched


def _clip_spans(spans: Iterable[VersionSpan], start: int, end: int) -> list[VersionSpan]:
    clipped = (replace(s, first=max(s.first, start), next=min(s.next, end)) for s in spans)
    return [span for span in clipped if span.first < span.next]


def version_at(spans: Sequence[VersionSpan], partition: int, offset: int) -> tuple[int, str]:
    """Return the version that a record is joined with, and the id of its table; see `spans_to_read`.

    Raises:
        KeyError: The partition has no span.
    """
    span = next(s for s in _stretch_spans(spans)[partition] if s.first <= offset < s.next)
    return span.version, span.table_id


def find_diverging_offsets(
    streaming_spans: Sequence[VersionSpan], batch_spans: Sequence[VersionSpan]
) -> tuple[tuple[int, int, int], ...]:
    """Return the offsets (partition, first, next) that two sides joined with different versions."""
    diverging = []
    for span in streaming_spans:
        for other in batch_spans:
            start, end = max(span.first, other.first), min(span.next, other.next)
            is_same = (span.version, span.table_id) == (other.version, other.table_id)
            if span.partition == other.partition and start < end and not is_same:
                diverging.append((span.partition, start, end))
    return tuple(sorted(diverging))


def list_replaced_versions(spans: Mapping[str, Sequence[VersionSpan]]) -> dict[str, list[int]]:
    """List, by lookup, the recorded versions that were replaced by another one when records were read."""
    return {
        name: sorted({span.instead_of for span in of if span.instead_of is not None})
        for name, of in spans.items()
        if any(span.instead_of is not None for span in of)
    }


def join_version(spark: "SparkSession", dimension: Dimension, *, broadcast_rows: int) -> DimensionFrame:
    """Return one version, with which every row is joined; a large one stays persisted until `frame.unpersist`."""
    small = dimension.size <= broadcast_rows
    frame = _frame(spark, dimension, small=small)
    if not small:
        # Partitioned and sorted once: an epoch then shuffles only its own rows.
        keys = [f"`{column}`" for column in dimension.lookup.on.values()]
        frame = frame.repartition(*keys).sortWithinPartitions(*keys).persist()
    return DimensionFrame(frame=frame, is_small=small)


def join_versions(
    spark: "SparkSession", versions: Sequence[Dimension], spans: Sequence[VersionSpan], *, broadcast_rows: int
) -> DimensionFrame:
    """Return all versions with which records of some offsets are joined.

    Args:
        spark: The session.
        versions: Versions of one table, at least one.
        spans: Version of each range of offsets; every joined record lies in one span.
        broadcast_rows: Number of rows up to which the dimension is broadcast to every task.
    """
    if len(versions) == 1:
        return join_version(spark, versions[0], broadcast_rows=broadcast_rows)
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own name; only a run needs it

    small = sum(version.size for version in versions) <= broadcast_rows
    frames = [
        _frame(spark, version, small=small).withColumn(VERSION, F.lit(version.version).cast("bigint"))
        for version in versions
    ]
    places = [(span.partition, span.first, span.next, span.version) for span in spans]
    return DimensionFrame(
        frame=reduce(lambda combined, right: combined.unionByName(right), frames),
        is_small=small,
        version_ranges=spark.createDataFrame(places, VERSION_RANGES),
    )


def _frame(spark: "SparkSession", dimension: Dimension, *, small: bool) -> "DataFrame":
    """Return the key columns and the columns that the lookup takes."""
    if small:
        return spark.createDataFrame(dimensions.read_dimension_rows(dimension))
    lookup = dimension.lookup
    zero = {name: " + 0D" for name, kind in lookup.columns.items() if normalize_type(kind) == "double"}
    names = dict.fromkeys([*lookup.on.values(), *lookup.columns])
    read = spark.read.format("delta").option("versionAsOf", dimension.version).load(dimensions.spark_uri(dimension))
    return read.selectExpr(*(f"`{name}`{zero.get(name, '')} AS `{name}`" for name in names))


class Rejoin:
    """Dimensions of a pipeline, each version opened once."""

    def __init__(self, lake: PipelineLake) -> None:
        self._lake = lake
        self._opened: dict[tuple[str, int | None], Dimension] = {}
        self._used: dict[tuple[str, int, str], Dimension] = {}  # lookup, recorded version and table -> version to read
        self._plain: dict[tuple[str, int, str], plain.DimensionRows] = {}

    def collect_recorded(self, records: Sequence[EpochRecord]) -> Spans:
        """Return the spans that epochs recorded, by lookup."""
        return {name: list_recorded_spans(records, name) for name in self._lake.pipeline.lookups}

    def resolve_versions(self, recorded_spans: Spans, reads: Sequence[Offsets]) -> Spans:
        """Resolve the versions with which the records of some offsets are joined, every offset in one span.

        A recorded version that can no longer be read is replaced by the newest one, and `instead_of` of the span names
        it.

        Raises:
            LakeError: The newest version is needed and cannot be joined.
        """
        versions = {}
        for name in self._lake.pipeline.lookups:
            newest = (0, "") if recorded_spans[name] else _identity(self._open(name, None))
            version_spans = spans_to_read(recorded_spans[name], reads, newest)
            versions[name] = tuple(self._find_readable(name, span) for span in version_spans)
        return versions

    def frames(self, spark: "SparkSession", spans: Spans) -> Dimensions:
        """Return the dimensions with which Spark joins the records of some spans.

        Raises:
            LakeError: A version cannot be read.
        """
        limit = self._lake.settings.dimensions.broadcast_rows
        return {
            name: join_versions(
                spark,
                [self._open(name, version) for version in sorted({span.version for span in of})],
                of,
                broadcast_rows=limit,
            )
            for name, of in spans.items()
        }

    def at(self, spans: Spans) -> plain.DimensionsAt:
        """Return a function that finds the rows with which plain Python joins a record.

        It raises `LakeError` if a version can no longer be read.
        """
        return lambda record: {name: self._rows(name, of, record) for name, of in spans.items()}

    def explain_unreadable(self, spans: Spans) -> str | None:
        """Explain why a version can no longer be read; None if all can."""
        for name, of in spans.items():
            for version, table_id in sorted({(span.version, span.table_id) for span in of}):
                try:
                    self._open_exactly(name, version, table_id)
                except LakeError as error:
                    return str(error).splitlines()[0]
        return None

    def _rows(self, name: str, spans: Sequence[VersionSpan], record: RawRecord) -> plain.DimensionRows:
        place = (name, *version_at(spans, record.partition, record.offset))
        if place not in self._plain:
            self._plain[place] = dimensions.plain(self._open_exactly(*place))
        return self._plain[place]

    def _open_exactly(self, name: str, version: int, table_id: str) -> Dimension:
        dimension = self._open(name, version)
        if dimension.table_id != table_id:
            msg = (
                f"Pipeline `{self._lake.pipeline.name}`, lookup `{name}`, version {version}: expected table "
                f"{table_id}, got {dimension.table_id}: it was created again."
            )
            raise LakeError(msg, runbook="DimensionUnusable")
        return dimension

    def _find_readable(self, name: str, span: VersionSpan) -> VersionSpan:
        place = (name, span.version, span.table_id)
        if place not in self._used:
            self._used[place] = self._open_readable(*place)
        used = self._used[place]
        if (used.version, used.table_id) == (span.version, span.table_id):
            return span
        return replace(span, version=used.version, table_id=used.table_id, instead_of=span.version)

    def _open_readable(self, name: str, version: int, table_id: str) -> Dimension:
        try:
            return self._open_exactly(name, version, table_id)
        except LakeError as error:
            newest = self._open(name, None)
            fields = {"lookup": name, "version": version, "instead": newest.version, "why": str(error).splitlines()[0]}
            log.warning("dimension_version_gone", pipeline=self._lake.pipeline.name, **fields)
            return newest

    def _open(self, name: str, version: int | None) -> Dimension:
        dimension = self._opened.get((name, version))
        if dimension is None:
            dimension = dimensions.open_dimension(self._lake, name, version)
            self._opened[name, version] = self._opened[name, dimension.version] = dimension
        return dimension


def _identity(dimension: Dimension) -> tuple[int, str]:
    return dimension.version, dimension.table_id
