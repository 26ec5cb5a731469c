"""`cutover audit determinism|windows P`, `cutover noise P`: replays of the log, and samples of what is served."""

import secrets
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.output.console import Line, Output, make_table, show_spinner, styled
from cutover.reconcile.audit import noise_record, run
from cutover.reconcile.audit.blame import DifferenceSize
from cutover.reconcile.audit.noise import Noise, make_rule, measure_noise
from cutover.reconcile.audit.run import DeterminismAudit
from cutover.reconcile.result import text
from cutover.settings import load_settings

if TYPE_CHECKING:
    from cutover.reconcile.verdict.audits.audit_record import WindowAudit

app = typer.Typer(help="Compute from the log again and compare the answers.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Compute from the log again and compare: the log with itself, or some final windows with what is served."""


@app.command()
def determinism(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    replays: Annotated[int, typer.Option("--replays", min=1, max=100, help="How many.")] = 3,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
) -> Output:
    """Replay with other epochs, another order, other tasks: 0 the same answer, 1 another one. Reads only."""
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    audit_seed = secrets.randbelow(2**31) if seed is None else seed
    determinism_audit = run.audit_determinism(settings, definition, replays=replays, seed=audit_seed)
    return Output(
        document=asdict(determinism_audit) | {"exit_code": determinism_audit.exit_code},
        lines=_list_determinism_lines(determinism_audit),
        exit_code=determinism_audit.exit_code,
    )


def _list_determinism_lines(audit: DeterminismAudit) -> Iterator[Line]:
    same = f"all {len(audit.replays)} replays gave the same answer"
    yield styled((audit.pipeline, "bold"), ": ", "a replay gives another answer" if audit.exit_code else same)
    yield f"{audit.records:,} offsets, {audit.rows:,} (window, key) rows, seed {audit.seed}"
    yield make_table(
        ("replay", "epochs", "tasks", "late"),
        ((replay.replay, replay.epochs, replay.tasks, f"{replay.late:,}") for replay in audit.replays),
    )
    for replay in audit.replays:
        for blamed in replay.blamed:
            extent = "in the last digits of a double" if blamed.within_tolerance else "beyond any tolerance"
            place = f"replay {replay.replay}: {blamed.column} (`{blamed.expression}`)"
            yield f"{place}: {blamed.rows:,} rows differ {extent}, such as {blamed.example}"


@app.command()
def windows(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
    put_back: Annotated[
        bool, typer.Option("--put-back", help="From KAPPA to LAMBDA where something is wrong.")
    ] = False,
) -> Output:
    """Recompute a sample of windows that became final: 0 it agrees or nothing is new, 1 a regression, 2 no word."""
    from cutover.reconcile.gate import stage
    from cutover.reconcile.window_audit import audit_sample

    settings, clock = load_settings(), SystemClock()
    definition = find_definition(settings, pipeline)
    audit_seed = secrets.randbelow(2**31) if seed is None else seed
    with show_spinner(f"{pipeline}: computing the sample from the log"):
        window_audit = audit_sample.audit_windows(settings, definition, seed=audit_seed, clock=clock)
        rolled_back = put_back and stage.roll_back_regression(settings, definition, clock)
    return Output(
        document=asdict(window_audit) | {"exit_code": window_audit.exit_code, "put_back": rolled_back},
        lines=_list_window_lines(window_audit, rolled_back=rolled_back),
        exit_code=window_audit.exit_code,
    )


def _list_window_lines(window_audit: "WindowAudit", *, rolled_back: bool) -> Iterator[Line]:
    from cutover.reconcile.window_audit import sentence

    yield from window_audit.examples
    yield from sentence.describe_audit(window_audit)
    yield sentence.describe_next_step(window_audit, rolled_back=rolled_back)


def noise(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    batches: Annotated[int, typer.Option("--batches", min=1, max=20, help="With other tasks.")] = 2,
    streams: Annotated[int, typer.Option("--streams", min=1, max=20, help="With other epoch ends.")] = 2,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
) -> Output:
    """Compute the same records several times: 0 one answer, 1 noise and its size, 2 not to be judged. Served as is."""
    settings, clock = load_settings(), SystemClock()
    definition = catalogue.get(settings, pipeline)
    noise_seed = secrets.randbelow(2**31) if seed is None else seed
    measured = measure_noise(settings, definition, batches=batches, streams=streams, seed=noise_seed, clock=clock)
    noise_record.record_noise(settings, measured, clock)
    rule = make_rule(measured, definition)
    return Output(
        document=asdict(measured) | {"exit_code": measured.exit_code, "proposed_rule": rule},
        lines=_list_noise_lines(measured, rule),
        exit_code=measured.exit_code,
    )


def _list_noise_lines(noise: Noise, rule: str | None) -> Iterator[Line]:
    if noise.measures:
        yield make_table(
            ("measure", "differs in", "rows", "half", "95 %", "99 %", "largest", "relative"),
            (
                (
                    measure.column,
                    " and ".join(measure.paths),
                    f"{measure.rows:,}",
                    *(("",) * 5 if measure.size is None else map(text.number, _list_sizes(measure.size))),
                )
                for measure in noise.measures
            ),
        )
    for measure in noise.measures:
        yield f"{measure.column} (`{measure.expression}`), such as {measure.example}"
    if rule is not None:
        yield f"A rule that it fits into, in pipelines/accepted/{noise.pipeline}/noise.toml once filled in:"
        yield from rule.rstrip().split("\n")
    yield f"{noise_record.describe_noise(noise)} {_describe_next_step(noise)}"


def _list_sizes(size: DifferenceSize) -> tuple[float, ...]:
    return size.half, size.p95, size.p99, size.largest, size.relative


def _describe_next_step(noise: Noise) -> str:
    if not noise.measures:
        return f"Next: `cutover reconcile {noise.pipeline}`; over these records no tolerance was needed."
    return "Next: give each expression one answer; doubles, sums and counts have one here. Nothing is accepted by this."


COMMANDS = {"audit": app, "noise": noise}
