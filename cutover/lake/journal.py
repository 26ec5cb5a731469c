"""Journals: append-only control tables of the installation, one row type each.

A row type is a frozen dataclass that extends `JournalRow`; the Arrow schema of its table follows from its annotations.
Each package of `cutover` defines its row types in a module `journal_rows`, which is found by that name. `Journal`
appends and reads the rows of one pipeline. Each commit takes the pipeline's next sequence, so missing rows are
detected; the latest sequence is also marked outside the table (`sequence_marks`), so an older copy is detected.

All tables are created before the first row of any is written, and `versions` is created last: once any of them has
rows, a table that is missing was removed.
"""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from types import NoneType
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, stop_all, wait_random

import cutover
from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake import sequence_marks
from cutover.lake.tables import checksums, commits, delta
from cutover.lake.tables.schemas import TIMESTAMP, make_arrow_schema
from cutover.pipeline_lake import control_uri, sequence_marks_uri
from cutover.settings import Settings

NOT_APPENDED = -1
"""Sequence of a row that has not been appended yet."""

ROW_MODULE = "journal_rows"
"""Name of the module in which a package defines its row types."""

CREATED_LAST = "versions"
ATTEMPTS, RETRY_SECONDS, LONGEST_WAIT_SECONDS = 40, 30.0, 0.1
"""Least number of attempts and least time before a write gives up, and the longest wait between two attempts."""

_ARROW_TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    bool: pa.bool_(),
    float: pa.float64(),
    datetime: TIMESTAMP,
}


class SequenceConflictError(LakeError):
    """Another process appended the row with the expected sequence first; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRow:
    """Row of a control table, in the history of one pipeline."""

    TABLE: ClassVar[str]  # name of the control table
    REQUIRES_ALL_ROWS: ClassVar[bool] = False  # reading raises if any row is missing or the table is an older copy

    pipeline: str
    sequence: int = NOT_APPENDED  # of the commit, per pipeline; rows that are appended together share it


RowT = TypeVar("RowT", bound=JournalRow)
ResultT = TypeVar("ResultT")
KeyT = TypeVar("KeyT", bound=Hashable)


def latest_by(rows: Iterable[RowT], key: Callable[[RowT], KeyT]) -> dict[KeyT, RowT]:
    """Select the latest row of each key; `rows` are in the order in which they were appended."""
    return {key(row): row for row in rows}


@cache
def list_row_types() -> Mapping[str, type[JournalRow]]:
    """List the row types of all packages by table, in the order in which their tables are created."""
    packages = (
        f"{cutover.__name__}.{module.name}" for module in pkgutil.iter_modules(cutover.__path__) if module.ispkg
    )
    names = (f"{package}.{ROW_MODULE}" for package in packages)
    modules = [importlib.import_module(name) for name in names if find_spec(name) is not None]
    types = {value for module in modules for value in vars(module).values() if _is_row_type(value)}
    return {row.TABLE: row for row in sorted(types, key=lambda row: (row.TABLE == CREATED_LAST, row.TABLE))}


def _is_row_type(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, JournalRow) and hasattr(value, "TABLE")


def make_row_schema(row_type: type[JournalRow]) -> pa.Schema:
    """Derive the Arrow schema of a control table from the annotations of its row type; every column may be null."""
    return make_arrow_schema({column.name: _arrow_type(column.kind) for column in _list_columns(row_type)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """Column of a control table, as a row type annotates it."""

    name: str
    kind: Any  # annotation without `None`
    optional: bool

    def decode(self, value: Any) -> Any:
        """Convert a value of the table to one of the row type; raise `ValueError` if it cannot be one."""
        if value is None:
            if not self.optional:
                msg = "null"
                raise ValueError(msg)
            return None
        if isinstance(self.kind, type) and issubclass(self.kind, StrEnum):
            return self.kind(value)
        return tuple(value) if get_origin(self.kind) is tuple else value


def _list_columns(row_type: type[JournalRow]) -> list[_Column]:
    hints = get_type_hints(row_type)
    columns = []
    for field in fields(row_type):
        annotation = hints[field.name]
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        optional = NoneType in get_args(annotation)
        columns.append(_Column(name=field.name, kind=kinds[0] if optional else annotation, optional=optional))
    return columns


def _arrow_type(annotation: Any) -> pa.DataType:
    if annotation in _ARROW_TYPES:
        return _ARROW_TYPES[annotation]
    if get_origin(annotation) is Literal or (isinstance(annotation, type) and issubclass(annotation, StrEnum)):
        return pa.string()
    if get_origin(annotation) is tuple:
        return pa.list_(_arrow_type(get_args(annotation)[0]))
    msg = f"Type `{annotation}`: expected one that a column of a control table can have."
    raise TypeError(msg)


def table_exists(settings: Settings, table: str) -> bool:
    """Return whether a control table exists; none exists before the first row of any is written.

    Raises:
        LakeError: The table existed and was removed.
    """
    uri = control_uri(settings, table)
    if delta.exists(uri):
        return True
    if not _others_exist(settings, table) or delta.exists(uri):  # checked again: another process may have created it
        return delta.exists(uri)
    msg = f"Table `{uri}`: expected it next to the other control tables, its folder is missing."
    hint = "restore it from a copy; or the lake was created by another release, which has no such table"
    raise LakeError(msg + f"\nHint: no decision is made without it; {hint}.", runbook="ForeignWrite")


def _others_exist(settings: Settings, missing: str) -> bool:
    """Return whether another control table proves that all of them had been created."""
    if missing != CREATED_LAST:
        return delta.exists(control_uri(settings, CREATED_LAST))
    other_uris = (control_uri(settings, table) for table in list_row_types() if table != missing)
    return any(delta.exists(uri) and delta.open_table(uri).version() > 0 for uri in other_uris)


def create_control_tables(settings: Settings) -> None:
    """Create every control table that does not exist yet."""
    for table, row_type in list_row_types().items():
        delta.ensure(control_uri(settings, table), make_row_schema(row_type))


def retry_conflicts(write: Callable[[], ResultT]) -> ResultT:
    """Call `write` again while other processes append first; each call decides on the rows that exist then.

    Raises:
        SequenceConflictError: Other processes were faster in every attempt.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(SequenceConflictError),
        stop=stop_all(stop_after_attempt(ATTEMPTS), stop_after_delay(RETRY_SECONDS)),
        wait=wait_random(0, LONGEST_WAIT_SECONDS),
        reraise=True,
    )
    return retrying(write)


@dataclass(frozen=True, slots=True)
class Journal(Generic[RowT]):
    """History of one pipeline in one control table."""

    settings: Settings
    pipeline: str
    row_type: type[RowT]

    @property
    def table(self) -> str:
        """Return the folder of its Delta table under `_control`."""
        return self.row_type.TABLE

    def append(self, *rows: RowT, expected_sequence: int | None = None) -> int:
        """Append rows in one commit and return its sequence; several processes may append at the same time.

        Args:
            rows: One or more, of this pipeline.
            expected_sequence: Sequence for which the rows were decided; None: the next one.

        Raises:
            SequenceConflictError: Another row of the pipeline has that sequence; nothing was written.
            LakeError: The table is an older copy of itself, or cannot be written.
        """
        if expected_sequence is not None:
            return self._append_once(rows, expected_sequence)
        return retry_conflicts(lambda: self._append_once(rows, None))

    def _append_once(self, rows: Sequence[RowT], expected_sequence: int | None) -> int:
        marked = sequence_marks.read_latest(self.settings, self.table, self.pipeline)
        if marked > sequence_marks.NONE and not table_exists(self.settings, self.table):
            self._check_current(None, marked)
        handle = self._open_or_create()
        check_columns(handle, self.row_type)
        latest = delta.transaction(handle, self.pipeline)
        sequence = 0 if latest is None else latest + 1
        self._check_current(handle, marked)
        if expected_sequence not in {None, sequence}:
            raise self._make_conflict_error(expected_sequence)
        commit = CommitProperties(app_transactions=[Transaction(self.pipeline, sequence)])
        try:
            commits.append(handle, _encode_rows(rows, self.row_type, sequence), commit=commit)
        except CommitFailedError as error:
            raise self._make_conflict_error(sequence) from error
        sequence_marks.write_sequence_mark(self.settings, self.table, self.pipeline, sequence)
        return sequence

    def next_sequence(self) -> int:
        """Return the sequence of the next row; read it before the facts on which that row is decided."""
        if not table_exists(self.settings, self.table):
            return 0
        latest = delta.transaction(delta.open_table(control_uri(self.settings, self.table)), self.pipeline)
        return 0 if latest is None else latest + 1

    def read(self) -> list[RowT]:
        """Read all rows in the order in which they were appended.

        Raises:
            LakeError: The table cannot be read or was removed; if the row type requires all rows, also if any is
                missing or the table is an older copy of itself.
        """
        return self._read_once(complete=self.row_type.REQUIRES_ALL_ROWS)

    def read_available(self) -> list[RowT]:
        """Read the rows that exist, in order, even if others are missing: each is evidence by itself.

        Raises:
            LakeError: The table cannot be read or was removed.
        """
        return self._read_once(complete=False)

    def _read_once(self, *, complete: bool) -> list[RowT]:
        name = f"{self.pipeline}, {'all rows' if complete else 'available rows'}"
        uri = control_uri(self.settings, self.table)
        return list(checksums.remember(uri, name, lambda: self._read_rows(complete=complete)))

    def _read_rows(self, *, complete: bool) -> list[RowT]:
        # The mark is read first: a row that is appended after the table was opened must not look like a missing one.
        marked = (
            sequence_marks.read_latest(self.settings, self.table, self.pipeline) if complete else sequence_marks.NONE
        )
        handle = _open_with_rows(self.settings, self.row_type)
        self._check_current(handle, marked)
        if handle is None:
            return []
        rows = _select_rows(handle, self.row_type, "WHERE pipeline = ?", [self.pipeline])
        if complete:
            self._check_complete(handle, rows)
        return rows

    def _open_or_create(self) -> DeltaTable:
        if not table_exists(self.settings, self.table):
            create_control_tables(self.settings)
        return delta.open_table(control_uri(self.settings, self.table))

    def _check_current(self, handle: DeltaTable | None, marked: int) -> None:
        """Raise if the table is an older copy: a sequence was marked that it does not have."""
        missing = find_marked_sequences(handle, self.pipeline, marked)
        if not missing:
            return
        if handle is not None:
            delta.reject_damaged_log(handle.table_uri)
        place = sequence_marks_uri(self.settings, self.pipeline, self.table)
        msg = (
            f"Table `{self.table}` of `{self.pipeline}`: expected row {marked}, which is marked in `{place}`, "
            f"found none from {missing[0]} on."
        )
        hint = "\nHint: the table was removed, or is an older copy; restore the latest one. The page says what to do "
        raise LakeError(msg + hint + "if there is none.", runbook="ForeignWrite")

    def _check_complete(self, handle: DeltaTable, rows: Sequence[RowT]) -> None:
        latest = delta.transaction(handle, self.pipeline)
        missing = find_gaps(latest, {row.sequence for row in rows})
        if missing:
            delta.reject_damaged_log(handle.table_uri)
            msg = f"Table `{self.table}` of `{self.pipeline}`: expected every committed row, {len(missing):,} missing."
            hint = "\nHint: no decision is made on the others; `cutover restore-control` restores the missing ones."
            raise LakeError(msg + hint, runbook="ForeignWrite")

    def _make_conflict_error(self, sequence: int | None) -> SequenceConflictError:
        msg = f"`{self.table}` of `{self.pipeline}`: another process appended row {sequence} first."
        return SequenceConflictError(msg + "\nHint: check it and try again.")


def read_all(settings: Settings, row_type: type[RowT]) -> list[RowT]:
    """Read the available rows of all pipelines, in the order of each; missing rows are not detected.

    Raises:
        LakeError: The table cannot be read or was removed.
    """
    handle = _open_with_rows(settings, row_type)
    return [] if handle is None else _select_rows(handle, row_type, "", [])


def list_missing_sequences(handle: DeltaTable, row_type: type[JournalRow], pipeline: str) -> list[int]:
    """List the sequences of a pipeline whose rows are missing: the table's log has the latest one that was committed.

    Raises:
        LakeError: The table cannot be read, or was created by another release.
    """
    latest = delta.transaction(handle, pipeline)
    check_columns(handle, row_type)
    with queries.open_duckdb() as connection:
        delta.bind(connection, "control", handle)
        query = "SELECT DISTINCT sequence FROM control WHERE pipeline = ?"
        with delta.naming(handle):
            present = {int(row[0]) for row in connection.execute(query, [pipeline]).fetchall() if row[0] is not None}
    committed = -1 if latest is None else latest
    if max(present, default=-1) > committed:
        msg = f"Table `{row_type.TABLE}` of `{pipeline}`: expected {max(present)} as its latest sequence, its log has "
        raise LakeError(
            msg + f"{committed}.\nHint: the table's log was changed; restore it from a copy.", runbook="TableUnreadable"
        )
    return find_gaps(committed, present)


def find_gaps(latest: int | None, present: Collection[int]) -> list[int]:
    """Return the sequences up to the latest committed one that have no row; None: nothing was committed."""
    return sorted(set(range(0 if latest is None else latest + 1)) - set(present))


def find_marked_sequences(handle: DeltaTable | None, pipeline: str, marked: int) -> range:
    """Return the sequences of a pipeline that were marked before the table was opened and that it does not have."""
    latest = None if handle is None else delta.transaction(handle, pipeline)
    return range(sequence_marks.NONE + 1 if latest is None else latest + 1, marked + 1)


def check_columns(handle: DeltaTable, row_type: type[JournalRow]) -> None:
    """Raise if the table was created by another release of Cutover, with other columns."""
    present = {field.name for field in handle.schema().fields}
    missing = [name for name in make_row_schema(row_type).names if name not in present]
    if missing:
        msg = f"Table `{row_type.TABLE}` of this lake: expected the columns of this release, `{missing[0]}` is missing."
        raise LakeError(msg + "\nHint: another release created this lake; start a new one (`lake` in the settings).")


def _open_with_rows(settings: Settings, row_type: type[JournalRow]) -> DeltaTable | None:
    """Open a table of this release; None if no row was ever written to it."""
    if not table_exists(settings, row_type.TABLE):
        return None
    handle = delta.open_table(control_uri(settings, row_type.TABLE))
    check_columns(handle, row_type)
    return None if handle.version() == 0 else handle


def _encode_rows(rows: Sequence[JournalRow], row_type: type[JournalRow], sequence: int) -> pa.Table:
    schema = make_row_schema(row_type)
    numbered = (replace(row, sequence=sequence) for row in rows)
    return pa.Table.from_pylist(
        [{name: getattr(row, name) for name in schema.names} for row in numbered], schema=schema
    )


def _select_rows(handle: DeltaTable, row_type: type[RowT], condition: str, values: Sequence[str]) -> list[RowT]:
    columns = _list_columns(row_type)
    names = ", ".join(f'"{column.name}"' for column in columns)
    query = f"SELECT {names} FROM control {condition} ORDER BY pipeline, sequence"  # noqa: S608 -- ours
    with queries.open_duckdb() as connection, delta.naming(handle):
        delta.bind(connection, "control", handle)
        rows = connection.execute(query, list(values)).fetchall()
    return [_decode_row(row, row_type, columns) for row in rows]


def _decode_row(values: Sequence[Any], row_type: type[RowT], columns: Sequence[_Column]) -> RowT:
    decoded = {}
    for column, value in zip(columns, values, strict=True):
        try:
            decoded[column.name] = column.decode(value)
        except ValueError as error:
            msg = f"Table `{row_type.TABLE}`: expected rows that Cutover wrote, found `{column.name}`: {error}."
            hint = "\nHint: another writer changed it; `cutover restore-control` restores the rows."
            raise LakeError(msg + hint, runbook="ForeignWrite") from error
    return row_type(**decoded)
