"""Output of an outcome: JSON for scripts, tables for people."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from cutover.counts import count_noun
from cutover.definition.measures.kinds import Count, Sum
from cutover.output.console import Line, make_table, styled
from cutover.panes.model import Dropped, Outcome, Pane, Waiting
from cutover.scenarios.compare import PaneDifference
from cutover.scenarios.reading.setting import Scenario
from cutover.scenarios.reading.texts import format_scenario_time

SCHEMA = 2
"""Schema version of the object that `--json` prints."""

MOST_LINES = 500
"""Maximum number of lines of a table; `--json` prints all of them."""


def to_json(
    scenario: Scenario, runner: str, outcome: Outcome, differences: Sequence[PaneDifference] | None = None
) -> dict[str, Any]:
    """Return the object that `--json` prints (docs/scenarios.md). Fields may be added; existing ones stay.

    Args:
        scenario: Simulated scenario.
        runner: Name of the runner.
        outcome: Panes, dropped rows and waiting rows.
        differences: Differences from the expected outcome; None without `--check`.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "scenario": scenario.title,
        "case": scenario.case,
        "runner": runner,
        "panes": [_dump_pane(scenario, pane) for pane in outcome.panes],
        "dropped": [_dump_dropped(scenario, dropped) for dropped in outcome.dropped],
        "waiting": [_dump_waiting(scenario, waiting) for waiting in outcome.waiting],
    }
    if differences is not None:
        document["check"] = {
            "is_equal": not differences,
            "differences": [
                {
                    "of": difference.of,
                    "position": difference.position,
                    "expected": difference.expected,
                    "got": difference.actual,
                }
                for difference in differences
            ],
        }
    return document


def list_outcome_lines(scenario: Scenario, runner: str, outcome: Outcome) -> Iterator[Line]:
    """Yield the panes in order, then the number of rows that no pane shows."""
    yield styled((scenario.title, "bold"), f", {runner}: {count_noun(len(outcome.panes), 'pane')}")
    yield make_table(
        ("at", "window", "key", "value", "kind"),
        (_make_pane_cells(_dump_pane(scenario, pane)) for pane in outcome.panes[:MOST_LINES]),
        right=("value",),
    )
    yield from _list_remainder(len(outcome.panes), "panes")
    if outcome.dropped:
        yield f"{count_noun(len(outcome.dropped), 'row')} dropped"
    if outcome.waiting:
        yield f"{count_noun(sum(waiting.rows for waiting in outcome.waiting), 'row')} that no pane shows"


def _make_pane_cells(fields: dict[str, Any]) -> tuple[object, ...]:
    window = f"[{fields['window_start']}, {fields['window_end']})"
    return fields["processing_time"], window, fields["key"], fields.get("retracts", fields["value"]), fields["kind"]


def list_check_lines(scenario: Scenario, runner: str, differences: Sequence[PaneDifference]) -> Iterator[Line]:
    """Yield the differences from the expected outcome."""
    count = len(differences)
    title = scenario.title if scenario.case is None else f"case {scenario.case}: {scenario.title}"
    result = (
        "as the file says" if not count else f"{count} {'difference' if count == 1 else 'differences'} from the file"
    )
    yield styled((title, "bold"), f", {runner}: {result}")
    if differences:
        yield make_table(
            ("of", "place", "expected", "got"),
            (
                (difference.of, difference.position, difference.expected or "nothing", difference.actual or "nothing")
                for difference in differences[:MOST_LINES]
            ),
        )
    yield from _list_remainder(count, "differences")


def _list_remainder(count: int, of: str) -> Iterator[str]:
    if count > MOST_LINES:
        yield f"and {count - MOST_LINES} {of} more; --json has all of them"


def _dump_pane(scenario: Scenario, pane: Pane) -> dict[str, Any]:
    value = _number(pane.value)
    fields = {
        **_window(scenario, pane),
        "value": value,
        "kind": pane.kind,
        "timing": pane.timing.value,
        "index": pane.index,
        "processing_time": format_scenario_time(pane.processing_time, scenario.style),
    }
    if pane.is_retraction:
        can_add = isinstance(scenario.setting.measure, (Sum, Count)) and value is not None
        fields |= {"value": -value if can_add else None, "retracts": value, "with_pane": pane.timing.value}
    return fields


def _dump_dropped(scenario: Scenario, dropped: Dropped) -> dict[str, Any]:
    return {
        "event_time": format_scenario_time(dropped.row.event_time, scenario.style),
        "processing_time": format_scenario_time(dropped.row.processing_time, scenario.style),
        "key": dropped.row.key,
        "window_start": format_scenario_time(dropped.window.start, scenario.style),
        "window_end": format_scenario_time(dropped.window.end, scenario.style),
        "reason": dropped.reason.value,
    }


def _dump_waiting(scenario: Scenario, waiting: Waiting) -> dict[str, Any]:
    return {**_window(scenario, waiting), "rows": waiting.rows}


def _window(scenario: Scenario, of: Pane | Waiting) -> dict[str, Any]:
    return {
        "window_start": format_scenario_time(of.window.start, scenario.style),
        "window_end": format_scenario_time(of.window.end, scenario.style),
        "key": of.key,
    }


def _number(value: Any) -> Any:
    """Convert a number for JSON: whole numbers exactly, others to the nearest double."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
