"""Table of a team's batch job, at the state to which the position belongs that the job has recorded.

A table with versions is read at the version of its position, and one in PostgreSQL in the transaction that reads the
position. Files have no versions: their position is read again after their rows. Rows and position of a compacted topic
are read together, up to its end, which must stay.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cutover.definition.model.batch_job import (
    BatchJob,
    CompactedTopic,
    Iceberg,
    JobTableKind,
    Parquet,
    Postgres,
    describe_job_table,
)
from cutover.definition.model.pipeline import Delta
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.positions.position import Position, PositionReport, UnknownPosition
from cutover.positions.table_position import (
    PostgresTable,
    find_table_position,
    find_topic_position,
    has_record_of_each_offset,
    read_recorded_row,
)
from cutover.settings import Settings
from cutover.sources import addresses, compacted_topic
from cutover.sources.addresses import ICEBERG, TableAddress, mask_source, parse_table_address
from cutover.sources.binding import SourceBinder
from cutover.sources.iceberg import open_iceberg_address
from cutover.sources.postgres import open_postgres_snapshot
from cutover.sources.staging import Selection, open_staging_folder

_REFERENCE = re.compile(r"env:(\w+)#(.+)")
IS_LATER, IS_EARLIER = "_written_after_position", "_of_earlier_transaction"
"""Columns that a view of a table in PostgreSQL has in addition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundJobTable:
    """View of a job's table with its position."""

    position: Position
    untyped: frozenset[str]  # columns whose numbers are texts, since their type has no limit
    version: int | None = None  # None: a table without versions
    recorded_at: int | None = None  # when the position was recorded, microseconds; None: the table does not tell
    is_later: str | None = None  # column of the view: the row was written after the position; None: none can be
    is_earlier: str | None = None  # likewise: its transaction had begun before; it may have ended after the position
    shows_deletions: bool = False  # rows that were deleted after the position would show, though there is no version
    time_format: str | None = None  # of texts that have the types of the definition's columns; None: they have types
    nested: frozenset[str] = frozenset()  # columns of such texts that are objects or arrays


def find_job_table_kind(place: str) -> JobTableKind:
    """Find what kind of table a place is: an absolute path, `iceberg://...` or `env:NAME#schema.table`.

    Raises:
        DefinitionError: It is an address with which a definition would contain a password.
    """
    reference = _REFERENCE.fullmatch(place)
    if reference is not None:
        return Postgres(table=reference[2], server=reference[1])
    address = parse_table_address(place)
    if address is not None and address.scheme == ICEBERG:
        return Iceberg(place)
    if address is not None:
        msg = f"--batch: expected a folder, `iceberg://...` or `env:NAME#schema.table`, got `{mask_source(place)}`."
        raise DefinitionError(msg + "\nHint: `export NAME=postgresql://user:password@host/database`: no password here.")
    if delta.exists(place):
        return Delta(place)
    return Iceberg(place) if list(Path(place).glob("metadata/*.metadata.json")) else Parquet(place)


def find_job_position(job: BatchJob, settings: Settings | None = None) -> PositionReport:
    """Find the position that a batch job has recorded with the newest rows of its table.

    In PostgreSQL single rows may be later than their position; the comparison does not judge them.

    Args:
        job: The job.
        settings: The cluster of a topic; None: that of the environment.

    Raises:
        DefinitionError: The address of a server is not set, or there is no such table.
        LakeError: The table or its server cannot be read, or the position is malformed.
    """
    if isinstance(job.table, Postgres):
        address = _parse_server(job.table)
        with open_postgres_snapshot(address) as snapshot:
            return read_recorded_row(snapshot.fetch_rows, _make_row_table(address)).report
    if isinstance(job.table, CompactedTopic):
        return find_topic_report(parse_topic_address(job.table), settings or Settings())
    return find_table_position(_locate(job.table))


def find_topic_report(address: TableAddress, settings: Settings) -> PositionReport:
    """Find the position that a batch job has recorded in a compacted topic of rows.

    Raises:
        DefinitionError: The address names no topic.
        LakeError: The topic is not compacted, a record has no key, or the position is malformed.
        LogError: No broker responds, or the topic does not exist.
    """
    with open_staging_folder(settings.home) as folder:
        return find_topic_position(compacted_topic.read_topic_state(address, settings, folder), address.shown)


@contextmanager
def bind_job_table(binder: SourceBinder, view: str, job: BatchJob) -> Iterator[BoundJobTable | UnknownPosition]:
    """Bind a view to a job's table at the state of its position, for as long as the block runs.

    Raises:
        DefinitionError: As `find_job_position`.
        LakeError: As `find_job_position`, or the files changed while they were read.
    """
    if isinstance(job.table, Postgres):
        address = _parse_server(job.table)
        with open_postgres_snapshot(address) as snapshot:
            row = read_recorded_row(snapshot.fetch_rows, _make_row_table(address))
            if isinstance(row.report.position, UnknownPosition):
                yield row.report.position
                return
            marks = {IS_LATER: row.is_later, IS_EARLIER: row.is_earlier}
            conditions = {name: condition for name, condition in marks.items() if condition is not None}
            bound = binder.bind_postgres(view, snapshot, address, conditions)
        yield BoundJobTable(
            position=row.report.position,
            untyped=bound.untyped,
            recorded_at=row.report.recorded_at,
            is_later=IS_LATER if IS_LATER in conditions else None,
            is_earlier=IS_EARLIER if IS_EARLIER in conditions else None,
        )
        return
    if isinstance(job.table, CompactedTopic):
        yield _bind_topic(binder, view, job, job.table)
        return
    report = find_job_position(job)
    position = report.position
    if isinstance(position, UnknownPosition):
        yield position
        return
    place, version = _get_place(job.table), position.table_version
    state = "" if version is None else f"@snapshot={version}" if isinstance(job.table, Iceberg) else f"@v{version}"
    bound = binder.bind(view, f"{place}{state}")
    yield BoundJobTable(position=position, untyped=bound.untyped, version=version, recorded_at=report.recorded_at)
    if version is None and find_job_position(job).position != position:
        msg = f"Table `{describe_job_table(job.table)}`: expected files that stay as they are, they changed while they"
        raise LakeError(msg + " were read.")


def _bind_topic(
    binder: SourceBinder, view: str, job: BatchJob, table: CompactedTopic
) -> BoundJobTable | UnknownPosition:
    """Bind a view to the rows of a topic, all of which are those of its position.

    Raises:
        LakeError: Records were written while it was read: compaction may have removed the rows that they replace.
    """
    key = compacted_topic.KEY
    address = parse_topic_address(table)
    selection = Selection(excluded=frozenset() if key in job.columns.values() else frozenset([key]))
    bound, state = binder.bind_topic(view, address, selection)
    if binder.read_topic_ends(address) != state.ends:
        msg = f"Table `{address.shown}`: expected a topic that stays as it is, it was written while it was read."
        raise LakeError(msg)
    position = find_topic_position(state, address.shown).position
    if isinstance(position, UnknownPosition):
        return position
    return BoundJobTable(
        position=position,
        untyped=bound.untyped,
        shows_deletions=has_record_of_each_offset(state, position),
        time_format=table.time_format,
        nested=frozenset(bound.texts),
    )


def parse_topic_address(table: CompactedTopic) -> TableAddress:
    """Parse the address of a job's topic.

    Raises:
        DefinitionError: It is that of something else.
    """
    address = parse_table_address(table.address)
    if address is None or address.scheme != compacted_topic.KAFKA:
        msg = f"Table `{table.address[:80]}`: expected `kafka://broker:9092/topic`."
        raise DefinitionError(msg)
    return address


def _get_place(table: JobTableKind) -> str:
    if isinstance(table, CompactedTopic | Postgres):
        msg = f"Table `{describe_job_table(table)}`: expected a table in files."
        raise DefinitionError(msg)
    return table.table if isinstance(table, Iceberg) else table.path


def _locate(table: JobTableKind) -> str:
    """Return the folder of a table, or the metadata file that a catalog of Iceberg has for it."""
    place = _get_place(table)
    address = parse_table_address(place) if isinstance(table, Iceberg) else None
    if address is None:
        _reject_missing(table, place)
        return place
    return str(open_iceberg_address(address).table.metadata_location)


def _reject_missing(table: JobTableKind, place: str) -> None:
    if isinstance(table, Parquet) and not os.path.lexists(place):
        msg = f"Table `{place}`: expected a folder or a file, found none."
        raise DefinitionError(msg)


def _parse_server(table: Postgres) -> TableAddress:
    address = parse_table_address(f"env:{table.server}#{table.table}")
    if address is None or address.scheme not in addresses.POSTGRES:
        msg = f"Table `{describe_job_table(table)}`: expected the address of a PostgreSQL server in `{table.server}`."
        raise DefinitionError(msg + f"\nHint: `export {table.server}=postgresql://user:password@host/database`.")
    return address


def _make_row_table(address: TableAddress) -> PostgresTable:
    return PostgresTable(url=address.url, table=address.table, shown=address.shown, secrets=address.secrets)
