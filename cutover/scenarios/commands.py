"""`cutover simulate SCENARIO.json`: the panes that come out of a scenario."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cutover.scenarios import show
from cutover.scenarios.parse import parse_file
from cutover.scenarios.runners import runner as runner_of


def simulate(
    scenario: Annotated[Path, typer.Argument(help="A JSON file; docs/scenarios.md describes it.")],
    *,
    runner: Annotated[str, typer.Option("--runner", help="Who runs it: reference, batch, or streaming.")] = "reference",
    case: Annotated[int | None, typer.Option("--case", help="Of a file with several: the case's figure.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the panes that come out of a scenario, in order. Only `--runner streaming` needs a broker."""
    run = runner_of(runner)
    parsed = parse_file(scenario, case=case)
    outcome = run(parsed.setting)
    if as_json:
        typer.echo(json.dumps(show.to_json(parsed, runner, outcome)))
    else:
        show.table(Console(), parsed, runner, outcome)


COMMANDS = {"simulate": simulate}
