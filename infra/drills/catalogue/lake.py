"""Alerts on tables: rows changed by somebody else, a file that is gone, a check that is violated."""

from pathlib import Path

from deltalake import DeltaTable

from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.lake.paths import batch_uri


def open_batch(stack: Stack) -> DeltaTable:
    """Return a handle of `batch` as it is listed now."""
    return DeltaTable(batch_uri(stack.settings, stack.pipeline))


def delete_rows(stack: Stack) -> None:
    """Delete rows of the batch table, as a notebook would."""
    open_batch(stack).delete("carrier = 'AA'")


def delete_rows_and_verify(stack: Stack) -> None:
    """Delete rows of the batch table, and let the checks look."""
    delete_rows(stack)
    stack.require(f"cutover verify {PIPELINE}", 1)


def restore_table(stack: Stack) -> None:
    """Put the stream's table back to an earlier version, as somebody does who wants yesterday's rows."""
    stack.stop_driver()
    table = DeltaTable(stack.version.uri)
    table.restore(table.version() - 2)


def remove_file(stack: Stack) -> None:
    """Remove a file of the batch table, as a cleaning job would, and compare."""
    Path(min(open_batch(stack).file_uris()).removeprefix("file://")).unlink()
    stack.require(f"cutover reconcile {PIPELINE}", 2)


DRILLS = (
    Drill(
        name="ForeignWrite",
        title="another writer deletes rows of the batch table",
        inject=delete_rows,
        case="batch",
    ),
    Drill(
        name="TableUnreadable",
        title="a file of the batch table is deleted by hand",
        inject=remove_file,
        case="batch",
    ),
    Drill(
        name="EpochHistoryBroken",
        title="another writer restores an earlier version of the stream's table",
        inject=restore_table,
        fresh=True,
    ),
    Drill(
        name="InvariantBroken",
        title="rows of the batch table are deleted, and the checks run",
        inject=delete_rows_and_verify,
        case="batch",
    ),
)
