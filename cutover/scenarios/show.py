"""An outcome for scripts and for people."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

from cutover.definition.measures.kinds import Count, Sum
from cutover.output.markup import literal_text
from cutover.panes.model import Dropped, Outcome, Pane, Waiting
from cutover.scenarios.compare import PaneDifference
from cutover.scenarios.reading.scenario import Scenario
from cutover.scenarios.reading.times import write

SCHEMA = 2
"""Of the object that `--json` prints."""

MOST_LINES = 500
"""Lines of a table; `--json` has everything."""


def to_json(
    scenario: Scenario, runner: str, outcome: Outcome, differences: Sequence[PaneDifference] | None = None
) -> dict[str, Any]:
    """Return one object that scripts can rely on (docs/scenarios.md): more fields may follow, these stay.

    Args:
        scenario: What ran.
        runner: Who ran it.
        outcome: What came out.
        differences: From what the file says should come out; None: nobody asked.
    """
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "scenario": scenario.title,
        "case": scenario.case,
        "runner": runner,
        "panes": [_pane(scenario, pane) for pane in outcome.panes],
        "dropped": [_dump_dropped(scenario, one) for one in outcome.dropped],
        "waiting": [_dump_waiting(scenario, one) for one in outcome.waiting],
    }
    if differences is not None:
        found["check"] = {
            "is_equal": not differences,
            "differences": [
                {
                    "of": difference.of,
                    "position": difference.position,
                    "expected": difference.expected,
                    "got": difference.got,
                }
                for difference in differences
            ],
        }
    return found


def table(console: Console, scenario: Scenario, runner: str, outcome: Outcome) -> None:
    """Print the panes in order, then what is in none."""
    console.print(f"[bold]{literal_text(scenario.title)}[/], {runner}: {len(outcome.panes)} panes", highlight=False)
    shown = Table("at", "window", "key", box=None, pad_edge=False)
    shown.add_column("value", justify="right")
    shown.add_column("kind")
    for one in outcome.panes[:MOST_LINES]:
        pane = _pane(scenario, one)
        window = f"[{pane['window_start']}, {pane['window_end']})"
        cells = (pane["processing_time"], window, pane["key"], pane.get("retracts", pane["value"]), pane["kind"])
        shown.add_row(*(literal_text("" if cell is None else str(cell)) for cell in cells))
    console.print(shown)
    _rest(console, len(outcome.panes), "panes")
    if outcome.dropped:
        console.print(f"{len(outcome.dropped)} rows dropped")
    if outcome.waiting:
        console.print(f"{sum(one.rows for one in outcome.waiting)} rows that no pane shows")


def check(console: Console, scenario: Scenario, runner: str, differences: Sequence[PaneDifference]) -> None:
    """Print what differs from what the file says should come out."""
    title, count = literal_text(scenario.title), len(differences)
    title = title if scenario.case is None else f"case {scenario.case}: {title}"
    said = "as the file says" if not count else f"{count} {'difference' if count == 1 else 'differences'} from the file"
    console.print(f"[bold]{title}[/], {runner}: {said}", highlight=False)
    if not differences:
        return
    table = Table("of", "place", "expected", "got", box=None, pad_edge=False)
    for difference in differences[:MOST_LINES]:
        cells = (difference.of, str(difference.position), difference.expected or "nothing", difference.got or "nothing")
        table.add_row(*(literal_text(cell) for cell in cells))
    console.print(table)
    _rest(console, count, "differences")


def _rest(console: Console, count: int, of: str) -> None:
    if count > MOST_LINES:
        console.print(f"and {count - MOST_LINES} {of} more; --json has all of them")


def _pane(scenario: Scenario, pane: Pane) -> dict[str, Any]:
    value = _number(pane.value)
    found = {
        **_window(scenario, pane),
        "value": value,
        "kind": pane.kind,
        "timing": pane.timing.value,
        "index": pane.index,
        "processing_time": write(pane.processing_time, scenario.style),
    }
    if pane.is_retraction:
        can_add = isinstance(scenario.setting.measure, (Sum, Count)) and value is not None
        found |= {"value": -value if can_add else None, "retracts": value, "with_pane": pane.timing.value}
    return found


def _dump_dropped(scenario: Scenario, dropped: Dropped) -> dict[str, Any]:
    return {
        "event_time": write(dropped.row.event_time, scenario.style),
        "processing_time": write(dropped.row.processing_time, scenario.style),
        "key": dropped.row.key,
        "window_start": write(dropped.window.start, scenario.style),
        "window_end": write(dropped.window.end, scenario.style),
        "reason": dropped.reason.value,
    }


def _dump_waiting(scenario: Scenario, waiting: Waiting) -> dict[str, Any]:
    return {**_window(scenario, waiting), "rows": waiting.rows}


def _window(scenario: Scenario, of: Pane | Waiting) -> dict[str, Any]:
    return {
        "window_start": write(of.window.start, scenario.style),
        "window_end": write(of.window.end, scenario.style),
        "key": of.key,
    }


def _number(value: Any) -> Any:
    """Return a number as JSON has it: whole ones exactly, others as the nearest double."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
