"""`cutover gate` and `cutover cost`: the evidence for a move, the move itself, and what both paths cost."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from cutover.cli.definitions import choose_pipeline, load_chosen_definition, load_command_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.policy import Stage
from cutover.lake.control.served import current_stage, describe_own_tables, read_gate_events
from cutover.lake.journal_rows import GateEvent
from cutover.output.console import Line, Output, make_table, styled
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.cost import find_agreement, measure_costs, measure_present
from cutover.reconcile.gate import evidence as evidence_of
from cutover.reconcile.gate import stage
from cutover.reconcile.gate.criteria import describe_number, describe_threshold
from cutover.reconcile.gate.decide import GateDecision, GateEvidence, decide
from cutover.reconcile.result.codec import encode_tree
from cutover.reconcile.result.report import (
    Delay,
    PathCosts,
    PathTotal,
    amount_text,
    describe_costs,
    describe_nine,
    describe_price,
    describe_waiting_basis,
    size_text,
)
from cutover.reconcile.result.text import count_noun, duration
from cutover.settings import load_settings

_FIGURES = (
    "records",
    "core-seconds",
    "core-seconds a million records",
    "read",
    "written",
    "half of the records waited at most",
    "99 % of them",
)


def cost(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
) -> Output:
    """Say what streaming and batch have cost: 0 shown, 2 nothing is known yet. Reads only."""
    settings = load_settings()
    definition = load_command_definition(settings, pipeline)
    lake = PipelineLake(settings, definition)
    path_costs = measure_costs(lake, find_agreement(lake))
    return Output(document=encode_tree(path_costs), lines=_list_cost_lines(pipeline, path_costs))


def _list_cost_lines(name: str, path_costs: PathCosts) -> Iterator[Line]:
    yield path_table(path_costs)
    if path_costs.days:
        yield _day_table(path_costs)
    if path_costs.nines:
        yield nine_table(path_costs)
        yield describe_waiting_basis(path_costs)
    yield from path_costs.notes
    yield describe_costs(name, path_costs)


def path_table(path_costs: PathCosts) -> Table:
    """Return what each path has used and how long records waited for it, side by side."""
    pairs = zip(
        _describe_rows(path_costs.streaming, path_costs.streaming_delay),
        _describe_rows(path_costs.batch, path_costs.batch_delay),
        strict=True,
    )
    return make_table(("", "streaming", "batch"), ((name, streaming, batch) for (name, streaming), (_, batch) in pairs))


def _describe_rows(total: PathTotal, delay: Delay) -> list[tuple[str, str]]:
    if not total.runs:  # of a path that never ran nothing is unknown
        return [("runs", "0"), *((name, "no run") for name in _FIGURES)]
    runs = f"{total.runs:,}" + (f" ({total.unknown_runs:,} unknown)" if total.unknown_runs else "")
    half, longest = (("unknown" if value is None else duration(value)) for value in (delay.p50, delay.p99))
    figures = (
        f"{total.records:,}",
        amount_text(total.core_seconds),
        amount_text(total.core_seconds_per_million),
        size_text(total.read_bytes),
        size_text(total.written_bytes),
        half,
        longest,
    )
    return [("runs", runs), *zip(_FIGURES, figures, strict=True)]


def _day_table(path_costs: PathCosts) -> Table:
    heads = ("day (UTC)", "stream records", "core-s", "written", "batch records", "core-s", "written")
    return make_table(heads, ((day.day, *_day_cells(day.streaming), *_day_cells(day.batch)) for day in path_costs.days))


def _day_cells(total: PathTotal) -> tuple[str, str, str]:
    if not total.runs:
        return "0", "no run", "no run"
    return f"{total.records:,}", amount_text(total.core_seconds), size_text(total.written_bytes)


def nine_table(path_costs: PathCosts) -> Table:
    """Return for each nine of agreement who holds it, and what it costs."""
    columns = ("rows agree", "may differ", "held by", "core-s a row", "or by waiting")
    return make_table(columns, map(describe_nine, path_costs.nines))


REFUSED = 1
_SHOWN = 10  # runs

Why = Annotated[str, typer.Option("--why", help="The reason; it is kept in the history.")]

app = typer.Typer(help="Which path a pipeline serves: LAMBDA, SHADOW or KAPPA.", no_args_is_help=True)
app.callback()(choose_pipeline)


@app.command()
def show(context: typer.Context) -> Output:
    """List the evidence, what is missing, and the history of moves."""
    settings, pipeline = load_chosen_definition(context)
    now = SystemClock().now()
    lake = PipelineLake(settings, pipeline)
    evidence = evidence_of.read_evidence(lake, now)
    decision = decide(current_stage(lake), evidence, "advance", pipeline.policy, now)
    decision = decision.name_pipeline(pipeline.name)
    history = read_gate_events(settings, pipeline.name)
    costs = measure_present(lake)
    gate_fields = _to_fields(pipeline, evidence, decision, history) | {"cost": encode_tree(costs)}
    return Output(document=gate_fields, lines=_list_lines(gate_fields, evidence, costs))


@app.command()
def advance(context: typer.Context, *, reason: Why) -> Output:
    """Move one stage on; rejected (exit code 1) while something is missing, with the list of it."""
    settings, name = context.obj
    pipeline = catalogue.get(settings, name)
    decision = stage.move(PipelineLake(settings, pipeline), "advance", reason, SystemClock())
    if decision.target is None:
        return _reject(pipeline, decision, f"Gate of `{pipeline.name}`: {decision.stage} is the last stage.")
    if not decision.allowed:
        text = f"Gate of `{pipeline.name}`: {decision.stage} to {decision.target} is rejected; missing:"
        hint = f"Hint: `cutover gate {pipeline.name} show` lists the evidence, and what would pass."
        return _reject(pipeline, decision, text, *(f"  - {line}" for line in decision.missing), hint)
    audits = [f"In {decision.target}: {each.detail}." for each in decision.conditions if each.name == "audit"]
    return _report_move(pipeline, decision, *audits)


@app.command()
def rollback(
    context: typer.Context,
    *,
    reason: Why,
    to: Annotated[Stage, typer.Option("--to", help="LAMBDA: batch serves again. SHADOW: from KAPPA.")] = Stage.LAMBDA,
) -> Output:
    """Let batch serve again, at once and from any stage; requires no evidence, no log and no driver."""
    settings, pipeline = load_chosen_definition(context)
    decision = stage.roll_back_stage(PipelineLake(settings, pipeline), reason, SystemClock(), back_to=to)
    if stage.stays(decision, to):
        text = f"{pipeline.name}: stays in {to}. Anything approved or started before this no longer moves it."
        return Output(document=_describe_move(pipeline, decision), lines=[text])
    if decision.target is None:
        text = f"Gate of `{pipeline.name}`: expected a stage before {decision.stage} to go back to, got {to}."
        return _reject(pipeline, decision, text)
    serves = "Batch serves the windows that it has computed" if to is Stage.LAMBDA else "Batch audits the stream again"
    return _report_move(
        pipeline, decision, f"{serves}. Next: `cutover batch {pipeline.name}` catches it up with the log."
    )


def _reject(pipeline: Pipeline, decision: GateDecision, *lines: str) -> Output:
    return Output(document=_describe_move(pipeline, decision), warnings=lines, exit_code=REFUSED)


def _report_move(pipeline: Pipeline, decision: GateDecision, *further: str) -> Output:
    unpublished = [
        f"{name}: readers of its serving table still see what it showed before; "
        f"`cutover serve-view {name}` says why, and publishes it."
        for name in decision.stale_pipelines
    ]
    return Output(
        document=_describe_move(pipeline, decision),
        lines=[f"{pipeline.name}: {decision.stage} -> {decision.target}", *further],
        warnings=unpublished,
    )


def _describe_move(pipeline: Pipeline, decision: GateDecision) -> dict[str, Any]:
    return {
        "pipeline": pipeline.name,
        "stage": decision.stage,
        "next": decision.target,
        "allowed": decision.allowed,
        "missing": decision.missing,
    }


def _to_fields(
    pipeline: Pipeline, evidence: GateEvidence, decision: GateDecision, history: Sequence[GateEvent]
) -> dict[str, Any]:
    return {
        **_describe_move(pipeline, decision),
        "conditions": [asdict(condition) for condition in decision.conditions],
        "counted": [asdict(run) for run in decision.eligible_runs],
        "expires": decision.expires,
        "differences_by_cause": evidence_of.count_rows_by_cause(decision.eligible_runs),
        "runs": len(evidence.runs),
        "own_tables": describe_own_tables(pipeline, decision.stage),
        "history": [asdict(event) | {"evidence": json.loads(event.evidence)} for event in history],
    }


def _list_lines(gate_fields: dict[str, Any], evidence: GateEvidence, costs: PathCosts | None) -> Iterator[Line]:
    following = f"next: {gate_fields['next']}" if gate_fields["next"] else "there is no stage beyond"
    yield styled((gate_fields["pipeline"], "bold"), " is in ", (gate_fields["stage"], "bold"), f"; {following}.")
    if gate_fields["own_tables"] is not None:
        yield gate_fields["own_tables"]
    if gate_fields["next"]:
        yield from _list_conditions(gate_fields["conditions"])
        yield "`advance` first compares both sides again, evaluates the checks and reads the alerts."
    causes = ", ".join(
        f"{name} {count_noun(rows, 'row')}" for name, rows in gate_fields["differences_by_cause"].items()
    )
    if gate_fields["counted"]:
        yield ""
        yield f"Differences in the runs that count: {causes or 'none'}."
    if gate_fields["expires"]:
        yield f"The oldest of these runs expires {gate_fields['expires']:%Y-%m-%d %H:%M} UTC."
    yield _tabulate_runs(evidence, {run["run_id"] for run in gate_fields["counted"]})
    yield _tabulate_history(gate_fields["history"])
    if costs is not None:
        yield ""
        yield "What both paths cost, and what each nine of agreement buys:"
        yield path_table(costs)
        if costs.nines:
            yield nine_table(costs)
            yield describe_waiting_basis(costs)
    yield describe_price(gate_fields["pipeline"], costs)


def _list_conditions(conditions: list[dict[str, Any]]) -> Iterator[Line]:
    """Yield a checklist: each condition's number and threshold, and the next step for those that are not met."""
    yield make_table(
        ("", "to advance", "is", "required", "found"),
        (
            (
                styled(("yes", "green") if condition["is_met"] else ("no", "red")),
                condition["name"],
                describe_number(condition),
                describe_threshold(condition),
                condition["detail"],
            )
            for condition in conditions
        ),
    )
    missing = [condition for condition in conditions if not condition["is_met"]]
    if missing:
        yield ""
        yield "To pass:"
    for condition in missing:
        yield f"  {condition['name']}: {condition['to_pass']}"


def _tabulate_runs(evidence: GateEvidence, eligible_ids: set[str]) -> Line:
    if not evidence.runs:
        return "No reconciliation since the last move."
    return make_table(
        ("counts", "at (UTC)", "epoch", "windows", "outcome", "run"),
        (
            (
                "yes" if run.run_id in eligible_ids else "no",
                f"{run.at:%Y-%m-%d %H:%M:%S}",
                "none" if run.epoch < 0 else run.epoch,
                f"{run.windows:,}",
                run.outcome,
                run.run_id,
            )
            for run in evidence.runs[-_SHOWN:]
        ),
    )


def _tabulate_history(rows: list[dict[str, Any]]) -> Line:
    if not rows:
        return "No move yet."
    return make_table(
        ("at (UTC)", "stage", "event", "who", "why", "evidence"),
        (
            (
                f"{row['at']:%Y-%m-%d %H:%M:%S}",
                row["stage"],
                row["event"],
                row["who"],
                row["why"],
                str(row["evidence"].get("hash", ""))[:12],
            )
            for row in rows
        ),
    )


COMMANDS = {"gate": app, "cost": cost}
