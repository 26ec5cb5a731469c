"""Position of a table by what its job has recorded: in the commit of the data, else in a file next to the table."""

from dataclasses import replace

from cutover.lake.tables import delta
from cutover.positions.delta_metadata import find_commit_position, is_delta_table
from cutover.positions.iceberg_metadata import find_newest_snapshot, find_snapshot_position, is_iceberg_table
from cutover.positions.position import Position, PositionReport, UnknownPosition
from cutover.positions.position_file import FILE_NAME, find_file_position
from cutover.positions.stored_files import find_stored_file


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
