"""An outcome for scripts and for people."""

from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cutover.definition.measures import Count, Sum
from cutover.panes.model import Dropped, Outcome, Pane, Waiting
from cutover.scenarios.model import Engine, Scenario
from cutover.scenarios.times import write


def to_json(scenario: Scenario, runner: str, outcome: Outcome) -> dict[str, Any]:
    """Return one object that scripts can rely on (docs/scenarios.md): more fields may follow, these stay."""
    return {
        "schema": 1,
        "scenario": scenario.title,
        "figure": scenario.figure,
        "runner": runner,
        "kind_is_meaningful": scenario.engine is not Engine.MICRO_BATCH,
        "panes": [_pane(scenario, pane) for pane in outcome.panes],
        "dropped": [_dropped(scenario, one) for one in outcome.dropped],
        "waiting": [_waiting(scenario, one) for one in outcome.waiting],
    }


def table(console: Console, scenario: Scenario, runner: str, outcome: Outcome) -> None:
    """Print the panes in order, then what is in none."""
    console.print(f"[bold]{_safe(scenario.title)}[/], {runner}: {len(outcome.panes)} panes", highlight=False)
    shown = Table("at", "window", "key", box=None, pad_edge=False)
    shown.add_column("value", justify="right")
    shown.add_column("kind")
    for pane in to_json(scenario, runner, outcome)["panes"]:
        window = f"[{pane['window_start']}, {pane['window_end']})"
        cells = (pane["processing_time"], window, pane["key"], pane.get("retracts", pane["value"]), pane["kind"])
        shown.add_row(*(_safe("" if cell is None else str(cell)) for cell in cells))
    console.print(shown)
    if outcome.dropped:
        console.print(f"{len(outcome.dropped)} rows dropped")
    if outcome.waiting:
        console.print(f"{sum(one.rows for one in outcome.waiting)} rows that no pane shows")


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


def _dropped(scenario: Scenario, dropped: Dropped) -> dict[str, Any]:
    return {
        "event_time": write(dropped.row.event_time, scenario.style),
        "processing_time": write(dropped.row.processing_time, scenario.style),
        "key": dropped.row.key,
        "window_start": write(dropped.window.start, scenario.style),
        "window_end": write(dropped.window.end, scenario.style),
        "reason": dropped.reason.value,
    }


def _waiting(scenario: Scenario, waiting: Waiting) -> dict[str, Any]:
    return {**_window(scenario, waiting), "rows": waiting.rows}


def _window(scenario: Scenario, of: Pane | Waiting) -> dict[str, Any]:
    return {
        "window_start": write(of.window.start, scenario.style),
        "window_end": write(of.window.end, scenario.style),
        "key": of.key,
    }


def _safe(text: str) -> str:
    """Return text from a file as a terminal may show it: no markup, no control characters."""
    return escape("".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in text))


def _number(value: Any) -> Any:
    """Return a number as JSON has it: whole ones exactly, others as the nearest double."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
