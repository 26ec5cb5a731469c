"""`cutover drill NAME`: cause an alert on a stack of its own, follow its runbook, write the times down."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutover.errors import CutoverError, DefinitionError
from cutover.output.console import Output, print_warnings
from cutover.settings import Settings, load_settings

if TYPE_CHECKING:
    from cutover.infra.drills.drill import Drill
    from cutover.infra.drills.perform import DrillOutcome


def drill(
    names: Annotated[list[str] | None, typer.Argument(help="Names of drills (of alerts); see --list.")] = None,
    *,
    show: Annotated[bool, typer.Option("--list", help="List the drills and run none.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Run all of them.")] = False,
    home: Annotated[
        Path | None,
        typer.Option("--home", help="An empty folder for the stack, kept afterwards; else a temporary one."),
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="File of results (JSON); each drill's newest one is kept in it.")
    ] = None,
) -> Iterator[Output]:
    """Cause an alert on an embedded stack, follow its runbook, check that it clears; 0 as the page says, 1 not so."""
    from cutover.infra.drills.catalogue import DRILLS

    if show:
        for each in DRILLS.values():
            document = {"name": each.name, "title": each.title, "quick": each.quick}
            yield Output(document=document, lines=[f"{each.name:26} {each.title}"])
        return
    drills = list(DRILLS.values()) if every else [DRILLS[_check_name(name)] for name in names or ()]
    if not drills:
        msg = "`cutover drill`: expected the name of a drill, or --all, got neither."
        raise DefinitionError(msg + "\nHint: `cutover drill --list`.")
    yield from _run(load_settings(), drills, home=home, results=results)


def _check_name(name: str) -> str:
    from cutover.infra.drills.catalogue import DRILLS

    if name not in DRILLS:
        msg = f"`cutover drill`: expected the name of a drill, got `{name[:80]}`."
        raise DefinitionError(msg + "\nHint: `cutover drill --list`.")
    return name


def _run(settings: Settings, drills: Sequence["Drill"], *, home: Path | None, results: Path | None) -> Iterator[Output]:
    """Run drills one after another on one stack; the exit code is 1 from the first that fails."""
    from cutover.infra.drills import results_file
    from cutover.infra.drills.sequence import run_drills

    exit_code = 0
    with _ended_by_signal():
        for drill, outcome in run_drills(settings, drills, home=home, tell=lambda line: print_warnings([line])):
            if isinstance(outcome, CutoverError):
                exit_code = 1
                yield Output(warnings=[f"{drill.name}: failed.", *str(outcome).split("\n")], exit_code=exit_code)
                continue
            if results is not None:
                results_file.add(results, outcome)
            yield Output(document=asdict(outcome), lines=[_sentence(outcome)], exit_code=exit_code)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that no broker is left."""
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _sentence(outcome: "DrillOutcome") -> str:
    detected, repaired = f"{outcome.detect_seconds:.1f} s", f"{outcome.repair_seconds:.1f} s"
    return f"{outcome.name}: detected in {detected}, repaired in {repaired} by its page; N1 to N6 hold."


COMMANDS = {"drill": drill}
