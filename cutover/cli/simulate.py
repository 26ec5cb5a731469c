"""`cutover simulate SCENARIO.json`: the panes that come out of a scenario, as a table, as JSON, compared or drawn.

Each engine registers its runner, a function from `Setting` to `Outcome`, by entry point in the group `cutover.runners`;
so this module depends on none of them.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from cutover.counts import count_noun
from cutover.definition.measures.kinds import Count, Sum
from cutover.errors import DefinitionError
from cutover.output.console import Line, Output, make_table, styled
from cutover.panes.model import Dropped, Outcome, Pane, Setting, Waiting
from cutover.scenarios import compare, plot
from cutover.scenarios.compare import PaneDifference
from cutover.scenarios.reading.parse import parse_cases, parse_file
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


Runner = Callable[[Setting], Outcome]

GROUP = "cutover.runners"


def load_runner(name: str) -> Runner:
    """Load a runner by its entry point.

    Raises:
        DefinitionError: No runner has this name.
    """
    runners = entry_points(group=GROUP)
    if name not in runners.names:
        msg = f"--runner: expected one of {', '.join(sorted(runners.names))}, got `{name[:80]}`."
        raise DefinitionError(msg)
    return cast("Runner", runners[name].load())


DIFFERENT = 1
"""Exit code of `--check` where something differs."""


def simulate(
    scenario: Annotated[Path, typer.Argument(help="A JSON file; docs/scenarios.md describes it.")],
    *,
    runner: Annotated[str, typer.Option("--runner", help="Who runs it: reference, batch, or streaming.")] = "reference",
    case: Annotated[int | None, typer.Option("--case", help="Of a file with several: its number.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare with the file's own `panes`; exit 1.")] = False,
    picture: Annotated[Path | None, typer.Option("--plot", help="Draw it into this SVG file.")] = None,
) -> Output:
    """Show the panes that come out of a scenario, in order. Only `--runner streaming` needs a broker."""
    run = load_runner(runner)
    scenarios = parse_cases(scenario, case=case) if check and picture is None else [parse_file(scenario, case=case)]
    if check:
        _reject_without_panes(scenario, scenarios)
    if picture is not None:
        plot.check_size(scenarios[0])
    outcomes = [(scenario_case, run(scenario_case.setting)) for scenario_case in scenarios]
    if picture is not None:
        plot.write_plot(picture, *outcomes[0])
    differences_by_case = [
        _differences(scenario_case, outcome) if check else None for scenario_case, outcome in outcomes
    ]
    objects = [
        to_json(scenario_case, runner, outcome, case_differences)
        for (scenario_case, outcome), case_differences in zip(outcomes, differences_by_case, strict=True)
    ]
    return Output(
        document=objects[0] if len(objects) == 1 else {"schema": SCHEMA, "cases": objects},
        lines=[
            line
            for (scenario_case, outcome), differences in zip(outcomes, differences_by_case, strict=True)
            for line in _list_lines(scenario_case, runner, outcome, differences)
        ],
        exit_code=DIFFERENT if any(differences_by_case) else 0,
    )


def _reject_without_panes(file: Path, scenarios: Sequence[Scenario]) -> None:
    for scenario in scenarios:
        if scenario.expected is None:
            place = "" if scenario.case is None else f"case {scenario.case}: "
            msg = f"Scenario `{file.name}`: {place}panes: expected a list to compare with, since --check is given, got "
            raise DefinitionError(msg + "nothing.")


def _differences(scenario: Scenario, outcome: Outcome) -> Sequence[PaneDifference] | None:
    return None if scenario.expected is None else compare.compare_outcome(scenario, scenario.expected, outcome)


def _list_lines(
    scenario: Scenario, runner: str, outcome: Outcome, differences: Sequence[PaneDifference] | None
) -> Iterator[Line]:
    if differences is None:
        return list_outcome_lines(scenario, runner, outcome)
    return list_check_lines(scenario, runner, differences)


COMMANDS = {
    "simulate": simulate,
}
