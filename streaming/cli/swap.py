"""`cutover swap`: serve a changed definition in place of the one that its note names, or swap back."""

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
    why: Annotated[str | None, typer.Option("--why", help="Make the swap, for this reason, which is recorded.")] = None,
    differences: Annotated[
        int, typer.Option("--differences", min=0, help="Exact number of rows that may differ without being declared.")
    ] = 0,
    uncompared: Annotated[
        bool, typer.Option("--uncompared", help="Skip the comparison; this is recorded with the reason.")
    ] = False,
    back: Annotated[bool, typer.Option("--back", help="The old definition serves its name again, at once.")] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway", help="With `--back`: swap even if it has read less, so that readers see an older state."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, of a comparison.")] = False,
) -> None:
    """Serve a changed definition under the name of the one that its `change` names, in one commit.

    Without `--why` both are compared, at the newest common cut: 0 they differ only as the change note declares,
    1 in something else, 2 not comparable. Both keep running, so `--back` works at once.
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
        f"{old.name}: {pipeline} serves this name. Keep both drivers running (`cutover stream {pipeline} --detach`);"
    )
    typer.echo(f'`cutover swap {old.name} --back --why "..."` swaps back at once.')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Options whose combination must be checked."""

    compares: bool
    back: bool
    as_json: bool
    anyway: bool
    agrees: bool


def _refuse_odd(options: _Asked) -> None:
    """Reject options that have no effect in combination with the others.

    Raises:
        DefinitionError: An option has no effect.
    """
    for is_odd, text in (
        (
            options.agrees and (options.compares or options.back),
            "`--differences` and `--uncompared` only with `--why`",
        ),
        (options.as_json and not options.compares, "`--json` without `--why` and `--back`"),
        (options.anyway and not options.back, "`--anyway` only with `--back`"),
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
