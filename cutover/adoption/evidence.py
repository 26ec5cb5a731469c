"""What is read of a job: its table at one version, the records of its batches, and the operators of its query.

The operators in the state of a query say how it groups, aggregates and removes duplicates.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

import duckdb

from cutover.counts import count_noun
from cutover.definition.model.pipeline import OutputMode
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient, RawRecord
from cutover.positions.delta_versions import list_table_versions
from cutover.positions.followed_job import map_versions
from cutover.positions.spark_checkpoint import (
    DEDUPLICATIONS,
    GROUPING,
    JOIN,
    SESSIONS,
    Batch,
    LateRule,
    Operator,
    SparkCheckpoint,
    StateField,
)
from cutover.quoting import identifier, literal
from cutover.timestamps import MICROSECONDS, drop_zone, to_micros_of

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


_BUFFERS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("n", "avg", "m2"), ("Variance", "Stddev")),
    (("sum", "isEmpty"), ("Sum",)),
    (("sum", "count"), ("Avg",)),
    (("sum",), ("Sum",)),
    (("count",), ("Count",)),
    (("max",), ("Max",)),
    (("min",), ("Min",)),
)
"""Names of successive buffers in the state, and the measures that have them; the longest match counts."""

SCHEMA_TYPES: Mapping[str, str] = {
    "long": "bigint",
    "integer": "int",
    "short": "int",
    "byte": "int",
    "float": "double",
}
"""Type as Spark names it in a schema in JSON -> type of our schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Aggregate of a grouping, decoded from its buffers."""

    measures: tuple[str, ...]  # classes of measures with these buffers; empty: none that a followed job may have
    buffers: tuple[str, ...]  # names of the buffers

    def describe(self) -> str:
        """Describe the aggregate for people."""
        return " or ".join(self.measures) or f"unknown ({', '.join(self.buffers)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryShape:
    """Shape of a query: one topic, an optional deduplication by an id, and an optional grouping by windows."""

    topic: str
    is_grouped: bool
    keys: tuple[StateField, ...]  # of the grouping, without the window
    aggregates: tuple[Aggregate, ...]  # in the order of the query
    deduplicated_by: str | None  # name of the id in the query; None: the state has no deduplication
    deduplicated_time: str | None  # name of the event time, if it is in the state of the deduplication
    delay: int | None  # of the watermark, microseconds; None: no operator has one
    drops_late: bool  # outside of complete mode; sessions there, too
    has_sessions: bool = False
    day: StateField | None = None  # time by which the query groups without `window`, such as a day of a zone

    def describe_operators(self) -> str:
        """Describe the operators for people."""
        window = "session" if self.has_sessions else "window" if self.day is None else self.day.name
        grouping = f"grouping by {window}, {', '.join(key.name for key in self.keys)}" if self.is_grouped else ""
        once = f"deduplication by {self.deduplicated_by}" if self.deduplicated_by else ""
        return " behind a ".join(filter(None, (grouping, once))) or "no state"


def describe_query(checkpoint: SparkCheckpoint) -> QueryShape:
    """Describe the shape of a query.

    Raises:
        DefinitionError: It reads several topics, or has operators that `cutover follow` cannot repeat.
    """
    topics = sorted({topic for batch in checkpoint.batches for topic in batch.ends})
    if len(topics) > 1 and any(operator.name == JOIN for operator in checkpoint.operators):
        msg = f"--checkpoint: expected a query whose definition can be proposed, it joins {' and '.join(topics)}."
        hint = "\nHint: the condition of a join is not in its checkpoint. docs/follow.md shows a definition with "
        raise DefinitionError(msg + hint + "`Join(between=...)` to write by hand; `cutover follow` repeats it.")
    if len(topics) != 1:
        msg = f"--checkpoint: expected a query that reads one topic, its offsets name {', '.join(topics) or 'none'}."
        raise DefinitionError(msg + "\nHint: docs/follow.md lists which jobs can be followed.")
    reason = next(_list_obstacles(checkpoint.operators), None)
    if reason is not None:
        operators = ", ".join(f"{operator.name} ({operator.late_rule})" for operator in checkpoint.operators)
        msg = f"--checkpoint: expected a query whose definition can be proposed, it has {operators}: {reason}."
        hint = "\nHint: docs/follow.md lists which jobs can be followed, and shows a definition to write by hand."
        raise DefinitionError(msg + hint)
    grouping = next((operator for operator in checkpoint.operators if operator.name in {GROUPING, SESSIONS}), None)
    once = next((operator for operator in checkpoint.operators if operator.name in DEDUPLICATIONS), None)
    delays = [operator.watermark_delay for operator in checkpoint.operators if operator.watermark_delay is not None]
    day = None if grouping is None else _find_day(grouping)
    return QueryShape(
        topic=topics[0],
        is_grouped=grouping is not None,
        keys=() if grouping is None else tuple(field for field in _list_keys(grouping) if field != day),
        aggregates=() if grouping is None else tuple(decode_aggregates(_list_buffers(grouping))),
        deduplicated_by=None if once is None else _list_ids(once)[0],
        deduplicated_time=None if once is None else next(iter(_list_times(once)), None),
        delay=min(delays, default=None),
        drops_late=any(operator.late_rule in {LateRule.WINDOW, LateRule.ROW} for operator in checkpoint.operators),
        has_sessions=grouping is not None and grouping.name == SESSIONS,
        day=day,
    )


def _list_keys(grouping: Operator) -> list[StateField]:
    """List the keys of a grouping, without its window; of sessions, the last field is the start of a session."""
    keys = [field for field in grouping.fields if field.is_key and not field.is_window]
    return keys[:-1] if grouping.name == SESSIONS else keys


def _list_buffers(grouping: Operator) -> list[StateField]:
    """List the buffers of a grouping; the state of sessions has them behind the keys and the session."""
    values = [field for field in grouping.fields if not field.is_key]
    return values[len(_list_keys(grouping)) + 1 :] if grouping.name == SESSIONS else values


def _find_day(grouping: Operator) -> StateField | None:
    """Find the time by which a query groups without the function `window`; None: it has a window, or no such time."""
    if grouping.name != GROUPING or any(field.is_window for field in grouping.fields):
        return None
    return next((field for field in grouping.fields if field.is_key and field.type in {"date", "timestamp"}), None)


def _list_obstacles(operators: Sequence[Operator]) -> Iterator[str]:
    """Yield why a query cannot be followed."""
    for operator in operators:
        yield from _list_operator_obstacles(operator)
    for names in ({GROUPING, SESSIONS}, {*DEDUPLICATIONS}):
        if sum(operator.name in names for operator in operators) > 1:
            yield "several operators of one kind may have watermarks that the checkpoint does not show"
    names = {operator.name for operator in operators}
    if SESSIONS in names and len(names) > 1:
        yield "a deduplication before sessions cannot be followed"


def _list_operator_obstacles(operator: Operator) -> Iterator[str]:
    columns = ", ".join(operator.columns) or "unknown columns"
    if operator.name not in {GROUPING, SESSIONS, *DEDUPLICATIONS}:
        yield f"which records {operator.name} drops is not in the checkpoint, or differs from our rule"
    elif operator.late_rule is LateRule.UNKNOWN:
        yield f"which records {operator.name} by {columns} drops is unknown"
    elif operator.name in DEDUPLICATIONS and len(_list_ids(operator)) != 1:
        yield f"it deduplicates by {columns}, not by one id"
    elif operator.name in {GROUPING, SESSIONS}:
        day = _find_day(operator)
        if operator.name == GROUPING and day is None and not any(field.is_window for field in operator.fields):
            yield f"its grouping by {columns} has no window of the function `window`, and no time"
        if not [field for field in _list_keys(operator) if field != day]:
            yield "its grouping has no key besides the window"


def _list_ids(operator: Operator) -> list[str]:
    times = set(_list_times(operator))
    return [field.name for field in operator.fields if field.is_key and field.name not in times]


def _list_times(operator: Operator) -> list[str]:
    timed = [field.name for field in operator.fields if field.is_key and field.is_timed]
    return timed or [field.name for field in operator.fields if field.is_key and field.type == "timestamp"]


def decode_aggregates(buffers: Sequence[StateField]) -> Iterator[Aggregate]:
    """Decode the aggregates of a grouping from their buffers, in the order of the query.

    `Count` has a `count` that is never null, `Avg` one that may be: so a sum before a count is told from an average.
    """
    remaining = list(buffers)
    while remaining:
        names, measures = next(
            (known for known in _BUFFERS if _has_buffers(remaining, known[0])), ((remaining[0].name,), ())
        )
        yield Aggregate(measures=measures, buffers=names)
        remaining = remaining[len(names) :]


def _has_buffers(fields: Sequence[StateField], names: tuple[str, ...]) -> bool:
    if tuple(field.name for field in fields[: len(names)]) != names:
        return False
    return "count" not in names or fields[len(names) - 1].nullable is (names != ("count",))
