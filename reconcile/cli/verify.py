"""`cutover verify P`: every check that must hold whatever happened."""

import json
import sys
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from cutover.cli.definitions import find_definition
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.integrity import scrub
from cutover.reconcile.verify import show
from cutover.reconcile.verify.record import verify_and_record
from cutover.settings import Settings, load_settings


def verify(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    only: Annotated[str, typer.Option("--only", help="Some of the checks, such as N1,N3.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Recompute and count all that the log holds.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the sample that is recomputed.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Check the bytes of listed files, in pieces.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check what must hold whatever happened: 0 all holds, 1 something does not, 2 cannot be judged; recorded."""
    settings = load_settings()
    if files:
        _scrub(settings, find_definition(settings, pipeline), check_all=every, as_json=as_json)
    names = [name.strip().upper() for name in only.split(",") if name.strip()]
    verification = verify_and_record(
        settings, find_definition(settings, pipeline), only=names, exhaustive=every, seed=seed
    )
    if as_json:
        sys.stdout.write(json.dumps(verification.to_json()) + "\n")
    else:
        show.print_verification(Console(), verification)
    raise typer.Exit(verification.exit_code)


def _scrub(settings: Settings, pipeline: Pipeline, *, check_all: bool, as_json: bool) -> NoReturn:
    scrubbed = scrub.scrub(settings, pipeline, most=None if check_all else scrub.PIECE)
    if as_json:
        sys.stdout.write(json.dumps(scrubbed.to_json()) + "\n")
    else:
        show.print_scrub(Console(), scrubbed)
    raise typer.Exit(2 if scrubbed.damaged else 0)


COMMANDS = {"verify": verify}
