"""Alerts on tables: rows changed by somebody else."""

from deltalake import DeltaTable

from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import Stack
from cutover.lake.paths import batch_uri


def open_batch(stack: Stack) -> DeltaTable:
    """Return a handle of `batch` as it is listed now."""
    return DeltaTable(batch_uri(stack.settings, stack.pipeline))


def delete_rows(stack: Stack) -> None:
    """Delete rows of the batch table, as a notebook would."""
    open_batch(stack).delete("carrier = 'AA'")


DRILLS = (
    Drill(
        name="ForeignWrite",
        title="somebody deletes rows of the batch table",
        inject=delete_rows,
        case="batch",
    ),
)
