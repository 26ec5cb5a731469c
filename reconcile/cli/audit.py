"""`cutover audit determinism|windows P`, `cutover noise P`: replays of the log, and samples of what is served."""

import json
import secrets
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.output.markup import literal_text
from cutover.reconcile.audit import noise_record, run
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Replay with other epochs, another order, other tasks: 0 the same answer, 1 another one. Reads only."""
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    audit_seed = secrets.randbelow(2**31) if seed is None else seed
    determinism_audit = run.determinism(settings, definition, replays=replays, seed=audit_seed)
    if as_json:
        sys.stdout.write(json.dumps(asdict(determinism_audit) | {"exit_code": determinism_audit.exit_code}) + "\n")
    else:
        _print(Console(highlight=False), determinism_audit)
    raise typer.Exit(determinism_audit.exit_code)


def _print(console: Console, audit: DeterminismAudit) -> None:
    verdict = (
        "a replay gives another answer" if audit.exit_code else f"all {len(audit.replays)} replays gave the same answer"
    )
    console.print(f"[bold]{audit.pipeline}[/]: {verdict}")
    console.print(f"{audit.records:,} offsets, {audit.rows:,} (window, key) rows, seed {audit.seed}")
    table = Table("replay", "epochs", "tasks", "late", box=None, pad_edge=False)
    for replay in audit.replays:
        table.add_row(str(replay.replay), str(replay.epochs), str(replay.tasks), f"{replay.late:,}")
    console.print(table)
    for replay in audit.replays:
        for blamed in replay.blamed:
            extent = "in the last digits of a double" if blamed.within_tolerance else "beyond any tolerance"
            place = (
                f"replay {replay.replay}: {blamed.column} (`{blamed.expression}`): {blamed.rows:,} rows differ {extent}"
            )
            console.print(literal_text(f"{place}, such as {blamed.example}"), soft_wrap=True)


@app.command()
def windows(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
    put_back: Annotated[
        bool, typer.Option("--put-back", help="From KAPPA to LAMBDA where something is wrong.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Recompute a sample of windows that became final: 0 it agrees or nothing is new, 1 a regression, 2 no word."""
    from cutover.reconcile.gate import stage
    from cutover.reconcile.window_audit import audit_sample

    settings, clock = load_settings(), SystemClock()
    definition = find_definition(settings, pipeline)
    audit_seed = secrets.randbelow(2**31) if seed is None else seed
    with Console(stderr=True).status(f"{pipeline}: computing the sample from the log"):
        window_audit = audit_sample.audit_windows(settings, definition, seed=audit_seed, clock=clock)
        rolled_back = put_back and stage.roll_back_regression(settings, definition, clock)
    if as_json:
        sys.stdout.write(
            json.dumps(asdict(window_audit) | {"exit_code": window_audit.exit_code, "put_back": rolled_back}) + "\n"
        )
    else:
        _print_windows(Console(highlight=False, soft_wrap=True), window_audit, rolled_back=rolled_back)
    raise typer.Exit(window_audit.exit_code)


def _print_windows(console: Console, window_audit: "WindowAudit", *, rolled_back: bool) -> None:
    from cutover.reconcile.window_audit import sentence

    for line in (
        *window_audit.examples,
        *sentence.describe_audit(window_audit),
        sentence.describe_next_step(window_audit, moved=rolled_back),
    ):
        console.print(text.message_text(line))


def noise(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    batches: Annotated[int, typer.Option("--batches", min=1, max=20, help="With other tasks.")] = 2,
    streams: Annotated[int, typer.Option("--streams", min=1, max=20, help="With other epoch ends.")] = 2,
    seed: Annotated[int | None, typer.Option("--seed", help="Draws them; another one each time if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compute the same records several times: 0 one answer, 1 noise and its size, 2 not to be judged. Served as is."""
    settings, clock = load_settings(), SystemClock()
    definition = catalogue.get(settings, pipeline)
    noise_seed = secrets.randbelow(2**31) if seed is None else seed
    found = measure_noise(settings, definition, batches=batches, streams=streams, seed=noise_seed, clock=clock)
    noise_record.record(settings, found, clock)
    rule = make_rule(found, definition)
    if as_json:
        fields = asdict(found) | {"exit_code": found.exit_code, "proposed_rule": rule}
        sys.stdout.write(json.dumps(fields, allow_nan=False) + "\n")
    else:
        _print_noise(Console(highlight=False, soft_wrap=True), found, rule)
    raise typer.Exit(found.exit_code)


def _print_noise(console: Console, noise: Noise, rule: str | None) -> None:
    table = Table(
        "measure", "differs in", "rows", "half", "95 %", "99 %", "largest", "relative", box=None, pad_edge=False
    )
    for measure in noise.measures:
        size = measure.size
        sizes = ("",) * 5 if size is None else (size.half, size.p95, size.p99, size.largest, size.relative)
        numbers = (value if isinstance(value, str) else text.number(value) for value in sizes)
        table.add_row(text.message_text(measure.column), " and ".join(measure.paths), f"{measure.rows:,}", *numbers)
    if noise.measures:
        console.print(table)
    for measure in noise.measures:
        console.print(text.message_text(f"{measure.column} (`{measure.expression}`), such as {measure.example}"))
    if rule is not None:
        console.print(f"A rule that it fits into, in pipelines/accepted/{noise.pipeline}/noise.toml once filled in:")
        console.print(literal_text(rule.rstrip()))
    console.print(text.message_text(f"{noise_record.describe_noise(noise)} {_say_next(noise)}"))


def _say_next(noise: Noise) -> str:
    if not noise.measures:
        return f"Next: `cutover reconcile {noise.pipeline}`; over these records no tolerance was needed."
    return "Next: give each expression one answer; doubles, sums and counts have one here. Nothing is accepted by this."


COMMANDS = {"audit": app, "noise": noise}
