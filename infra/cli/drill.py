"""Command `cutover drill NAME`: cause an alert on a separate stack, follow its runbook, and record the times."""

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
    run_all: Annotated[bool, typer.Option("--all", help="Run all drills.")] = False,
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Empty folder for the stack, which is kept; default: a temporary one."),
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="Results file (JSON), with the latest result of each drill.")
    ] = None,
) -> Iterator[Output]:
    """Cause an alert on an embedded stack and follow its runbook; exit 0 if the alert clears, 1 if a drill fails."""
    from cutover.infra.drills.catalogue import DRILLS

    if show:
        for listed_drill in DRILLS.values():
            document = {"name": listed_drill.name, "title": listed_drill.title, "quick": listed_drill.quick}
            yield Output(document=document, lines=[f"{listed_drill.name:26} {listed_drill.title}"])
        return
    drills = list(DRILLS.values()) if run_all else [DRILLS[_check_name(name)] for name in names or ()]
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
    """Run drills in sequence on one stack; the exit code is 1 from the first failed drill on."""
    from cutover.infra.drills import sequence
    from cutover.infra.drills.sequence import run_drills

    def report_progress(line: str) -> None:
        print_warnings([line])

    exit_code = 0
    with _interrupt_on_sigterm():
        for drill, outcome in run_drills(settings, drills, home=home, report_progress=report_progress):
            if isinstance(outcome, CutoverError):
                exit_code = 1
                yield Output(warnings=[f"{drill.name}: failed.", *str(outcome).split("\n")], exit_code=exit_code)
                continue
            if results is not None:
                sequence.add_result(results, outcome)
            yield Output(document=asdict(outcome), lines=[_describe_outcome(outcome)], exit_code=exit_code)


@contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C within the block, so that the broker is stopped."""
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _describe_outcome(outcome: "DrillOutcome") -> str:
    times = f"detected in {outcome.detect_seconds:.1f} s, repaired in {outcome.repair_seconds:.1f} s by its runbook"
    return f"{outcome.name}: {times}; N1 to N6 hold."


COMMANDS = {"drill": drill}
