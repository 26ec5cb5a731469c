"""Commands that rehearse an installation: `cutover demo` shows both paths, `cutover drill NAME` causes an alert."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutover.errors import CutoverError, DefinitionError
from cutover.infra.demo import demonstration
from cutover.output.console import Output, print_warnings
from cutover.settings import Settings, load_settings

if TYPE_CHECKING:
    from cutover.infra.drills.perform import DrillOutcome
    from cutover.infra.drills.stack import Drill


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


def run_demo(
    pipeline: Annotated[
        str, typer.Option(help=f"Sample: {' or '.join(demonstration.SHOWS)}.")
    ] = demonstration.PIPELINE,
    cutover: Annotated[bool, typer.Option("--cutover", help="Retire batch, and roll back to it.")] = False,
    parts: Annotated[int, typer.Option(help="Split the year into this many parts, each with a report.")] = 1,
) -> int:
    """Run a year of departures through broker, stream, batch and reconciler, scheduled by Airflow.

    Or ads in videos: impressions and clicks of two topics joined by session, with a lookup of budgets.

    With `--cutover`: evidence, approval, SHADOW, KAPPA, a planted defect, the audit that detects it, and the rollback;
    in a separate home (`make demo-cutover`).

    The installation keeps running. Exit code: that of the verdict (0 equal or within policy, 1 differ, 2 not
    comparable).
    """
    if cutover:
        from cutover.infra.demo import retirement

        return retirement.main(load_settings())
    return demonstration.main(load_settings(), pipeline=pipeline, count=parts)


COMMANDS = {"demo": run_demo, "drill": drill}
