"""Command lines that make the comparison again and lead to the rows behind it; values are quoted for a shell."""

import shlex

from cutover.lake.control.versions import format_option
from cutover.reconcile.report import tree
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.result.report import Report

Command = tuple[str, str]
"""What it does, and the line."""

_LATE = "SELECT window_start, count(*) AS late FROM ledger WHERE _class = 'late' GROUP BY ALL ORDER BY 1"

_REPAIR = "what batch computes for these windows now; nothing changes without --publish"
_RECOMPUTE = "recompute the sessions that changed, then compare again"
_WINDOWS_NAMED = 3  # of a line that people copy


def commands(result: Report) -> list[Command]:
    """List (title, command line): the same comparison again, then what is behind it; none for two tables."""
    if result.finding.kind == "tables":
        return []
    name = shlex.quote(result.finding.pipeline)
    repeat_commands = [("the same comparison again, at this cut", _repeat(name, result))]
    repeat_commands += [_explain(result, cell) for cell in _pick_cells(result.finding.differences)[:2]]
    repaired = dict.fromkeys(cell.window_start for cell in result.finding.differences if cell.window_start)
    if repaired and result.finding.windows.merges:
        repeat_commands.append((_RECOMPUTE, f"cutover batch {name} && cutover reconcile {name}"))
    elif repaired:
        repeat_commands.append((_REPAIR, _repair(name, [*repaired][:_WINDOWS_NAMED])))
    if result.finding.events.late:
        repeat_commands.append(
            (
                "late records by window",
                f'cutover sql {name}{format_option(result.finding.seal.stream_version)} "{_LATE}"',
            )
        )
    return [
        *repeat_commands,
        ("when this verdict last was another, and what changed", f"cutover history {name}"),
        ("lag and watermark now", f"cutover watch {name} --once"),
        ("the evidence so far", f"cutover gate {name} show"),
    ]


def _repeat(name: str, result: Report) -> str:
    """Return the command that compares the same windows at the same cut."""
    version = result.finding.seal.stream_version or None
    options = (
        ("--cut", result.finding.seal.epoch),
        ("--version", version),
        ("--from", result.finding.from_),
        ("--to", result.finding.to),
    )
    option_text = "".join(f" {option} {shlex.quote(str(value))}" for option, value in options if value is not None)
    return f"cutover reconcile {name}{option_text} --json"


def _repair(name: str, starts: list[str]) -> str:
    """Return the command that recomputes windows without changing the tables."""
    return f"cutover repair {name} {' '.join(f'--window {shlex.quote(start)}' for start in starts)}"


def _pick_cells(differences: tuple[Difference, ...]) -> list[Difference]:
    """Return one cell for each cause, of those whose key can be typed."""
    cells_by_cause: dict[str, Difference] = {}
    for cell in differences:
        if tree.explain_command("p", cell, None) is not None:
            cells_by_cause.setdefault(cell.cause, cell)
    return list(cells_by_cause.values())


def _explain(result: Report, cell: Difference) -> Command:
    command = tree.explain_command(result.finding.pipeline, cell, result.finding.seal.stream_version)
    return f"the rows behind one cell ({cell.cause})", command or ""
