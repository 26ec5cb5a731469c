"""Alerts on tables: a foreign write, a missing file, a restored version, a violated check."""

from pathlib import Path

from deltalake import DeltaTable

from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import PIPELINE, Stack


def open_batch_table(stack: Stack) -> DeltaTable:
    """Open the batch table at its latest version."""
    return DeltaTable(stack.lake.batch_uri())


def delete_rows(stack: Stack) -> None:
    """Delete rows of the batch table, as a notebook could."""
    open_batch_table(stack).delete("carrier = 'AA'")


def delete_rows_and_verify(stack: Stack) -> None:
    """Delete rows of the batch table, and run the checks."""
    delete_rows(stack)
    stack.require(f"cutover verify {PIPELINE}", 1)


def restore_table(stack: Stack) -> None:
    """Restore an earlier version of the stream's table, as a user could to get yesterday's rows."""
    stack.stop_driver()
    table = DeltaTable(stack.version.uri)
    table.restore(table.version() - 2)


def remove_file(stack: Stack) -> None:
    """Remove a file of the batch table, as a cleanup job could, and compare both paths."""
    Path(min(open_batch_table(stack).file_uris()).removeprefix("file://")).unlink()
    stack.require(f"cutover reconcile {PIPELINE}", 2)


DRILLS = (
    Drill(
        name="ForeignWrite",
        title="a foreign job deletes rows of the batch table",
        inject=delete_rows,
        case="batch",
    ),
    Drill(
        name="TableUnreadable",
        title="a file of the batch table is removed",
        inject=remove_file,
        case="batch",
    ),
    Drill(
        name="EpochHistoryBroken",
        title="an earlier version of the stream's table is restored",
        inject=restore_table,
        is_isolated=True,
    ),
    Drill(
        name="InvariantBroken",
        title="rows of the batch table are deleted, and the checks run",
        inject=delete_rows_and_verify,
        case="batch",
    ),
)
