"""`cutover simulate SCENARIO.json`: the panes that come out of a scenario, as a table, as JSON, compared or drawn.

Each engine registers its runner, a function from `Setting` to `Outcome`, by entry point in the group `cutover.runners`;
so this module depends on none of them.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, cast

import typer

from cutover.errors import DefinitionError
from cutover.output.console import Line, Output
from cutover.panes.model import Outcome, Setting
from cutover.scenarios import compare, plot, show
from cutover.scenarios.compare import PaneDifference
from cutover.scenarios.reading.parse import parse_cases, parse_file
from cutover.scenarios.reading.setting import Scenario

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
        show.to_json(scenario_case, runner, outcome, case_differences)
        for (scenario_case, outcome), case_differences in zip(outcomes, differences_by_case, strict=True)
    ]
    return Output(
        document=objects[0] if len(objects) == 1 else {"schema": show.SCHEMA, "cases": objects},
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
        return show.list_outcome_lines(scenario, runner, outcome)
    return show.list_check_lines(scenario, runner, differences)


COMMANDS = {
    "simulate": simulate,
}
