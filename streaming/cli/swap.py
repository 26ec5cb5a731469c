"""`cutover swap`: serve a changed definition in place of the one that its note names, or swap back."""

from typing import Annotated

import typer

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.output.console import Output
from cutover.settings import load_settings
from cutover.streaming.cli.replay import list_unpublished, output_comparison
from cutover.streaming.replacement import compare as comparing
from cutover.streaming.replacement import swap as swapping
from cutover.streaming.replacement.serve import Agreed


def swap(
    pipeline: Annotated[str, typer.Argument(help="Name of the changed definition; with `--back` of the old one.")],
    *,
    reason: Annotated[
        str | None, typer.Option("--why", help="Make the swap, for this reason, which is recorded.")
    ] = None,
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
) -> Output:
    """Serve a changed definition under the name of the one that its `change` names, in one commit.

    Without `--why` both are compared, at the newest common cut: 0 they differ only as the change note declares,
    1 in something else, 2 not comparable. Both keep running, so `--back` works at once.
    """
    settings = load_settings()
    definition = find_definition(settings, pipeline) if back else catalogue.get(settings, pipeline)
    accepts_differences = uncompared or differences > 0
    if accepts_differences and (reason is None or back):
        msg = "Swap: expected `--differences` and `--uncompared` only with `--why`."
        raise DefinitionError(msg)
    if anyway and not back:
        msg = "Swap: expected `--anyway` only with `--back`."
        raise DefinitionError(msg)
    if back:
        serves, swapped = swapping.swap_back(
            settings, definition, reason=reason or "", clock=SystemClock(), anyway=anyway
        )
        lines = [
            f"{pipeline}: serves its name again, in place of {serves}.",
            *list_unpublished(swapped.stale_pipelines),
        ]
        return Output(document={"name": pipeline, "served_by": pipeline, "before": serves}, lines=lines)
    old = catalogue.get(settings, _require_note(definition))
    if reason is None:
        return output_comparison(comparing.compare_definitions(settings, definition, old), f"cutover swap {pipeline}")
    agreed = Agreed(differences=differences, uncompared=uncompared)
    swapped = swapping.swap(settings, definition, old, reason=reason, agreed=agreed, clock=SystemClock())
    return Output(
        document={"name": old.name, "served_by": pipeline, "before": old.name},
        lines=[
            *(
                []
                if swapped.comparison is None
                else [f"{pipeline}: {swapped.comparison.summary}, late records among them."]
            ),
            *list_unpublished(swapped.stale_pipelines),
            f"{old.name}: {pipeline} serves this name.",
            f"Keep both drivers running (`cutover stream {pipeline} --detach`);",
            f'`cutover swap {old.name} --back --why "..."` swaps back at once.',
        ],
    )


def _require_note(pipeline: Pipeline) -> str:
    if pipeline.change is None:
        msg = f"Swap to `{pipeline.name}`: expected a definition with `change=Change(of=...)`, got one without."
        raise DefinitionError(msg + f"\nHint: `cutover swap {pipeline.name} --back` gives its name back to it.")
    return pipeline.change.of


COMMANDS = {"swap": swap}
