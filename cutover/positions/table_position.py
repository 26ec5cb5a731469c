"""Position of a table by what its job has recorded: in a commit, a row or a record, else in a file next to the table.

In PostgreSQL it is the row of the table `cutover_position` in the same schema, which the job writes in the transaction
that writes the table. Both are read in one transaction of one snapshot. Rows that a later transaction has written show
that someone else has changed the table; rows that were deleted later leave no trace.

In a compacted topic whose records are the rows of a batch job, it is a record with the key `cutover.position`, which
the job writes after its rows: the position in the long form, whose `table.ends` has the offset after its last row of
each partition. Offsets are in no order across partitions, so only these tell which rows were written before the
position. A row at or after them belongs to another run, or another writer.

A file cannot be written in the commit of the data. So it is the position of a table with versions only if it names the
newest version that changed rows, and that of a folder of files only if no file was written after it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from cutover.counts import count_clause
from cutover.errors import LakeError
from cutover.lake.tables import delta
from cutover.positions.position import Position, PositionReport, UnknownPosition, parse_position
from cutover.positions.table_metadata import (
    StoredFile,
    find_commit_position,
    find_newest_change,
    find_newest_snapshot,
    find_snapshot_position,
    find_stored_file,
    is_delta_table,
    is_iceberg_table,
    list_stored_files,
    read_stored_text,
)
from cutover.sources.compacted_topic import POSITION_KEY, PositionRecord, TopicState

FILE_NAME = "_cutover_position.json"
"""Name of the file in the folder of its table; readers of Parquet and Delta take such a name for hidden."""


def read_position_file(uri: str) -> Position | None:
    """Read the position in a file; None if there is none.

    Raises:
        LakeError: It cannot be read, or the position is malformed.
    """
    text = read_stored_text(uri)
    return None if text is None else parse_position(text, place=f"File `{uri}`")


def find_file_position(uri: str, table: str | None) -> PositionReport:
    """Find the position that a file states, and check that it is that of the newest rows of a table.

    Args:
        uri: Of the file.
        table: A Delta table, an Iceberg table, a folder or a file; None: the file is not compared with a table.

    Raises:
        LakeError: There is no such file, or the table cannot be read.
    """
    file = find_stored_file(uri)
    position = None if file is None else read_position_file(uri)
    if file is None or position is None:
        msg = f"File `{uri}`: expected a position, found no file."
        raise LakeError(msg)
    notes: tuple[str, ...]
    if table is None:
        notes = ("Not compared with the table that it belongs to: name it with `--table`.",)
        return PositionReport(position=position, source=f"file `{uri}`", notes=notes)
    doubt, notes = _find_doubt_of_file(position, file, table)
    recorded_at = file.written_at // 1000
    return PositionReport(position=doubt or position, source=f"file `{uri}`", notes=notes, recorded_at=recorded_at)


def _find_doubt_of_file(
    position: Position, file: StoredFile, table: str
) -> tuple[UnknownPosition | None, tuple[str, ...]]:
    """Find why a file is not the position of a table's newest rows; the second value is what should be known of it."""
    if is_delta_table(table):
        change = find_newest_change(table)
        newest = None if change is None else range(change.version, change.newest_version + 1)
        name = "no version" if change is None else f"version {change.version} ({change.operation})"
        return _compare_version(position, newest, name), ()
    if is_iceberg_table(table):
        newest_ids = find_newest_snapshot(table)
        name = f"snapshot {newest_ids[-1]}" if newest_ids else "no snapshot"
        return _compare_version(position, newest_ids, name), ()
    return _compare_times(position, file, table)


def _compare_version(position: Position, newest: range | tuple[int, ...] | None, name: str) -> UnknownPosition | None:
    if position.table_version is None:
        reason = f"the file does not name a version, and the newest rows are those of {name}: add"
        return UnknownPosition(f'{reason} `"table": {{"version": ...}}`')
    if position.table_version not in (newest or ()):
        reason = f"the file states the position of version {position.table_version}"
        return UnknownPosition(f"{reason}, and {name} has written the newest rows")
    return None


def _compare_times(position: Position, file: StoredFile, table: str) -> tuple[UnknownPosition | None, tuple[str, ...]]:
    files = list_stored_files(table)
    if files is None:
        only_file = find_stored_file(table)
        files = [] if only_file is None else [only_file]
    if not files:
        msg = f"Table `{table}`: expected a Delta table, an Iceberg table or files, found none."
        raise LakeError(msg)
    if position.table_version is not None:
        reason = f"the file states the position of version {position.table_version}, and the table has no versions"
        return UnknownPosition(reason), ()
    newer = [other for other in files if other.written_at > file.written_at]
    if newer:
        were = count_clause(len(newer), "file of the table", "was", "were")
        return UnknownPosition(f"{were} written after it, such as `{newer[0].path}`"), ()
    return None, ("The table has no versions: that files were removed since would not show.",)


POSITION_TABLE = "cutover_position"
"""Table with the columns `table_name` and `position`, in the schema of the tables that it is about."""

_LIMITS = ("SET LOCAL lock_timeout = '30s'", "SET LOCAL idle_in_transaction_session_timeout = 0")
_CONNECTION: Mapping[str, Any] = {"application_name": "cutover", "client_encoding": "utf8", "connect_timeout": 10}
FetchRows = Callable[[sql.SQL | sql.Composed, Sequence[object]], Sequence[tuple[Any, ...]]]
"""Function that runs a query with its values in the transaction of a snapshot."""

_FIND_TABLE = sql.SQL(
    "SELECT c.relkind IN ('r', 'p', 'm'), n.nspname, c.relname,"
    " to_regclass(format('%%I.%%I', n.nspname, %s::text)) IS NOT NULL, current_setting('track_commit_timestamp') = 'on'"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTable:
    """Table of a server, by an address that may contain a password."""

    url: str = field(repr=False)
    table: str  # `schema.table`, as SQL has it
    shown: str  # address without secrets
    secrets: tuple[str, ...] = field(repr=False, default=())  # texts that must appear nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRow:
    """Row with a table's position, and what its transaction tells about the rows of the table."""

    report: PositionReport
    place: sql.Identifier  # of the table
    name: str  # of the table, with its schema
    is_later: str | None = None  # SQL of the server: a row was written after the position; None: that does not show
    is_earlier: str | None = None  # SQL of the server: a row is of an earlier transaction, which may have ended later
    later_writers: str = ""  # who may have written such rows, in words


def find_row_position(table: PostgresTable) -> PositionReport:
    """Find the position in the row of a table; unknown if there is none, or if rows were written after it.

    Raises:
        LakeError: The server cannot be reached or rejects the queries, there is no such table, or the position is
            malformed.
    """
    try:
        with psycopg.connect(table.url, **_CONNECTION) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            for limit in _LIMITS:
                connection.execute(limit.encode())
            return read_row_position(lambda query, values: connection.execute(query, values).fetchall(), table)
    except (psycopg.Error, UnicodeError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        for secret in table.secrets:
            reason = reason.replace(secret, "***")
        msg = f"Table `{table.shown}`: expected a server that can be read, got: {reason}."
        raise LakeError(msg) from None


def read_row_position(fetch: FetchRows, table: PostgresTable) -> PositionReport:
    """Read the position in the row of a table; unknown if rows were written after it.

    Raises:
        LakeError: There is no such table, or the position is malformed.
    """
    row = read_recorded_row(fetch, table)
    if row.is_later is None or isinstance(row.report.position, UnknownPosition):
        return row.report
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(row.place, sql.SQL(row.is_later))
    (is_changed,) = fetch(query, [])[0]
    if is_changed:
        reason = f"rows of `{row.name}` were written after its position, {row.later_writers}"
        return replace(row.report, position=UnknownPosition(reason))
    return row.report


def read_recorded_row(fetch: FetchRows, table: PostgresTable) -> RecordedRow:
    """Read the position in the row of a table, and how its rows show that they were written later.

    A row tells by `xmin` which transaction wrote it. Transactions are numbered as they begin to write, so a row with a
    higher number than that of the position was written after it, unless both are in one transaction, and the row in a
    savepoint of it. The times of commits tell these apart, on a server that keeps them.

    Raises:
        LakeError: There is no such table, or the position is malformed.
    """
    found = fetch(_FIND_TABLE, [POSITION_TABLE, table.table])
    source = f"row of `{table.table}` in `{POSITION_TABLE}`"
    if not found:
        msg = f"Table `{table.shown}`: expected a table of the database, found none."
        raise LakeError(msg)
    has_rows, schema, name, has_positions, tracks_commits = found[0]
    row = partial(RecordedRow, place=sql.Identifier(schema, name), name=f"{schema}.{name}")
    if not has_positions:
        reason = f"schema {schema} has no table `{POSITION_TABLE}`"
        return row(report=PositionReport(position=UnknownPosition(reason), source=source))
    time = "(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint" if tracks_commits else "NULL"
    query = sql.SQL("SELECT position::text, xmin::text, {} FROM {} WHERE table_name IN (%s, %s)").format(
        sql.SQL(time), sql.Identifier(schema, POSITION_TABLE)
    )
    rows = fetch(query, [name, f"{schema}.{name}"])
    if len(rows) != 1 or rows[0][0] is None:
        reason = f"`{schema}.{POSITION_TABLE}` has {len(rows) or 'no'} positions of `{name}`"
        return row(report=PositionReport(position=UnknownPosition(reason), source=source))
    text, transaction, recorded_at = rows[0]
    position = replace(parse_position(text, place=f"Table `{table.shown}`, {source}"), table_version=None)
    notes = () if has_rows else ("Changes by another writer would not show: the rows are those of a view.",)
    return row(
        report=PositionReport(position=position, source=source, notes=notes, recorded_at=recorded_at),
        is_later=_make_later_condition(int(transaction), tracks_commits=tracks_commits) if has_rows else None,
        is_earlier=_make_earlier_condition(int(transaction)) if has_rows and not tracks_commits else None,
        later_writers="in another transaction" if tracks_commits else "in another transaction, or in a savepoint of it",
    )


def _make_earlier_condition(transaction: int) -> str:
    """Return SQL that is true for a row of a transaction that had begun to write before another one."""
    return f"(xmin::text <> '{transaction}' AND NOT {_has_higher_number(transaction)})"


def _has_higher_number(transaction: int) -> str:
    # The age of a row that was written more than 2 billion transactions ago is negative.
    return f"(age(xmin) >= 0 AND age(xmin) < age('{transaction}'::xid))"


def _make_later_condition(transaction: int, *, tracks_commits: bool) -> str:
    """Return SQL that is true for a row that was written after a transaction; rows of it have its `xmin`."""
    has_higher_number = _has_higher_number(transaction)
    if not tracks_commits:
        return has_higher_number
    # Null, for times before the server kept them.
    is_later = f"pg_xact_commit_timestamp(xmin) > pg_xact_commit_timestamp('{transaction}'::xid)"
    return f"coalesce({is_later}, {has_higher_number})"


def find_table_position(uri: str) -> PositionReport:
    """Find the position that the job of a table has recorded for its newest rows.

    Args:
        uri: Delta table, Iceberg table, or a folder of files.

    Raises:
        LakeError: The table cannot be read, or a position is malformed.
    """
    file = f"{uri.rstrip('/')}/{FILE_NAME}"
    has_file = find_stored_file(file) is not None
    if is_delta_table(uri):
        by_commit = find_commit_position(uri)
    elif is_iceberg_table(uri):
        by_commit = find_snapshot_position(uri)
    elif has_file:
        return find_file_position(file, uri)
    else:
        reason = f"the table has neither commits nor a file `{FILE_NAME}`"
        return PositionReport(position=UnknownPosition(reason), source=f"table `{uri}`")
    return combine_reports(by_commit, find_file_position(file, uri)) if has_file else by_commit


def read_newest_version(uri: str) -> int | None:
    """Read the newest version of a Delta table, or the id of the current snapshot of an Iceberg table; None for files.

    Raises:
        LakeError: The table cannot be read.
    """
    if is_delta_table(uri):
        return int(delta.open_table(uri, reads_rows=False).version())
    if is_iceberg_table(uri):
        return next(iter(find_newest_snapshot(uri)), None)
    return None


def combine_reports(by_commit: PositionReport, by_file: PositionReport) -> PositionReport:
    """Return the position of the commit, else that of the file; unknown if both state one and differ."""
    commit, file = by_commit.position, by_file.position
    if isinstance(commit, UnknownPosition):
        if isinstance(file, UnknownPosition):
            return replace(by_commit, position=UnknownPosition(f"{commit.reason}; {file.reason}"))
        return by_file
    if isinstance(file, Position) and (file.topics, file.upto) != (commit.topics, commit.upto):
        reason = f"{by_commit.source} and {by_file.source} state different offsets of one version"
        return replace(by_commit, position=UnknownPosition(reason))
    return by_commit


_SOURCE = f"record with the key `{POSITION_KEY}`"


def find_topic_position(state: TopicState, shown: str) -> PositionReport:
    """Find the position of the rows that a topic has, which are all that were read.

    Args:
        state: Of the topic.
        shown: Its address, without secrets.

    Raises:
        LakeError: The position is malformed.
    """
    newest = {record.partition: record for record in state.positions}
    records = [record for record in newest.values() if record.text is not None]
    reason = _find_doubt_of_records(records)
    if reason is not None:
        return PositionReport(position=UnknownPosition(reason), source=_SOURCE)
    (record,) = records
    source = f"record at offset {record.offset} of partition {record.partition}, with the key `{POSITION_KEY}`"
    position = parse_position(record.text or "", place=f"Table `{shown}`, {source}")
    doubt = _find_doubt_of_rows(state, position)
    return PositionReport(position=position if doubt is None else UnknownPosition(doubt), source=source)


def _find_doubt_of_records(records: list[PositionRecord]) -> str | None:
    if not records:
        return f"the topic has no {_SOURCE}"
    if len(records) > 1:
        listed = " and ".join(str(record.partition) for record in records[:2])
        return f"partitions {listed} have a {_SOURCE}, of which neither is the later one"
    return None


def _find_doubt_of_rows(state: TopicState, position: Position) -> str | None:
    """Find why the rows of a topic are not those that the job had written when it recorded its position."""
    if position.table_ends is None:
        return f"the {_SOURCE} does not state `ends` of `table`, the offsets after the job's last rows"
    for partition, end in sorted(position.table_ends.items()):
        read = state.ends.get(partition, 0)
        if end > read:
            reason = f"it states rows up to offset {end} of partition {partition}, and the topic ends at {read}"
            return f"{reason} for readers of committed records: a transaction is open, or it was created again"
    for partition, row_end in sorted(state.row_ends.items()):
        end = position.table_ends.get(partition, 0)
        if row_end > end:
            return f"rows were written after it, such as that at offset {row_end - 1} of partition {partition}"
    return None


def has_record_of_each_offset(state: TopicState, position: Position) -> bool:
    """Return whether every offset after the rows has a record, so that no row was deleted without a trace.

    Compaction removes the record of a deletion in the end. Markers of transactions have no record either.
    """
    ends = position.table_ends or {}
    later = sum(end - min(end, ends.get(partition, 0)) for partition, end in state.ends.items())
    return later == sum(record.offset >= ends.get(record.partition, 0) for record in state.positions)
