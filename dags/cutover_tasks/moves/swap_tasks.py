"""Swap of a definition: propose it with its comparison, swap, verify, and swap back what cannot be verified."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.clock import SystemClock
from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError, DefinitionError
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings, load_settings
from cutover_tasks.task_parts import (
    NOT_MADE,
    fail_without_retries,
    format_cell,
    load_task_definition,
    parse_person,
    parse_reason,
)

if TYPE_CHECKING:
    from cutover.streaming.replacement.compare import StreamComparison
    from cutover.streaming.replacement.swap import SwapProposal

log = logging.getLogger("airflow.task")


def propose(pipeline: str, run: str) -> dict[str, Any]:
    """Compare a changed definition with the one that it replaces; return the proposed swap.

    Args:
        pipeline: The changed definition.
        run: Id of the DAG run.

    Returns:
        The proposal in JSON values, with the comparison in Markdown as `text`.

    Raises:
        AirflowFailException: They differ in what the note does not declare, or cannot be compared.
    """
    from cutover.streaming.replacement import swap  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        new, old = _load_both(settings, pipeline)
        proposal, comparison = swap.make_swap_proposal(settings, new, old, run=run, clock=SystemClock())
    text = _describe(new, old, proposal, comparison)
    log.info("%s", text)
    return proposal.to_json() | {"text": text}


def _load_both(settings: Settings, pipeline: str) -> tuple[Pipeline, Pipeline]:
    """Load a changed definition, and the one that its note names."""
    new = catalogue.get(settings, pipeline)
    if new.change is None:
        msg = f"Swap to `{pipeline}`: expected a definition with `change=Change(of=...)`, got one without."
        raise DefinitionError(msg)
    return new, catalogue.get(settings, new.change.of)


def _describe(new: Pipeline, old: Pipeline, proposal: "SwapProposal", comparison: "StreamComparison") -> str:
    """Describe the proposal in Markdown for the person who approves it: the whole note, and the compared rows."""
    note = {} if new.change is None else asdict(new.change)
    old_epoch, new_epoch = comparison.epochs
    rows = [
        *((f"note: {name}", _format_value(value)) for name, value in note.items() if value and name != "of"),
        ("rows compared, without undeclared differences", f"{comparison.rows:,}"),
        ("rows that differ as the note declares", _format_value(comparison.declared) or "none"),
        ("rows that differ because other records were late", f"{comparison.otherwise:,}"),
        ("cut", f"epoch {old_epoch} of {comparison.serving}, epoch {new_epoch} of {comparison.candidate}"),
    ]
    head = f"**Serve {old.name} from {new.name}**, comparison `{proposal.digest[:12]}`"
    cells = (f"| {label} | {format_cell(text)} |" for label, text in rows)
    return "\n".join([head, "", "| item | value |", "|---|---|", *cells])


def _format_value(value: object) -> str:
    """Format a value of a note, or counts by kind, as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{count:,} {kind}" for kind, count in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def apply(pipeline: str, proposal: Mapping[str, Any], answer: Mapping[str, Any] | None) -> str:
    """Make the approved swap, unless an earlier try made it; return the name under which the definition is served.

    Args:
        pipeline: The changed definition.
        proposal: Result of `propose`.
        answer: Result of the task `approve`: the person and their reason.

    Raises:
        AirflowFailException: The approved comparison is no longer valid, or undeclared differences have appeared; the
            message has the reason.
    """
    from cutover.streaming.replacement import replay, swap  # noqa: PLC0415 -- as above

    agreed, reason = swap.SwapProposal.from_json(proposal), parse_reason(answer)
    approved = swap.SwapApproval(proposal=agreed, who=parse_person(answer))
    with fail_without_retries():
        settings = load_settings()
        new, old = _load_both(settings, pipeline)
        if swap.find_state(settings, agreed) is swap.SwapState.MADE:
            log.info("%s was swapped to %s by this approval already", old.name, new.name)
            return old.name
        try:
            swap.swap_definition(
                settings, new, old, reason=reason, agreed=replay.Agreed(), clock=SystemClock(), approved=approved
            )
        except CutoverError:  # an earlier try may still have been running, and have made the swap
            if swap.find_state(settings, agreed) is not swap.SwapState.MADE:
                raise
    log.info("%s is served by %s, approved by %s: %s", old.name, new.name, approved.who, reason)
    return old.name


def verify(pipeline: str, name: str) -> str:
    """Verify that a pipeline serves a name, that its rows can be read and are published, and that no check is violated.

    Raises:
        AirflowFailException: A check is violated, or another pipeline serves the name.
        CutoverError: A table or the log could not be read; Airflow retries.
        RuntimeError: The checks could not be evaluated, or the rows are not published yet; Airflow retries.
    """
    from cutover.lake.control import served  # noqa: PLC0415 -- as above
    from cutover.lake.serving import serving_table, views  # noqa: PLC0415 -- as above
    from cutover.reconcile.verify.record import verify_and_record  # noqa: PLC0415 -- as above

    settings = load_settings()
    definition = load_task_definition(settings, pipeline)
    serving_pipeline = served.served_by(settings, name)
    lake = PipelineLake(settings, definition)
    is_behind = name in serving_table.update_tables(lake)
    with views.open_views(lake) as connection:
        rows = int(connection.execute("SELECT count(*) FROM serving").fetchall()[0][0])
    verification = verify_and_record(lake)
    problems = [f"{violation.check}: {violation.text}" for violation in verification.violations]
    if serving_pipeline != pipeline:
        problems.append(f"expected `{name}` to be served by `{pipeline}`, `{serving_pipeline}` serves it")
    if problems:
        raise AirflowFailException("\n".join(problems))
    if verification.error or is_behind:
        raise RuntimeError(verification.error or f"the serving table of {name} could not be published yet")
    log.info("%s serves %s rows under the name %s; no check is violated", pipeline, f"{rows:,}", name)
    return f"{count_noun(rows, 'row')} of {pipeline} as {name}"


def undo(pipeline: str, proposal: Mapping[str, Any] | None) -> None:
    """Serve the old definition again if this run's swap is the latest of the name; withdraw a swap that was not made.

    Args:
        pipeline: The changed definition.
        proposal: Result of `propose`; None if the comparison failed.

    Raises:
        AirflowSkipException: This run made no swap, or it is not the latest one.
        AirflowFailException: The old definition is served again, so the run must not end as a success. Or it cannot
            be served: the message has the reason and the next step.
    """
    from cutover.lake.control import served  # noqa: PLC0415 -- as above
    from cutover.lake.serving import serving_table  # noqa: PLC0415 -- as above
    from cutover.streaming.replacement import swap  # noqa: PLC0415 -- as above

    if proposal is None:
        msg = f"Nothing to swap back: no swap to {pipeline} was proposed."
        raise AirflowSkipException(msg)
    agreed = swap.SwapProposal.from_json(proposal)
    name = agreed.basis.of
    with fail_without_retries():
        settings = load_settings()
        swap.withdraw_swap(settings, agreed, NOT_MADE, SystemClock())  # a task marked as failed may still be running
        state, serving_pipeline = swap.find_state(settings, agreed), served.served_by(settings, name)
        if state is swap.SwapState.NEITHER or serving_pipeline not in {pipeline, name}:
            msg = f"Nothing to swap back: {serving_pipeline} serves {name}, "
            raise AirflowSkipException(msg + "and a swap of this run is not the latest one.")
        old = load_task_definition(settings, name)
        lake = PipelineLake(settings, old)
        if state is swap.SwapState.TAKEN_BACK:  # by an earlier try, which may have ended before the publication
            lagging = serving_table.update_tables(lake)
        else:
            reason, turn = "swapped back by Airflow: the swap was not verified", agreed.basis.turns[1] + 1
            try:
                swap_result = swap.swap_back(lake, reason=reason, clock=SystemClock(), author="airflow", turn=turn)
            except CutoverError as error:
                msg = f"{pipeline} still serves {name}, unverified: {error}\nResolve that, and clear this task."
                raise AirflowFailException(msg) from None
            lagging = swap_result[1].stale_pipelines
    note = "; its serving table follows with the next epoch" if name in lagging else ""
    msg = f"{name} serves its name again{note}. The logs of the tasks before this one have the reason."
    raise AirflowFailException(msg)
