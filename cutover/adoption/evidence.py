"""What is read of a job: its table at one version, and the records of its batches."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import gcd
from pathlib import Path
from typing import Any

import duckdb

from cutover.counts import count_noun
from cutover.definition.model.spark_stream import OutputMode
from cutover.durations import MICROSECONDS
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient, RawRecord
from cutover.positions.delta_versions import list_table_versions
from cutover.positions.followed_job import map_versions
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint
from cutover.quoting import identifier, literal
from cutover.timestamps import to_micros

MAX_ROWS = 500_000
"""Rows of a table that are compared at most."""

MAX_STARTS = 10_000
"""Distinct starts of windows from which their period is inferred."""

_MILLI = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTable:
    """Table of a job at the version that contains one batch and no later one."""

    place: str
    version: int
    batch: int
    columns: Mapping[str, str]  # column, or `a.b` in a struct -> type of DuckDB
    output_mode: OutputMode | None  # None: its commits do not show it
    operation: str  # of the version's commit
    connection: duckdb.DuckDBPyConnection

    def list_starts(self, start: str) -> list[int]:
        """List the distinct starts of windows, microseconds, ascending; at most `MAX_STARTS`."""
        column = _select_sql(start)
        query = f"SELECT DISTINCT {column} AS start FROM job WHERE start IS NOT NULL ORDER BY start LIMIT {MAX_STARTS}"
        return [to_micros_of(row[0]) for row in self.connection.execute(query).fetchall()]

    def has_whole_seconds(self, column: str) -> bool:
        """Return whether each time of a column has no fraction of a second, as starts of windows have none."""
        return not any(start % MICROSECONDS["second"] for start in self.list_starts(column))

    def list_sizes(self, start: str, end: str) -> list[int]:
        """List the distinct sizes of windows, microseconds."""
        size = f"date_diff('microsecond', {_select_sql(start)}, {_select_sql(end)})"
        return [int(row[0]) for row in self.connection.execute(f"SELECT DISTINCT {size} FROM job").fetchall() if row[0]]

    def list_values(self, column: str, limit: int = 1_000) -> set[str]:
        """List distinct values of a column as texts."""
        query = f"SELECT DISTINCT CAST({_select_sql(column)} AS VARCHAR) AS value FROM job LIMIT {limit}"
        return {row[0] for row in self.connection.execute(query).fetchall() if row[0] is not None}

    def read_rows(self, columns: Sequence[str], time: str, since: int | None) -> list[dict[str, Any]]:
        """Read columns of the rows at or after a time; times are in UTC, without a zone.

        Raises:
            LakeError: They are more than `MAX_ROWS`.
        """
        selected = ", ".join(f"{_select_sql(name)} AS {identifier(name)}" for name in columns)
        condition = "true" if since is None else f"epoch_us(CAST({_select_sql(time)} AS TIMESTAMPTZ)) >= {since}"
        query = f"SELECT {selected} FROM job WHERE {condition} LIMIT {MAX_ROWS + 1}"
        rows = queries.query_table(self.connection, query).to_pylist()
        if len(rows) > MAX_ROWS:
            msg = f"Table `{self.place}`: expected at most {count_noun(MAX_ROWS, 'row')} to compare, it has more."
            raise LakeError(msg)
        return [{name: drop_zone(value) for name, value in row.items()} for row in rows]


def _select_sql(path: str) -> str:
    head, *fields = path.split(".")
    return "".join([identifier(head), *(f"[{literal(name)}]" for name in fields)])


def drop_zone(value: Any) -> Any:
    """Return a time in UTC without its zone; another value as it is."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def to_micros_of(value: date) -> int:
    """Convert a time, or the midnight of a day, in UTC to microseconds."""
    if isinstance(value, datetime):
        return to_micros(value if value.tzinfo else value.replace(tzinfo=UTC))
    return to_micros(datetime(value.year, value.month, value.day, tzinfo=UTC))


def open_job_table(connection: duckdb.DuckDBPyConnection, uri: str, checkpoint: SparkCheckpoint) -> StreamTable:
    """Open the table that a query writes, at the version that contains its newest committed batch and no later one.

    Raises:
        DefinitionError: Another writer changed it, or no version contains that batch.
        LakeError: There is no such Delta table, or it cannot be read.
    """
    if not delta.exists(uri):
        raise _reject_other_table(uri)
    table = delta.open_table(uri)
    newest = checkpoint.newest_committed
    if newest is None:
        msg = "--checkpoint: expected a query that has committed a batch, found none."
        raise DefinitionError(msg)
    versions = list_table_versions(uri, checkpoint, table)
    foreign = [version for version in versions if version.is_foreign]
    if foreign:
        writer = f"version {foreign[-1].version} ({foreign[-1].operation}) is another writer's"
        msg = f"--stream: expected a table that the query alone writes, {writer}."
        raise DefinitionError(msg)
    if not delta.actions(table):
        raise _reject_empty(uri, table.version())
    version, _ = map_versions(versions, newest.number, None)[newest.number]
    if version is None or not any(entry.batch is not None for entry in versions):
        msg = f"--stream: expected a table that the query of the checkpoint writes, no version of `{uri}` is that of a"
        raise DefinitionError(msg + " batch that the checkpoint keeps.")
    pinned = delta.open_table(uri, version)
    delta.bind(connection, "job", pinned)
    if not connection.execute("SELECT 1 FROM job LIMIT 1").fetchall():
        raise _reject_empty(uri, version)
    commit = next(info for info in delta.list_commits(pinned, after=version - 1))
    operation, parameters = str(commit.get("operation", "")), commit.get("operationParameters")
    mode = str(parameters.get("outputMode", "")).lower() if isinstance(parameters, dict) else ""
    return StreamTable(
        place=uri,
        version=version,
        batch=newest.number,
        columns=dict(list_job_columns(connection)),
        output_mode=next((known for known in ("append", "complete", "update") if known == mode), None),
        operation=operation,
        connection=connection,
    )


def _reject_empty(uri: str, version: int) -> DefinitionError:
    msg = f"--stream: expected a table with rows by which a definition can be tested, `{uri}` is empty (version "
    return DefinitionError(f"{msg}{version}).\nHint: adopt the job once it has written some.")


def _reject_other_table(uri: str) -> DefinitionError:
    folder = Path(uri)
    kind = "Parquet" if any(folder.rglob("*.parquet")) else "Iceberg" if any(folder.glob("metadata/*.json")) else None
    found = f"`{uri}` has {kind} without a Delta log" if kind else f"found none in `{uri}`"
    hint = "the table of a streaming job has to be Delta, whose commits show which batch wrote which rows"
    more = "; that of a batch job (`--batch`) may be Parquet or Iceberg" if kind else ""
    return DefinitionError(f"--stream: expected a Delta table, {found}.\nHint: {hint}{more}.")


def list_job_columns(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str]]:
    """Yield the columns of the view `job` with their types; of a struct its fields."""
    for name, kind, *_ in connection.execute("DESCRIBE job").fetchall():
        types = connection.execute(f"SELECT {identifier(name)} FROM job LIMIT 0").description
        column_type = types[0][1]
        if str(kind).startswith("STRUCT("):
            yield from ((f"{name}.{field}", str(inner)) for field, inner in column_type.children)
        else:
            yield str(name), str(kind)


def find_period(starts: Sequence[int]) -> int | None:
    """Find the largest period of which all distances between starts of windows are multiples; None: there is one."""
    return gcd(*(start - starts[0] for start in starts[1:])) or None if len(starts) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """Batch of a query whose records are read."""

    number: int
    ends: Mapping[int, int]  # partition -> next offset, exclusive
    judged_by: int  # watermark that judged its rows, microseconds
    watermark: int  # its own one, which judges its rows before Spark 3.4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """Newest batches that the log still has, up to a number of records."""

    starts: Mapping[int, int]
    batches: tuple[ReadBatch, ...]  # ascending
    whole_from: int | None  # windows that start here or later have no record of an earlier batch; None: all
    closed_until: int  # watermark planned with the newest batch: append mode has written the windows that end by then
    records: int  # offsets in the range
    is_partial: bool = False  # earlier batches may have written rows of the same windows


def plan_read(
    checkpoint: SparkCheckpoint,
    newest: int,
    earliest: Mapping[int, int],
    *,
    limit: int,
    delay: int | None,
    has_row_per_record: bool,
) -> ReadPlan | str:
    """Plan which batches are read to test a definition; a text says why none can be.

    Records of earlier batches are at most as new as the watermark that was planned with the first batch that is read,
    plus its delay: windows that start later are whole.

    Args:
        checkpoint: Of the query, which reads one topic.
        newest: Number of the last batch that is read.
        earliest: First offset of each partition that the log still has.
        limit: Records that are read at most.
        delay: Of the watermark, microseconds.
        has_row_per_record: A row depends on one record, so that it can be tested without earlier batches.
    """
    (topic,) = checkpoint.batches[0].ends
    batches = [batch for batch in checkpoint.batches if batch.number <= newest]
    origins: list[Mapping[int, int] | None] = [checkpoint.starts.get(topic) if batches[0].number == 0 else None]
    origins += [batch.ends[topic] for batch in batches[:-1]]
    ends, best, obstacle = batches[-1].ends[topic], None, "the offsets at which its oldest batch began are not kept"
    for place in range(len(batches) - 1, -1, -1):
        first, origin = batches[place], origins[place]
        if origin is None or first.judged_by is None:
            break
        starts = {partition: origin.get(partition, 0) for partition in ends}
        records = sum(end - starts[partition] for partition, end in ends.items())
        if any(start < earliest.get(partition, 0) and ends[partition] > start for partition, start in starts.items()):
            obstacle = "the log no longer has the records of its batches"
            break
        if records > limit:
            obstacle = f"its newest batch has more records than are read ({limit:,}; `--records` states another number)"
            break
        best = (place, starts, records)
    if best is None:
        return obstacle
    place, starts, records = best
    first = batches[place]
    is_partial = first.number > 0
    if is_partial and not has_row_per_record and (delay is None or not first.watermark):
        return f"{obstacle}, and without a watermark any window may have earlier records"
    is_limited = is_partial and not has_row_per_record
    return ReadPlan(
        starts=starts,
        batches=tuple(_plan_batch(batch, topic) for batch in batches[place:]),
        is_partial=is_partial,
        whole_from=first.watermark + (delay or 0) + _MILLI if is_limited else None,
        closed_until=batches[-1].watermark,
        records=records,
    )


def _plan_batch(batch: Batch, topic: str) -> ReadBatch:
    ends, judged_by = batch.ends[topic], batch.judged_by or 0
    return ReadBatch(number=batch.number, ends=ends, judged_by=judged_by, watermark=batch.watermark)


def read_planned(client: LogClient, topic: str, plan: ReadPlan) -> list[list[RawRecord]]:
    """Read the records of the planned batches, those of each batch by partition and offset.

    Aborted records of transactions are among them, as for a reader with Spark's default isolation.

    Raises:
        LogError: No broker responds, or records are no longer in the log.
    """
    ranges = {
        partition: (plan.starts.get(partition, 0), end)
        for partition, end in plan.batches[-1].ends.items()
        if end > plan.starts.get(partition, 0)
    }
    records = sorted(
        client.read_ranges(topic, ranges, "read_uncommitted"), key=lambda record: (record.partition, record.offset)
    )
    read: list[list[RawRecord]] = [[] for _ in plan.batches]
    for record in records:
        place = next(i for i, batch in enumerate(plan.batches) if record.offset < batch.ends.get(record.partition, 0))
        read[place].append(record)
    return read
