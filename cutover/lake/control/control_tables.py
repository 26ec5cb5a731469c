"""The installation's own history: versions, gate, losses, what was compared, proven and checked. Appended only.

All tables are made before the first row of any, and `versions` is the last to be made: whatever is missing while there
are rows was taken away. Each commit has a number of its pipeline's own, so rows that are gone are known, too.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, stop_all, wait_random

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake import turns
from cutover.lake.control.control_schemas import SCHEMAS
from cutover.lake.paths import ControlTable, control_uri, turns_uri
from cutover.lake.tables import commits, delta, run_memory
from cutover.settings import Settings

Done = TypeVar("Done")
DECIDING = frozenset({"versions", "gate", "losses", "swaps", "pins"})
"""Tables by which is told what is served, incomplete or still read: nothing is decided by a part of their rows."""

_LAST: ControlTable = "versions"
_ATTEMPTS, _TRIED_SECONDS, _WAIT_SECONDS = 40, 30.0, 0.1
"""How often and how long a write without a turn of its own is tried at least, and the longest wait between two."""


class OvertakenError(LakeError):
    """Another process appended its row first; nothing was written."""


def exists(settings: Settings, table: ControlTable) -> bool:
    """Return whether a table is there; there is none before the first row of any.

    Raises:
        LakeError: It was there, and is no more.
    """
    uri = control_uri(settings, table)
    if delta.exists(uri):
        return True
    if not _has_begun(settings, table) or delta.exists(uri):  # looked at again: others may have made it meanwhile
        return delta.exists(uri)
    msg = f"Table `{uri}`: expected it beside the other control tables, its folder is gone."
    hint = "put it back from a copy; or another release, which had no such table, made this lake"
    raise LakeError(msg + f"\nHint: nothing is decided without it; {hint}.", runbook="ForeignWrite")


def _has_begun(settings: Settings, missing: ControlTable) -> bool:
    """Return whether another table shows that all had been made."""
    if missing != _LAST:
        return delta.exists(control_uri(settings, _LAST))
    others = (control_uri(settings, name) for name in SCHEMAS if name != missing)
    return any(delta.exists(uri) and delta.open_table(uri).version() > 0 for uri in others)


def _open_or_create(settings: Settings, table: ControlTable) -> DeltaTable:
    if not exists(settings, table):
        for name in sorted(SCHEMAS, key=_LAST.__eq__):
            delta.ensure(control_uri(settings, name), SCHEMAS[name])
    return delta.open_table(control_uri(settings, table))


def append(
    settings: Settings, table: ControlTable, rows: Sequence[Mapping[str, Any]], *, turn: int | None = None
) -> int:
    """Append rows of one pipeline in one commit, with its next `sequence`; several processes may do so at once.

    Args:
        settings: Where the lake lies.
        table: Which one.
        rows: One or more, without their sequence.
        turn: The sequence that the rows were decided for; None: whichever is next.

    Returns:
        The sequence.

    Raises:
        OvertakenError: Another row of the pipeline was appended in that turn; nothing was written.
        LakeError: The table is an older copy of itself, or cannot be written.
    """
    if turn is not None:
        return _append_once(settings, table, rows, turn)
    return unless_overtaken(lambda: _append_once(settings, table, rows, None))


def unless_overtaken(write: Callable[[], Done]) -> Done:
    """Write, again and again while other processes are faster; each time on what is there then.

    Raises:
        OvertakenError: They always were.
    """
    again = Retrying(
        retry=retry_if_exception_type(OvertakenError),
        stop=stop_all(stop_after_attempt(_ATTEMPTS), stop_after_delay(_TRIED_SECONDS)),
        wait=wait_random(0, _WAIT_SECONDS),
        reraise=True,
    )
    return again(write)


def _append_once(settings: Settings, table: ControlTable, rows: Sequence[Mapping[str, Any]], turn: int | None) -> int:
    name = str(rows[0]["pipeline"])
    noted = turns.read_newest(settings, table, name)
    if noted > turns.NONE and not exists(settings, table):
        _refuse_older_copy(settings, table, None, name, noted)
    handle = _open_or_create(settings, table)
    _check_columns(table, handle)
    newest = delta.transaction(handle, name)
    sequence = 0 if newest is None else newest + 1
    _refuse_older_copy(settings, table, handle, name, noted)
    if turn not in {None, sequence}:
        raise _make_overtaken_error(table, name, turn)
    numbered = pa.Table.from_pylist([{**row, "sequence": sequence} for row in rows], schema=SCHEMAS[table])
    commit = CommitProperties(app_transactions=[Transaction(name, sequence)])
    try:
        commits.append(handle, numbered, commit=commit)
    except CommitFailedError as error:
        raise _make_overtaken_error(table, name, sequence) from error
    turns.note(settings, table, name, sequence)
    return sequence


def next_turn(settings: Settings, table: ControlTable, pipeline: str) -> int:
    """Return the sequence that a pipeline's next row gets; read it before what the row is decided by."""
    if not exists(settings, table):
        return 0
    newest = delta.transaction(delta.open_table(control_uri(settings, table)), pipeline)
    return 0 if newest is None else newest + 1


def _make_overtaken_error(table: ControlTable, name: str, sequence: int | None) -> OvertakenError:
    msg = f"`{table}` of `{name}`: another process appended row {sequence} first.\nHint: look at it and try again."
    return OvertakenError(msg)


def noted_behind(handle: DeltaTable | None, pipeline: str, noted: int) -> range:
    """Return the numbers of a pipeline's rows that were noted before a table was opened, and that it does not know."""
    newest = None if handle is None else delta.transaction(handle, pipeline)
    return range(turns.NONE + 1 if newest is None else newest + 1, noted + 1)


def _refuse_older_copy(
    settings: Settings, table: ControlTable, handle: DeltaTable | None, name: str, noted: int
) -> None:
    behind = noted_behind(handle, name, noted)
    if behind:
        if handle is not None:
            delta.refuse_damaged_log(handle.table_uri)
        place = turns_uri(settings, name, table)
        msg = f"Table `{table}` of `{name}`: expected row {noted}, which `{place}` notes, got none from {behind[0]} on."
        hint = "\nHint: it is gone, or an older copy; put the newest one back. The page says what to do without one."
        raise LakeError(msg + hint, runbook="ForeignWrite")


def _check_columns(table: ControlTable, handle: DeltaTable) -> None:
    """Refuse a table that another release of Cutover has made."""
    there = {field.name for field in handle.schema().fields}
    missing = [name for name in SCHEMAS[table].names if name not in there]
    if missing:
        msg = f"Table `{table}` of this lake: expected the columns of this release, `{missing[0]}` is not among them."
        raise LakeError(msg + "\nHint: another release made this lake; begin with a new one (`lake` in the settings).")


def missing_sequences(handle: DeltaTable, table: ControlTable, pipeline: str) -> list[int]:
    """Return the sequences of a pipeline whose rows are gone: each commit in turn has left its number in the table.

    Raises:
        LakeError: The table cannot be read, or another release made it.
    """
    newest = delta.transaction(handle, pipeline)
    _check_columns(table, handle)
    with queries.connect() as connection:
        delta.bind(connection, "control", handle)
        query = "SELECT DISTINCT sequence FROM control WHERE pipeline = ?"
        with delta.naming(handle):
            held = {int(row[0]) for row in connection.execute(query, [pipeline]).fetchall() if row[0] is not None}
    last = -1 if newest is None else newest
    if max(held, default=-1) > last:
        msg = f"Table `{table}` of `{pipeline}`: expected {max(held)} as its newest number, its log says {last}."
        raise LakeError(
            msg + "\nHint: the table's log was changed; put it back from a copy.", runbook="TableUnreadable"
        )
    return sorted(set(range(last + 1)) - held)


def read(settings: Settings, table: ControlTable, pipeline: str) -> list[dict[str, Any]]:
    """Return all rows of a pipeline, in the order in which they were appended.

    Raises:
        LakeError: The table cannot be read, or is gone; of a table in `DECIDING`, rows of the pipeline are gone, or
            it is an older copy of itself.
    """
    return _remember(settings, table, pipeline, whole=table in DECIDING)


def read_witnesses(settings: Settings, table: ControlTable, pipeline: str) -> list[dict[str, Any]]:
    """Return the rows of a pipeline that are there, in their order: each is a witness by itself.

    Raises:
        LakeError: The table cannot be read, or is gone.
    """
    return _remember(settings, table, pipeline, whole=False)


def _remember(settings: Settings, table: ControlTable, pipeline: str, *, whole: bool) -> list[dict[str, Any]]:
    name = f"{pipeline}, {'whole' if whole else 'what is there'}"
    held = run_memory.remember(
        control_uri(settings, table), name, lambda: _read(settings, table, pipeline, whole=whole)
    )
    return [{name: copy(value) for name, value in row.items()} for row in held]  # some values are lists


def _read(settings: Settings, table: ControlTable, pipeline: str, *, whole: bool) -> list[dict[str, Any]]:
    noted = turns.read_newest(settings, table, pipeline) if whole else turns.NONE
    handle = _open_written(settings, table)
    _refuse_older_copy(settings, table, handle, pipeline, noted)
    if handle is None:
        return []
    rows = _select(handle, "WHERE pipeline = ?", [pipeline])
    if whole:
        _refuse_lost(handle, table, pipeline, rows)
    return rows


def read_all(settings: Settings, table: ControlTable) -> list[dict[str, Any]]:
    """Return the rows of all pipelines, those of each in their order; whether all are there is not asked.

    Raises:
        LakeError: The table cannot be read, or is gone.
    """
    handle = _open_written(settings, table)
    return [] if handle is None else _select(handle, "", [])


def _open_written(settings: Settings, table: ControlTable) -> DeltaTable | None:
    """Open a table of this release; None where nobody has written to it yet."""
    if not exists(settings, table):
        return None
    handle = delta.open_table(control_uri(settings, table))
    _check_columns(table, handle)
    return None if handle.version() == 0 else handle


def _select(handle: DeltaTable, where: str, values: list[str]) -> list[dict[str, Any]]:
    with queries.connect() as connection, delta.naming(handle):
        delta.bind(connection, "control", handle)
        cursor = connection.execute(f"SELECT * FROM control {where} ORDER BY pipeline, sequence", values)  # noqa: S608 -- ours
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _refuse_lost(handle: DeltaTable, table: ControlTable, pipeline: str, rows: Sequence[Mapping[str, Any]]) -> None:
    newest = delta.transaction(handle, pipeline)
    gone = set(range(0 if newest is None else newest + 1)) - {row["sequence"] for row in rows}
    if gone:
        delta.refuse_damaged_log(handle.table_uri)
        msg = f"Table `{table}` of `{pipeline}`: expected every row that was written, got all but {len(gone):,}."
        hint = "\nHint: nothing is decided by the rest; `cutover restore-control` writes them again."
        raise LakeError(msg + hint, runbook="ForeignWrite")
