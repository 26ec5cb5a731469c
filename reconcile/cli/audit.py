"""`cutover audit determinism P`: whether replays of the log give the same answer."""

import json
import secrets
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from cutover.definition.loading import catalogue
from cutover.output.markup import literal_text
from cutover.reconcile.audit import run
from cutover.reconcile.audit.run import Audit
from cutover.settings import load_settings

app = typer.Typer(help="Replay a pipeline's log in other ways and compare the answers.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Replay a pipeline's log in other ways and compare the answers."""


@app.command()
def determinism(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    replays: Annotated[int, typer.Option("--replays", min=1, max=100, help="How many.")] = 3,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Replay with other epochs, another order, other tasks: 0 the same answer, 1 another one. Reads only."""
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    drawn = secrets.randbelow(2**31) if seed is None else seed
    found = run.determinism(settings, definition, replays=replays, seed=drawn)
    if as_json:
        sys.stdout.write(json.dumps(asdict(found) | {"exit_code": found.exit_code}) + "\n")
    else:
        _print(Console(highlight=False), found)
    raise typer.Exit(found.exit_code)


def _print(console: Console, found: Audit) -> None:
    verdict = "a replay gives another answer" if found.exit_code else "every replay gives the same answer"
    console.print(f"[bold]{found.pipeline}[/]: {verdict}")
    console.print(f"{found.records:,} offsets, {found.rows:,} (window, key) rows, seed {found.seed}")
    table = Table("replay", "epochs", "tasks", "late", box=None, pad_edge=False)
    for one in found.replays:
        table.add_row(str(one.replay), str(one.epochs), str(one.tasks), f"{one.late:,}")
    console.print(table)
    for one in found.replays:
        for blamed in one.blamed:
            how = "in the last digits of a double" if blamed.within_tolerance else "beyond any tolerance"
            place = f"replay {one.replay}: {blamed.column} (`{blamed.expression}`): {blamed.rows:,} rows differ {how}"
            console.print(literal_text(f"{place}, such as {blamed.example}"), soft_wrap=True)


COMMANDS = {"audit": app}
