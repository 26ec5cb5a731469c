"""`cutover swap`: a changed definition takes the place of the one that its note names, or gives it back."""

from typing import Annotated

import typer

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import load_settings
from cutover.streaming.beside import compare as comparing
from cutover.streaming.beside import swap as swapping
from cutover.streaming.beside.serve import Agreed
from cutover.streaming.cli.replay import show


def swap(
    pipeline: Annotated[str, typer.Argument(help="Name of the changed definition; with `--back` of the old one.")],
    *,
    why: Annotated[str | None, typer.Option("--why", help="Let it serve, and the reason, which is kept.")] = None,
    differences: Annotated[
        int, typer.Option("--differences", min=0, help="Rows that may differ and are not declared: exactly so many.")
    ] = 0,
    uncompared: Annotated[
        bool, typer.Option("--uncompared", help="Do not compare it first; that is kept with the reason.")
    ] = False,
    back: Annotated[bool, typer.Option("--back", help="The old definition serves its name again, at once.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, of a comparison.")] = False,
) -> None:
    """Let a changed definition be served under the name of the one that its `change` names, in one commit.

    Without `--why` both are compared, at the newest cut that both have: 0 they differ only as the change note declares,
    1 in something else, 2 not comparable. Both go on as they are, so `--back` works at once.
    """
    settings = load_settings()
    found = catalogue.get(settings, pipeline)
    if back:
        follower = swapping.swap_back(settings, found, why=why or "", clock=SystemClock())
        typer.echo(
            f"{pipeline}: serves its name again, in place of {follower}; `cutover swap {follower}` compares anew."
        )
        return
    old = catalogue.get(settings, _require_note(found))
    if why is None:
        show(comparing.compare_definitions(settings, found, old), f"cutover swap {pipeline}", as_json=as_json)
    agreed = Agreed(differences=differences, uncompared=uncompared)
    compared = swapping.swap(settings, found, old, why=why or "", agreed=agreed, clock=SystemClock())
    if compared is not None:
        typer.echo(f"Late ones among them, {compared.found}.")
    typer.echo(f"{old.name}: readers of `cutover serve-view {old.name}` get the rows of {pipeline} from now on.")
    typer.echo(f'Back, at once: `cutover swap {old.name} --back --why "..."`, as long as its driver goes on.')


def _require_note(pipeline: Pipeline) -> str:
    if pipeline.change is None:
        msg = f"Swap to `{pipeline.name}`: expected a definition with `change=Change(of=...)`, got one without."
        raise DefinitionError(msg + f"\nHint: `cutover swap {pipeline.name} --back` gives its name back to it.")
    return pipeline.change.of


COMMANDS = {"swap": swap}
