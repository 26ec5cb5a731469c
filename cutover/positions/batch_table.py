"""Table of a team's batch job, at the state to which the position belongs that the job has recorded.

A table with versions is read at the version of its position, and one in PostgreSQL in the transaction that reads the
position. Files have no versions: their position is read again after their rows.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cutover.definition.model.batch_job import (
    BatchJob,
    Iceberg,
    JobTableKind,
    Parquet,
    Postgres,
    describe_job_table,
)
from cutover.errors import DefinitionError, LakeError
from cutover.positions.position import Position, PositionReport, UnknownPosition
from cutover.positions.table_position import (
    PostgresTable,
    find_row_position,
    find_table_position,
    read_row_position,
)
from cutover.sources import addresses
from cutover.sources.addresses import TableAddress, parse_table_address
from cutover.sources.binding import SourceBinder
from cutover.sources.iceberg import open_iceberg_address
from cutover.sources.postgres import open_postgres_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundJobTable:
    """View of a job's table with its position."""

    position: Position
    untyped: frozenset[str]  # columns whose numbers are texts, since their type has no limit
    version: int | None  # None: a table without versions


def find_job_position(job: BatchJob) -> PositionReport:
    """Find the position that a batch job has recorded with the newest rows of its table.

    Raises:
        DefinitionError: The address of a server is not set, or there is no such table.
        LakeError: The table or its server cannot be read, or the position is malformed.
    """
    if isinstance(job.table, Postgres):
        return find_row_position(_make_row_table(_parse_server(job.table)))
    return find_table_position(_locate(job.table))


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
            report = read_row_position(snapshot.fetch_rows, _make_row_table(address))
            if isinstance(report.position, UnknownPosition):
                yield report.position
                return
            bound = binder.bind_postgres(view, snapshot, address)
        yield BoundJobTable(position=report.position, untyped=bound.untyped, version=None)
        return
    position = find_job_position(job).position
    if isinstance(position, UnknownPosition):
        yield position
        return
    place, version = _get_place(job.table), position.table_version
    state = "" if version is None else f"@snapshot={version}" if isinstance(job.table, Iceberg) else f"@v{version}"
    bound = binder.bind(view, f"{place}{state}")
    yield BoundJobTable(position=position, untyped=bound.untyped, version=version)
    if version is None and find_job_position(job).position != position:
        msg = f"Table `{describe_job_table(job.table)}`: expected files that stay as they are, they changed while they"
        raise LakeError(msg + " were read.")


def _get_place(table: JobTableKind) -> str:
    if isinstance(table, Postgres):
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
