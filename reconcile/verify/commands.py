"""`cutover verify P`: every check that must hold whatever happened."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from cutover.definition import catalogue
from cutover.settings import load_settings
from reconcile.verify import show
from reconcile.verify.record import verify_and_record


def verify(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    only: Annotated[str, typer.Option("--only", help="Some of the checks, such as N1,N3.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Recompute and count all that the log holds.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the sample that is recomputed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check what must hold whatever happened: 0 all holds, 1 something does not, 2 cannot be judged; recorded."""
    settings = load_settings()
    names = [name.strip().upper() for name in only.split(",") if name.strip()]
    found = verify_and_record(settings, catalogue.get(settings, pipeline), only=names, every=every, seed=seed)
    if as_json:
        sys.stdout.write(json.dumps(found.to_json()) + "\n")
    else:
        show.verification(Console(), found)
    raise typer.Exit(found.exit_code)


COMMANDS = {"verify": verify}
