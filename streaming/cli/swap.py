"""`cutover swap`: a changed definition takes the place of the one that its note names, or gives it back."""

from dataclasses import dataclass
from typing import Annotated

import typer

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.settings import load_settings
from cutover.streaming.cli.replay import report_unpublished, show
from cutover.streaming.replacement import compare as comparing
from cutover.streaming.replacement import swap as swapping
from cutover.streaming.replacement.serve import Agreed


def swap(  # noqa: PLR0913 -- options of a command
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
    anyway: Annotated[
        bool, typer.Option("--anyway", help="With `--back`: also where it has read less; readers go back in time.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, of a comparison.")] = False,
) -> None:
    """Let a changed definition be served under the name of the one that its `change` names, in one commit.

    Without `--why` both are compared, at the newest cut that both have: 0 they differ only as the change note declares,
    1 in something else, 2 not comparable. Both go on as they are, so `--back` works at once.
    """
    settings = load_settings()
    definition = find_definition(settings, pipeline) if back else catalogue.get(settings, pipeline)
    _refuse_odd(
        _Asked(
            compares=why is None and not back,
            back=back,
            as_json=as_json,
            anyway=anyway,
            agrees=uncompared or differences > 0,
        )
    )
    if back:
        serves, swapped = swapping.swap_back(settings, definition, why=why or "", clock=SystemClock(), anyway=anyway)
        typer.echo(f"{pipeline}: serves its name again, in place of {serves}.")
        report_unpublished(swapped.behind)
        return
    old = catalogue.get(settings, _require_note(definition))
    if why is None:
        show(comparing.compare_definitions(settings, definition, old), f"cutover swap {pipeline}", as_json=as_json)
    agreed = Agreed(differences=differences, uncompared=uncompared)
    swapped = swapping.swap(settings, definition, old, why=why or "", agreed=agreed, clock=SystemClock())
    if swapped.found is not None:
        typer.echo(f"{pipeline}: {swapped.found.found}, late records among them.")
    report_unpublished(swapped.behind)
    typer.echo(
        f"{old.name}: {pipeline} serves this name. Keep both drivers at work (`cutover stream {pipeline} --detach`);"
    )
    typer.echo(f'`cutover swap {old.name} --back --why "..."` goes back at once.')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What options ask for together."""

    compares: bool
    back: bool
    as_json: bool
    anyway: bool
    agrees: bool


def _refuse_odd(options: _Asked) -> None:
    """Refuse options that say nothing beside the others.

    Raises:
        DefinitionError: Some do.
    """
    for is_odd, text in (
        (
            options.agrees and (options.compares or options.back),
            "`--differences` and `--uncompared` beside `--why` alone",
        ),
        (options.as_json and not options.compares, "`--json` without `--why` and `--back`"),
        (options.anyway and not options.back, "`--anyway` beside `--back` alone"),
    ):
        if is_odd:
            msg = f"Swap: expected {text}."
            raise DefinitionError(msg)


def _require_note(pipeline: Pipeline) -> str:
    if pipeline.change is None:
        msg = f"Swap to `{pipeline.name}`: expected a definition with `change=Change(of=...)`, got one without."
        raise DefinitionError(msg + f"\nHint: `cutover swap {pipeline.name} --back` gives its name back to it.")
    return pipeline.change.of


COMMANDS = {"swap": swap}
