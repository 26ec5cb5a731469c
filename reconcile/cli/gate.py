"""`cutover gate P show|advance|rollback`: show the evidence, advance, roll back."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control.stages import Stage, current_stage, read_events
from cutover.lake.journal_rows import GateEvent
from cutover.output.markup import literal_text
from cutover.reconcile.cli.recorded.cost import nine_table, path_table
from cutover.reconcile.cost.measure import measure_present
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate import stage
from cutover.reconcile.gate.condition_text import describe_number, describe_threshold
from cutover.reconcile.gate.decide import GateDecision, GateEvidence, decide
from cutover.reconcile.result.codec import encode
from cutover.reconcile.result.cost import PathCosts
from cutover.reconcile.result.cost_text import describe_price, describe_waiting_basis
from cutover.reconcile.result.text import count_noun, message_text
from cutover.settings import Settings, load_settings

REFUSED = 1
_SHOWN = 10  # runs

Why = Annotated[str, typer.Option("--why", help="The reason; it is kept in the history.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]

app = typer.Typer(help="Which path a pipeline serves: LAMBDA, SHADOW or KAPPA.", no_args_is_help=True)


@app.callback()
def choose_pipeline(
    context: typer.Context, pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")]
) -> None:
    """Which path a pipeline serves: LAMBDA (batch, then stream), SHADOW (stream, batch audits), KAPPA (stream)."""
    context.obj = (load_settings(), pipeline)


@app.command()
def show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the evidence, what is missing, and the history of moves."""
    settings, pipeline = _find_shown(context)
    now = SystemClock().now()
    evidence = evidence_of.read(settings, pipeline, now)
    decision = decide(current_stage(settings, pipeline), evidence, "advance", pipeline.policy, now)
    decision = decision.name_pipeline(pipeline.name)
    history = read_events(settings, pipeline.name)
    costs = measure_present(settings, pipeline)
    gate_fields = _object(pipeline, evidence, decision, history) | {"cost": encode(costs)}
    if as_json:
        typer.echo(json.dumps(gate_fields, default=str))
    else:
        _print(gate_fields, evidence, costs)


@app.command()
def advance(context: typer.Context, *, why: Why) -> None:
    """Move one stage on; refused (exit code 1) while something is missing, with the list of it."""
    settings, name = context.obj
    pipeline = catalogue.get(settings, name)
    decision = stage.move(settings, pipeline, "advance", why, SystemClock())
    if decision.target is None:
        _refuse(f"Gate of `{pipeline.name}`: {decision.stage} is the last stage.")
    if not decision.allowed:
        lines = "".join(f"\n  - {line}" for line in decision.missing)
        text = f"Gate of `{pipeline.name}`: {decision.stage} to {decision.target} is refused; missing:{lines}"
        _refuse(text + f"\nHint: `cutover gate {pipeline.name} show` lists the evidence, and what would pass.")
    _show_move(pipeline, decision)
    for condition in decision.conditions:
        if condition.name == "audit":
            typer.echo(f"In {decision.target}: {condition.detail}.")


@app.command()
def rollback(
    context: typer.Context,
    *,
    why: Why,
    to: Annotated[Stage, typer.Option("--to", help="LAMBDA: batch serves again. SHADOW: from KAPPA.")] = Stage.LAMBDA,
) -> None:
    """Let batch serve again, at once and from any stage; requires no evidence, no log and no driver."""
    settings, pipeline = _find_shown(context)
    decision = stage.roll_back(settings, pipeline, why, SystemClock(), back_to=to)
    if stage.stays(decision, to):
        typer.echo(f"{pipeline.name}: stays in {to}. What was approved, or begun, before this cannot move it any more.")
        return
    if decision.target is None:
        _refuse(f"Gate of `{pipeline.name}`: expected a stage before {decision.stage} to go back to, got {to}.")
    _show_move(pipeline, decision)
    serves = "Batch serves the windows that it has computed" if to is Stage.LAMBDA else "Batch audits the stream again"
    typer.echo(f"{serves}. Next: `cutover batch {pipeline.name}` catches it up with the log.")


def _find_shown(context: typer.Context) -> tuple[Settings, Pipeline]:
    settings, name = context.obj
    return settings, find_definition(settings, name)


def _refuse(text: str) -> None:
    typer.echo(text, err=True)
    raise typer.Exit(REFUSED)


def _show_move(pipeline: Pipeline, decision: GateDecision) -> None:
    typer.echo(f"{pipeline.name}: {decision.stage} -> {decision.target}")
    for name in decision.stale_pipelines:
        why = f"`cutover serve-view {name}` says why, and does it"
        typer.echo(f"{name}: readers of its serving table still see what it showed before; {why}.", err=True)


def _object(
    pipeline: Pipeline, evidence: GateEvidence, decision: GateDecision, history: Sequence[GateEvent]
) -> dict[str, Any]:
    return {
        "pipeline": pipeline.name,
        "stage": decision.stage,
        "next": decision.target,
        "allowed": decision.allowed,
        "missing": decision.missing,
        "conditions": [asdict(condition) for condition in decision.conditions],
        "counted": [asdict(run) for run in decision.eligible_runs],
        "expires": decision.expires,
        "differences_by_cause": evidence_of.count_rows_by_cause(decision.eligible_runs),
        "runs": len(evidence.runs),
        "history": [asdict(event) | {"evidence": json.loads(event.evidence)} for event in history],
    }


def _print(gate_fields: dict[str, Any], evidence: GateEvidence, costs: PathCosts | None) -> None:
    console = Console(highlight=False)
    following = f"next: {gate_fields['next']}" if gate_fields["next"] else "there is no stage beyond"
    console.print(f"[bold]{gate_fields['pipeline']}[/] is in [bold]{gate_fields['stage']}[/]; {following}.")
    if gate_fields["next"]:
        _conditions(console, gate_fields["conditions"])
        console.print("`advance` compares both sides anew, judges the checks and looks at the alerts before it moves.")
    causes = ", ".join(
        f"{name} {count_noun(rows, 'row')}" for name, rows in gate_fields["differences_by_cause"].items()
    )
    if gate_fields["counted"]:
        console.print(f"\nDifferences in the runs that count: {causes or 'none'}.")
    if gate_fields["expires"]:
        console.print(f"The oldest of these runs expires {gate_fields['expires']:%Y-%m-%d %H:%M} UTC.")
    _runs(console, evidence, {run["run_id"] for run in gate_fields["counted"]})
    _history(console, gate_fields["history"])
    _costs(console, costs)
    console.print(message_text(describe_price(gate_fields["pipeline"], costs)))


def _conditions(console: Console, conditions: list[dict[str, Any]]) -> None:
    """Print a checklist: each condition's number and threshold, and what is to be done for those that are not met."""
    table = _table("", "to advance", "is", "asked", "found")
    for condition in conditions:
        word = "[green]yes[/]" if condition["is_met"] else "[red]no[/]"
        numbers = (describe_number(condition), describe_threshold(condition))
        table.add_row(word, condition["name"], *numbers, escape(condition["detail"]))
    console.print(table)
    missing = [condition for condition in conditions if not condition["is_met"]]
    if missing:
        console.print("\nTo pass:")
    for condition in missing:
        console.print(f"  {condition['name']}: {escape(condition['to_pass'])}", soft_wrap=True)


def _costs(console: Console, costs: PathCosts | None) -> None:
    if costs is not None:
        console.print("\nWhat both paths cost, and what each nine of agreement buys:")
        console.print(path_table(costs))
        if costs.nines:
            console.print(nine_table(costs))
            console.print(message_text(describe_waiting_basis(costs)), soft_wrap=True)


def _runs(console: Console, evidence: GateEvidence, eligible_ids: set[str]) -> None:
    if not evidence.runs:
        console.print("No reconciliation since the last move.")
        return
    table = _table("counts", "at (UTC)", "epoch", "windows", "outcome", "run")
    for run in evidence.runs[-_SHOWN:]:
        numbers = ("none" if run.epoch < 0 else str(run.epoch), f"{run.windows:,}")
        word = "yes" if run.run_id in eligible_ids else "no"
        table.add_row(word, f"{run.at:%Y-%m-%d %H:%M:%S}", *numbers, run.outcome, run.run_id)
    console.print(table)


def _history(console: Console, rows: list[dict[str, Any]]) -> None:
    if not rows:
        console.print("No move yet.")
        return
    table = _table("at (UTC)", "stage", "event", "who", "why", "evidence")
    for row in rows:
        cells = (literal_text(row["who"]), literal_text(row["why"] or ""), str(row["evidence"].get("hash", ""))[:12])
        table.add_row(f"{row['at']:%Y-%m-%d %H:%M:%S}", row["stage"], row["event"], *cells)
    console.print(table)


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0))


COMMANDS = {"gate": app}
