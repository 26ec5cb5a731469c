"""What the tasks of the cutover DAG do: the evidence, and the move that was approved."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.settings import load_settings
from cutover_tasks.moves.approval_words import as_cell, name_of_person, read_reason
from cutover_tasks.task_errors import fail_without_retries

if TYPE_CHECKING:
    from cutover.reconcile.gate.approval import Proposal
    from cutover.reconcile.gate.gate_values import Condition

log = logging.getLogger("airflow.task")


def collect(pipeline: str) -> dict[str, Any]:
    """Return the move that the gate allows, with `text`, the evidence in Markdown as a person is to see it.

    Raises:
        AirflowFailException: Something is missing; the message lists it.
    """
    from cutover.reconcile.gate import approval  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        decision, proposal = approval.make_proposal(settings, catalogue.get(settings, pipeline), SystemClock())
    if proposal is None:
        reason = "there is no stage beyond" if decision.target is None else "; ".join(decision.missing)
        msg = f"{pipeline} stays in {decision.stage}: {reason}.\n`cutover gate {pipeline} show` lists the evidence."
        raise AirflowFailException(msg)
    rows = [
        f"| {condition.name} | {_numbers(condition)} | {as_cell(condition.detail)} |"
        for condition in decision.conditions
    ]
    head = f"**{pipeline}: {proposal.stage} to {proposal.target}**, evidence `{proposal.digest[:12]}`"
    text = "\n".join([head, "", "| asked for | is, asked | found |", "|---|---|---|", *rows])
    log.info("%s", text)
    return asdict(proposal) | {"text": text}


def parse_proposal(fields: Mapping[str, Any]) -> "Proposal":
    """Return a proposal as `collect` handed it on, without its text."""
    from cutover.reconcile.gate import approval  # noqa: PLC0415 -- as above

    return approval.parse({name: value for name, value in fields.items() if name != "text"})


def _numbers(condition: "Condition") -> str:
    """Return a condition's number and its threshold as one cell."""
    from cutover.reconcile.gate.condition_text import describe_number, describe_threshold  # noqa: PLC0415 -- as above

    fields = asdict(condition)
    return as_cell(f"{describe_number(fields)}, {describe_threshold(fields)}")


def move_on(pipeline: str, proposal: Mapping[str, Any], answer: Mapping[str, Any] | None) -> str:
    """Make the move that a person approved, unless it is made already; return the stage that is served then.

    Args:
        pipeline: Its name.
        proposal: As `collect` returned it.
        answer: What the approving task returned: the person, and the reason that they gave.

    Raises:
        AirflowFailException: What was approved is no more, or the gate refuses now; the message says what.
    """
    from cutover.reconcile.gate import approval, stage  # noqa: PLC0415 -- as above

    with fail_without_retries():
        settings = load_settings()
        agreed = parse_proposal(proposal)
        if approval.has_moved(settings, agreed):
            log.info("%s is in %s already by this approval", pipeline, agreed.target)
            return agreed.target
        yes, reason = approval.Approval(proposal=agreed, who=name_of_person(answer)), read_reason(answer)
        definition = catalogue.get(settings, pipeline)
        decision = stage.move(settings, definition, "advance", reason, SystemClock(), approved=yes)
    if not decision.allowed:
        raise AirflowFailException(f"{pipeline} stays in {decision.stage}: " + "; ".join(decision.missing))
    log.info("%s: %s to %s, approved by %s: %s", pipeline, decision.stage, decision.target, yes.who, reason)
    return str(decision.target)
