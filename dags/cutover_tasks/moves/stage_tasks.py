"""Moves between stages: advance by one with its evidence and verify or undo it; roll back once per run of the DAG."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.clock import SystemClock
from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.definition.model.policy import Stage
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover_tasks.task_parts import (
    NOT_MADE,
    fail_without_retries,
    format_cell,
    load_task_definition,
    parse_person,
    parse_reason,
)

if TYPE_CHECKING:
    from cutover.lake.journal_rows import GateEvent
    from cutover.reconcile.gate.gate_values import Condition

log = logging.getLogger("airflow.task")


def propose(pipeline: str, run: str) -> dict[str, Any]:  # noqa: ARG001 -- every kind of change takes the run
    """Collect the evidence for the next stage; return the proposed move, with the evidence in Markdown as `text`.

    Raises:
        AirflowFailException: A condition of the gate is not met; the message lists all missing ones.
    """
    from cutover.reconcile.gate import stage  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        decision, proposal = stage.make_stage_proposal(
            PipelineLake(settings, catalogue.get(settings, pipeline)), SystemClock()
        )
    if proposal is None:
        reason = "it is the last stage" if decision.target is None else "; ".join(decision.missing)
        msg = f"{pipeline} stays in {decision.stage}: {reason}.\n`cutover gate {pipeline} show` lists the evidence."
        raise AirflowFailException(msg)
    rows = [
        f"| {condition.name} | {_format_numbers(condition)} | {format_cell(condition.detail)} |"
        for condition in decision.conditions
    ]
    head = f"**{pipeline}: {proposal.stage} to {proposal.target}**, evidence `{proposal.digest[:12]}`"
    text = "\n".join([head, "", "| condition | value, threshold | detail |", "|---|---|---|", *rows])
    log.info("%s", text)
    return proposal.to_json() | {"text": text}


def _format_numbers(condition: "Condition") -> str:
    """Format a condition's value and its threshold as one cell."""
    from cutover.reconcile.gate.criteria import describe_number, describe_threshold  # noqa: PLC0415 -- as above

    fields = asdict(condition)
    return format_cell(f"{describe_number(fields)}, {describe_threshold(fields)}")


def apply(pipeline: str, proposal: Mapping[str, Any], answer: Mapping[str, Any] | None) -> str:
    """Make the approved move, unless an earlier try made it; return the stage after the move.

    Args:
        pipeline: Name of the pipeline.
        proposal: Result of `propose`.
        answer: Result of the task `approve`: the person and their reason.

    Raises:
        AirflowFailException: The approved evidence changed, or the gate no longer allows the move; the message has
            the reason.
    """
    from cutover.reconcile.gate import stage  # noqa: PLC0415 -- as above

    with fail_without_retries():
        settings = load_settings()
        agreed = stage.StageProposal.from_json(proposal)
        if stage.is_applied(settings, agreed):
            log.info("%s was moved to %s by this approval already", pipeline, agreed.target)
            return agreed.target
        person, reason = parse_person(answer), parse_reason(answer)
        approved = stage.StageApproval(proposal=agreed, who=person)
        definition = catalogue.get(settings, pipeline)
        decision = stage.move(PipelineLake(settings, definition), "advance", reason, SystemClock(), approved=approved)
    if not decision.allowed:
        raise AirflowFailException(f"{pipeline} stays in {decision.stage}: " + "; ".join(decision.missing))
    log.info("%s: %s to %s, approved by %s: %s", pipeline, decision.stage, decision.target, person, reason)
    return str(decision.target)


def verify(pipeline: str, stage: str) -> str:
    """Verify that the pipeline is in the new stage, that its rows can be read, and that no check is violated.

    Raises:
        AirflowFailException: One of these does not hold; the message lists all problems.
    """
    from cutover.lake.control.served import current_stage  # noqa: PLC0415 -- brings duckdb: only where a task runs
    from cutover.lake.serving import views  # noqa: PLC0415 -- as above
    from cutover.reconcile.verify.record import verify_and_record  # noqa: PLC0415 -- as above

    with fail_without_retries():
        settings = load_settings()
        definition = load_task_definition(settings, pipeline)
        lake = PipelineLake(settings, definition)
        served_stage = str(current_stage(lake))
        with views.open_views(lake) as connection:
            rows = int(connection.execute("SELECT count(*) FROM serving").fetchall()[0][0])
        verification = verify_and_record(lake)
    problems = [f"{violation.check}: {violation.text}" for violation in verification.violations]
    if verification.error:
        problems.append(verification.error)
    if served_stage != stage:
        problems.append(f"expected stage {stage}, got {served_stage}")
    if problems:
        raise AirflowFailException("\n".join(problems))
    log.info("%s serves %s rows in %s; no check is violated", pipeline, f"{rows:,}", served_stage)
    return f"{count_noun(rows, 'row')} in {served_stage}"


def undo(pipeline: str, proposal: Mapping[str, Any] | None) -> None:
    """Return the pipeline to the stage before this run's move; withdraw the proposal if the move was not made.

    Args:
        pipeline: Name of the pipeline.
        proposal: Result of `propose`; None if the evidence was insufficient.

    Raises:
        AirflowSkipException: This run made no move.
        AirflowFailException: The stage was rolled back, so the run must not end as a success.
    """
    from cutover.definition.model.policy import Stage  # noqa: PLC0415 -- as above
    from cutover.reconcile.gate import stage  # noqa: PLC0415 -- as above

    if proposal is None:
        msg = f"Nothing to roll back: no move of {pipeline} was proposed."
        raise AirflowSkipException(msg)
    agreed = stage.StageProposal.from_json(proposal)
    with fail_without_retries():
        settings = load_settings()
        stage.withdraw_move(settings, agreed, NOT_MADE, SystemClock())  # a task marked as failed may still be running
        if not stage.is_applied(settings, agreed):
            msg = f"Nothing to roll back: {pipeline} was not moved."
            raise AirflowSkipException(msg)
        reason = "rolled back by Airflow: the served rows could not be verified after the move"
        definition = load_task_definition(settings, pipeline)
        stage.roll_back_stage(PipelineLake(settings, definition), reason, SystemClock(), back_to=Stage(agreed.stage))
    msg = f"{pipeline} is back in {agreed.stage}. The log of `verify` has the reason."
    raise AirflowFailException(msg)


def move_back_to(pipeline: str, params: Mapping[str, Any], run_id: str, author: str | None) -> str:
    """Move a pipeline back to a stage, unless it is in this stage already; return the stage after the move.

    Args:
        pipeline: Name of the pipeline.
        params: `why`, and `to`: the stage.
        run_id: Id of the DAG run; a run moves the pipeline at most once.
        author: Airflow's name of the person; None if unknown.

    Raises:
        AirflowFailException: The current stage cannot be rolled back to `to`, or no reason was given.
    """
    from cutover.lake.control.served import read_gate_events  # noqa: PLC0415 -- brings duckdb: only where a task runs
    from cutover.reconcile.gate import stage  # noqa: PLC0415 -- as above

    with fail_without_retries():
        settings = load_settings()
        definition, target = load_task_definition(settings, pipeline), Stage(str(params.get("to") or "LAMBDA"))
        events_of_run = [event for event in read_gate_events(settings, pipeline) if _is_of_run(event, run_id)]
        if events_of_run:
            log.info("%s was moved to %s by this run already", pipeline, events_of_run[-1].stage)
            return events_of_run[-1].stage
        reason, clock = str(params.get("why") or ""), SystemClock()
        decision = stage.roll_back_stage(
            PipelineLake(settings, definition),
            reason,
            clock,
            back_to=target,
            because={"run": run_id},
            actor=f"airflow:{author or 'unknown'}",
        )
    if stage.stays(decision, target):
        log.info("%s stays in %s: %s; pending proposals are invalidated", pipeline, target, reason)
        return str(target)
    if decision.target is None:
        msg = f"{pipeline} stays in {decision.stage}: it cannot be rolled back to {target}."
        raise AirflowFailException(msg)
    log.info("%s: %s to %s: %s", pipeline, decision.stage, decision.target, reason)
    return str(decision.target)


def _is_of_run(event: "GateEvent", run_id: str) -> bool:
    cause = json.loads(event.evidence).get("because") or {}
    return bool(cause.get("run") == run_id)
