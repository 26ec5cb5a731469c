"""Command lines that lead from the report to the rows behind it. Values of data are quoted for a shell."""

import shlex

from cutover.output.cells import visible
from cutover.reconcile.result import text
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.outcome import Difference, Reconciliation

Command = tuple[str, str]
"""What it shows, and the line."""

_LATE = "SELECT window_start, count(*) AS late FROM ledger WHERE _class = 'late' GROUP BY ALL ORDER BY 1"


def commands(result: Reconciliation) -> list[Command]:
    """List (title, command line), those of cells that differ first; none for two tables."""
    if result.kind == "tables":
        return []
    name = shlex.quote(result.pipeline)
    found = [_make_explain_command(name, cell) for cell in _pick_cells(result.differences)[:2]]
    if result.events.late:
        found.append(("late records by window", f'cutover sql {name} "{_LATE}"'))
    return [
        *found,
        ("lag and watermark now", f"cutover watch {name} --once"),
        ("the evidence so far", f"cutover gate {name} show"),
        ("compare again, for a script", f"cutover reconcile {name} --json"),
    ]


def _pick_cells(differences: tuple[Difference, ...]) -> list[Difference]:
    """Return one cell for each cause, of those whose key can be typed."""
    found: dict[str, Difference] = {}
    for cell in differences:
        if cell.window_start is not None and all(_can_type(value) for value in cell.key.values()):
            found.setdefault(cell.cause, cell)
    return list(found.values())


def _can_type(value: Scalar) -> bool:
    return not isinstance(value, str) or (visible(value) == value and value.isascii())


def _make_explain_command(name: str, cell: Difference) -> Command:
    key = text.key(cell.key.values())
    line = f"cutover explain {name} {shlex.quote(str(cell.window_start))} {shlex.quote(key)}"
    return (f"the rows behind one cell ({cell.cause})", line)
