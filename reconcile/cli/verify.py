"""`cutover verify P`: every check that must hold whatever happened."""

from typing import Annotated

import typer

from cutover.cli.definitions import find_definition
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.integrity import scrub
from cutover.output.console import Output
from cutover.reconcile.verify import show
from cutover.reconcile.verify.record import verify_and_record
from cutover.settings import Settings, load_settings


def verify(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    only: Annotated[str, typer.Option("--only", help="Some of the checks, such as N1,N3.")] = "",
    exhaustive: Annotated[bool, typer.Option("--all", help="Recompute and count all that the log holds.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the sample that is recomputed.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Check the bytes of listed files, in pieces.")] = False,
) -> Output:
    """Check what must hold whatever happened: 0 all holds, 1 something does not, 2 cannot be judged; recorded."""
    settings = load_settings()
    if files:
        return _scrub(settings, find_definition(settings, pipeline), check_all=exhaustive)
    names = [name.strip().upper() for name in only.split(",") if name.strip()]
    verification = verify_and_record(
        settings, find_definition(settings, pipeline), only=names, exhaustive=exhaustive, seed=seed
    )
    return Output(
        document=verification.to_json(),
        lines=show.list_verification_lines(verification),
        exit_code=verification.exit_code,
    )


def _scrub(settings: Settings, pipeline: Pipeline, *, check_all: bool) -> Output:
    scrubbed = scrub.scrub(settings, pipeline, max_bytes=None if check_all else scrub.PIECE)
    lines = show.list_scrub_lines(scrubbed)
    return Output(document=scrubbed.to_json(), lines=lines, exit_code=2 if scrubbed.damaged else 0)


COMMANDS = {"verify": verify}
