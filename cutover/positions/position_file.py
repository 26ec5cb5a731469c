"""Position in a file next to a table, which is bound to the table's version, or else to the times of its files.

A file cannot be written in the commit of the data. So it is the position of a table with versions only if it names the
newest version that changed rows, and that of a folder of files only if no file was written after it.
"""

from cutover.counts import count_clause
from cutover.errors import LakeError
from cutover.positions.contract import parse_position
from cutover.positions.delta_metadata import find_newest_change, is_delta_table
from cutover.positions.iceberg_metadata import find_newest_snapshot, is_iceberg_table
from cutover.positions.position import Position, PositionReport, UnknownPosition
from cutover.positions.stored_files import StoredFile, find_stored_file, list_stored_files, read_stored_text

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
