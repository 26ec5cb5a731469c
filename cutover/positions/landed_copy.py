"""Landed raw copies of topics: which offsets they contain, and which ones between them are missing.

A copy shows its offsets in the columns topic, partition and offset of Delta or Parquet, else in the names of its files
(see `landed_names`). An offset that is missing may be that of a transaction's marker, of a compacted record, or of a
record that was lost on the way; only the log can tell. A gap is explained if the log still has all of its offsets, and
no committed record at any of them. Records that retention has deleted cannot be told from lost ones.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from cutover.counts import count_clause, count_noun
from cutover.engine import queries, storage
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.positions.log_check import TopicBounds
from cutover.positions.position import Position, PositionReport, UnknownPosition
from cutover.positions.table_metadata import StoredFile, is_iceberg_table, list_stored_files
from cutover.quoting import identifier, literal

_PARTS = ("topic", "partition", "offset")
_VIEW = "landed"
_LISTINGS = ("_spark_metadata", ".hoodie", "_delta_log")  # the latter without a table: damaged
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\([0-9]+,0\)")
_SHOWN = 3  # gaps of a partition in notes


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedGap:
    """Offsets `[start, end)` that a copy does not show to be in it."""

    start: int
    end: int
    missing: int | None = None  # how many of them, if the copy only shows their number; None: all

    @property
    def count(self) -> int:
        """Return how many offsets of the range are missing."""
        return self.end - self.start if self.missing is None else self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedPartition:
    """Offsets of one partition that a copy contains."""

    topic: str
    partition: int
    first: int
    next_offset: int  # after the last one that is known to be in the copy
    gaps: tuple[LandedGap, ...]  # ascending
    duplicates: int  # records that it contains more than once
    open_records: int = 0  # of the last file, from `next_offset` on, whose offsets only the log shows


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedCopy:
    """What a folder shows of the topics that were copied to it."""

    partitions: tuple[LandedPartition, ...]  # by topic and number; at least one
    table_version: int | None  # of a Delta table
    source: str  # `columns topic, partition, offset of version 7`, `names of 40 files`


def read_landed_columns(uri: str, topics: Sequence[str]) -> LandedCopy | None:
    """Read the offsets that a copy has as columns; None if its files have none.

    Args:
        uri: A Delta table, or a folder of Parquet files.
        topics: Topics that are read; empty: all. One topic is assumed where the copy has no column of topics.

    Raises:
        DefinitionError: The columns are ambiguous, or none names the topic.
        LakeError: A file cannot be read, or a row has no offset.
    """
    with queries.open_duckdb() as connection:
        try:
            version = _bind_rows(connection, uri)
            columns = _find_columns(connection, uri)
            if columns is None:
                return None
            partitions = tuple(_list_partitions(connection, uri, columns, topics))
        except duckdb.Error as error:
            msg = f"Copy `{uri}`: expected files that can be read, got: {queries.describe_error(error)}"
            raise LakeError(msg) from None
    at = "" if version is None else f" of version {version}"
    return LandedCopy(partitions=partitions, table_version=version, source=f"columns {', '.join(columns.values())}{at}")


def list_landed_files(uri: str) -> list[StoredFile]:
    """List the files of a copy.

    Raises:
        DefinitionError: The folder does not exist, holds no file, or holds files that do not all belong to the copy.
    """
    listing = next((name for name in _LISTINGS if list_stored_files(f"{uri.rstrip('/')}/{name}") is not None), None)
    if listing is not None or is_iceberg_table(uri):
        msg = f"--landed: expected a Delta table or files that all belong to the copy, `{uri}` has "
        raise DefinitionError(msg + f"`{listing or 'metadata'}/`, which lists the files that do.")
    files = list_stored_files(uri)
    if not files:
        msg = (
            f"--landed: expected a folder with a copy of a topic, `{uri}` {'is none' if files is None else 'is empty'}."
        )
        raise DefinitionError(msg)
    return files


def find_landed_position(copy: LandedCopy, further_notes: Sequence[str] = ()) -> PositionReport:
    """Find the position of a copy by what it shows itself: gaps make it bounded."""
    notes = (*further_notes, *(note for partition in copy.partitions for note in _describe_partition(partition)))
    lower, upper = dict[str, dict[int, int]](), dict[str, dict[int, int]]()
    for partition in copy.partitions:
        start = partition.gaps[0].start if partition.gaps else partition.next_offset
        lower.setdefault(partition.topic, {})[partition.partition] = start
        upper.setdefault(partition.topic, {})[partition.partition] = partition.next_offset
    position: Position | UnknownPosition = Position(
        topics=lower, upto=upper, watermark=None, table_version=copy.table_version, at=None
    )
    unfinished = next((partition for partition in copy.partitions if partition.open_records), None)
    if unfinished is not None:
        place = f"{unfinished.topic}, partition {unfinished.partition}"
        position = UnknownPosition(
            f"names of files do not show the last offset of {place}: `--check-log` counts from {unfinished.next_offset}"
        )
    return PositionReport(position=position, source=copy.source, notes=notes, unnamed_are_unread=True)


def _describe_partition(partition: LandedPartition) -> Iterator[str]:
    place = f"{partition.topic}, partition {partition.partition}"
    if partition.first:
        yield f"{place}: begins at offset {partition.first}."
    if partition.gaps:
        missing = sum(gap.count for gap in partition.gaps)
        ranges = [_describe_gap(gap) for gap in partition.gaps[:_SHOWN]]
        more = len(partition.gaps) - len(ranges)
        ranges += [f"and {count_noun(more, 'more range')}"] if more else []
        yield f"{place}: {count_clause(missing, 'offset', 'is', 'are')} missing: {', '.join(ranges)}."
    if partition.duplicates:
        yield f"{place}: {count_clause(partition.duplicates, 'record', 'is', 'are')} in it more than once."


def _describe_gap(gap: LandedGap) -> str:
    if gap.missing is not None:
        return f"{gap.missing} of {gap.start} to {gap.end - 1}"
    return str(gap.start) if gap.end == gap.start + 1 else f"{gap.start} to {gap.end - 1}"


def _bind_rows(connection: duckdb.DuckDBPyConnection, uri: str) -> int | None:
    """Bind a view to the rows of a copy; return the version of a Delta table."""
    if delta.exists(uri):
        return delta.bind(connection, _VIEW, delta.open_table(uri))
    from pyarrow import dataset  # noqa: PLC0415 -- imports pandas

    system, root = storage.resolve_uri(uri)
    paths = [f"{root}/{file.path}" for file in list_landed_files(uri) if file.path.lower().endswith(".parquet")]
    try:
        rows: Any = dataset.dataset(paths, filesystem=system, format="parquet", partitioning="hive")
    except (OSError, ValueError, TypeError) as error:
        msg = f"Copy `{uri}`: expected Parquet files that can be read, got: {str(error).splitlines()[0]}."
        raise LakeError(msg) from error
    if paths:
        connection.register(_VIEW, rows)
    else:
        connection.execute(f"CREATE TEMP VIEW {_VIEW} AS SELECT 1 AS no_column")
    return None


def _find_columns(connection: duckdb.DuckDBPyConnection, uri: str) -> dict[str, str] | None:
    """Find the columns of topic, partition and offset, called so or `kafka_offset`, `__offset` and the like."""
    types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {_VIEW}").fetchall()}
    names, columns = list(types), dict[str, str]()
    for part in _PARTS:
        matches = [name for name in names if re.sub("[^a-z]", "", name.lower()).removeprefix("kafka") == part]
        exact = [name for name in matches if name == part]
        if len(matches) > 1 and not exact:
            msg = f"Copy `{uri}`: expected one column of {part}s, got {', '.join(f'`{name}`' for name in matches)}."
            raise DefinitionError(msg)
        columns |= {part: (exact or matches)[0]} if matches else {}
    if not {"partition", "offset"} <= columns.keys():
        return None
    for part in ("partition", "offset"):
        if not _WHOLE.fullmatch(types[columns[part]]):
            msg = f"Copy `{uri}`: expected whole numbers in `{columns[part]}`, got {types[columns[part]]}."
            raise DefinitionError(msg)
    return columns


def _list_partitions(
    connection: duckdb.DuckDBPyConnection, uri: str, columns: Mapping[str, str], topics: Sequence[str]
) -> Iterator[LandedPartition]:
    if "topic" not in columns and len(topics) != 1:
        msg = f"Copy `{uri}`: expected `--topic` once, since it has no column of topics."
        raise DefinitionError(msg)
    topic_sql = f"{identifier(columns['topic'])}::VARCHAR" if "topic" in columns else literal(topics[0])
    partition, offset = identifier(columns["partition"]), identifier(columns["offset"])
    listed = ", ".join(literal(topic) for topic in topics)
    chosen = f"WHERE topic IN ({listed})" if topics else ""
    connection.execute(
        f"CREATE TEMP TABLE positions AS SELECT *, count(*) AS copies FROM (SELECT {topic_sql} AS topic, "  # noqa: S608 -- quoted names
        f'{partition}::BIGINT AS "partition", {offset}::BIGINT AS "offset" FROM {_VIEW}) {chosen} GROUP BY ALL'
    )
    invalid = '"partition" IS NULL OR "offset" IS NULL OR topic IS NULL OR "partition" < 0 OR "offset" < 0'
    (without,) = connection.execute(f"SELECT coalesce(sum(copies), 0) FROM positions WHERE {invalid}").fetchall()[0]  # noqa: S608 -- no names
    if without:
        rows = count_clause(int(without), "row", "has", "have")
        msg = f"Copy `{uri}`: expected topic, partition and offset in every row, {rows} none."
        raise LakeError(msg)
    gaps = dict[tuple[str, int], list[LandedGap]]()
    for topic, number, start, end in connection.execute(_GAPS).fetchall():
        gaps.setdefault((topic, number), []).append(LandedGap(start=start, end=end))
    bounds = connection.execute(_BOUNDS).fetchall()
    if not bounds:
        msg = f"Copy `{uri}`: expected records{f' of {listed}' if topics else ''}, found none."
        raise LakeError(msg)
    for topic, number, first, next_offset, duplicates in bounds:
        yield LandedPartition(
            topic=topic,
            partition=number,
            first=first,
            next_offset=next_offset,
            gaps=tuple(gaps.get((topic, number), ())),
            duplicates=int(duplicates),
        )


_BOUNDS = (
    'SELECT topic, "partition", min("offset"), max("offset") + 1, sum(copies) - count(*) FROM positions GROUP BY ALL'
    " ORDER BY ALL"
)
_GAPS = (
    'SELECT topic, "partition", previous + 1, "offset" FROM (SELECT topic, "partition", "offset", lag("offset") OVER'
    ' (PARTITION BY topic, "partition" ORDER BY "offset") AS previous FROM positions) WHERE "offset" > previous + 1'
    " ORDER BY ALL"
)


_ISOLATIONS = ("read_committed", "read_uncommitted")


def compare_gaps(client: LogClient, copy: LandedCopy, bounds: dict[str, TopicBounds]) -> tuple[LandedCopy, list[str]]:
    """Remove the explained gaps of a copy, and count its last files' records in the log; the texts say what was found.

    Raises:
        LogError: No broker responds.
    """
    notes = list[str]()
    partitions = []
    for partition in copy.partitions:
        topic_bounds = bounds.get(partition.topic)
        if topic_bounds is None or partition.partition not in topic_bounds.ends:
            partitions.append(partition)
            continue
        place = f"{partition.topic}, partition {partition.partition}"
        gaps = tuple(_list_unexplained(client, partition, topic_bounds))
        explained = len(partition.gaps) - len(gaps)
        if explained:
            notes.append(f"{place}: {count_clause(explained, 'gap', 'has', 'have')} no record in the log.")
        earliest = topic_bounds.earliest[partition.partition]
        if earliest < partition.first and _has_record(client, partition, (earliest, partition.first)):
            notes.append(f"{place}: the log has records before the copy begins, from offset {earliest}.")
        partitions.append(_count_last_file(client, replace(partition, gaps=gaps), topic_bounds))
    return replace(copy, partitions=tuple(partitions)), notes


def _list_unexplained(client: LogClient, partition: LandedPartition, bounds: TopicBounds) -> Iterator[LandedGap]:
    """Yield the gaps that hold records, from the first one of them, and those that the log no longer has."""
    earliest, end = bounds.earliest[partition.partition], bounds.ends[partition.partition]
    kept = [gap for gap in partition.gaps if gap.start >= earliest and gap.end <= end]
    counted = [gap for gap in kept if gap.missing is not None]
    committed, uncommitted = (
        _list_offsets_in(client, partition, gaps, isolation)
        for gaps, isolation in zip((kept, counted), _ISOLATIONS, strict=True)
    )
    for gap in partition.gaps:
        offsets = committed.get(gap)
        if offsets is None:
            yield gap
        elif gap.missing is None:
            if offsets:
                yield replace(gap, start=offsets[0])
        elif gap.end - gap.start - gap.missing not in {len(offsets), len(uncommitted[gap])}:
            yield gap


def _list_offsets_in(
    client: LogClient, partition: LandedPartition, gaps: Sequence[LandedGap], isolation: str
) -> dict[LandedGap, list[int]]:
    """List the offsets of the records in gaps, by one read from the first gap to the last."""
    offsets: dict[LandedGap, list[int]] = {gap: [] for gap in gaps}
    if not gaps:
        return offsets
    starts = [gap.start for gap in gaps]
    ranges = {partition.partition: (starts[0], gaps[-1].end)}
    for _, offset, _ in client.positions(partition.topic, ranges, isolation):
        gap = gaps[bisect_right(starts, offset) - 1]
        if offset < gap.end:
            offsets[gap].append(offset)
    return offsets


def _has_record(client: LogClient, partition: LandedPartition, offset_range: tuple[int, int]) -> bool:
    ranges = {partition.partition: offset_range}
    return next(client.positions(partition.topic, ranges, _ISOLATIONS[0]), None) is not None


def _count_last_file(client: LogClient, partition: LandedPartition, bounds: TopicBounds) -> LandedPartition:
    """Find the last offset of the last file by its number of records.

    It stays open if the log no longer has them, or if a reader of uncommitted records finds another offset than one of
    committed ones, since the copy does not show which of them it was.
    """
    if not partition.open_records or partition.next_offset < bounds.earliest[partition.partition]:
        return partition
    span = (partition.next_offset, bounds.ends[partition.partition])
    ends = set[int | None]()
    for isolation in _ISOLATIONS:
        records = client.positions(partition.topic, {partition.partition: span}, isolation)
        ends.add(next((offset + 1 for n, (_, offset, _) in enumerate(records, 1) if n == partition.open_records), None))
    (end, *others) = ends
    return partition if others or end is None else replace(partition, next_offset=end, open_records=0)
