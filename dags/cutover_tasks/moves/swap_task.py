"""What the tasks of the swap DAG do: the comparison, the swap that was approved, a look at it, and the way back."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError, DefinitionError
from cutover.settings import Settings, load_settings
from cutover_tasks.moves.approval_words import NOT_MADE, as_cell, name_of_person, read_reason
from cutover_tasks.task_definitions import find_definition
from cutover_tasks.task_errors import fail_without_retries

if TYPE_CHECKING:
    from cutover.streaming.replacement.approval import SwapProposal
    from cutover.streaming.replacement.compare import StreamComparison

log = logging.getLogger("airflow.task")


def compare(pipeline: str, run: str) -> dict[str, Any]:
    """Return the swap that a comparison allows, with `text`, what was found in Markdown as a person is to see it.

    Args:
        pipeline: The changed definition.
        run: Id of the DAG run that asks.

    Raises:
        AirflowFailException: They differ in what the note does not declare, or cannot be compared.
    """
    from cutover.streaming.replacement import approval  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    with fail_without_retries():
        settings = load_settings()
        new, old = _load(settings, pipeline)
        proposal, comparison = approval.make_proposal(settings, new, old, run=run, clock=SystemClock())
    text = _describe(new, old, proposal, comparison)
    log.info("%s", text)
    return proposal.to_json() | {"text": text}


def _load(settings: Settings, pipeline: str) -> tuple[Pipeline, Pipeline]:
    """Return a changed definition, and the one that its note names."""
    new = catalogue.get(settings, pipeline)
    if new.change is None:
        msg = f"Swap to `{pipeline}`: expected a definition with `change=Change(of=...)`, got one without."
        raise DefinitionError(msg)
    return new, catalogue.get(settings, new.change.of)


def _describe(new: Pipeline, old: Pipeline, proposal: "SwapProposal", comparison: "StreamComparison") -> str:
    """Return what a person is asked to approve: every word of the note, and what was counted."""
    note = {} if new.change is None else asdict(new.change)
    lines = [(f"note: {name}", _as_text(value)) for name, value in note.items() if value and name != "of"]
    rows = [
        *lines,
        ("rows compared, none of which differs otherwise", f"{comparison.rows:,}"),
        ("rows that differ as the note declares", _as_text(comparison.declared) or "none"),
        ("rows read otherwise, other records being late", f"{comparison.otherwise:,}"),
        (
            "cut",
            (
                f"epoch {comparison.epochs[0]} of {comparison.serving}, "
                f"epoch {comparison.epochs[1]} of {comparison.beside}"
            ),
        ),
    ]
    head = f"**{old.name} is to be served by {new.name}**, comparison `{proposal.digest[:12]}`"
    return "\n".join([head, "", "| of | is |", "|---|---|", *(f"| {a} | {as_cell(b)} |" for a, b in rows)])


def _as_text(value: object) -> str:
    """Return a value of a note, or counts by kind, in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{count:,} {kind}" for kind, count in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def parse_proposal(fields: Mapping[str, Any]) -> "SwapProposal":
    """Return a proposal as `compare` handed it on, without its text."""
    from cutover.streaming.replacement.approval import SwapProposal  # noqa: PLC0415 -- as above

    return SwapProposal.from_json(fields)


def swap_approved(pipeline: str, proposal: Mapping[str, Any], answer: Mapping[str, Any] | None) -> str:
    """Make the swap that a person approved, unless it is made already; return the name that is served by it then.

    Args:
        pipeline: The changed definition.
        proposal: As `compare` returned it.
        answer: What the approving task returned: the person, and the reason that they gave.

    Raises:
        AirflowFailException: What was approved is no more, or the two differ now; the message says what.
    """
    from cutover.streaming.replacement import approval, serve, swap  # noqa: PLC0415 -- as above

    agreed, reason = parse_proposal(proposal), read_reason(answer)
    yes = approval.SwapApproval(proposal=agreed, who=name_of_person(answer))
    with fail_without_retries():
        settings = load_settings()
        new, old = _load(settings, pipeline)
        if approval.find_state(settings, agreed) is approval.SwapState.MADE:
            log.info("%s is served by %s already by this approval", old.name, new.name)
            return old.name
        try:
            swap.swap(settings, new, old, why=reason, agreed=serve.Agreed(), clock=SystemClock(), approved=yes)
        except CutoverError:  # perhaps since the try before lived on, and has made it
            if approval.find_state(settings, agreed) is not approval.SwapState.MADE:
                raise
    log.info("%s is served by %s, approved by %s: %s", old.name, new.name, yes.who, reason)
    return old.name


def verify_served(pipeline: str, name: str) -> str:
    """Check that a name is served by a pipeline, that its rows can be read and are published, and that no check fails.

    Raises:
        AirflowFailException: A check is violated, or something else serves the name.
        CutoverError: Something could not be looked at: to be tried again.
        RuntimeError: It could not be judged, or not be published yet: to be tried again.
    """
    from cutover.lake.control import swaps  # noqa: PLC0415 -- as above
    from cutover.lake.serving import serving_table, views  # noqa: PLC0415 -- as above
    from cutover.reconcile.verify.record import verify_and_record  # noqa: PLC0415 -- as above

    settings = load_settings()
    definition = find_definition(settings, pipeline)
    serves = swaps.served_by(settings, name)
    is_behind = name in serving_table.update_tables(settings, definition)
    with views.connect(settings, definition) as connection:
        rows = int(connection.execute("SELECT count(*) FROM serving").fetchall()[0][0])
    checked = verify_and_record(settings, definition)
    wrong = [f"{violation.check}: {violation.text}" for violation in checked.violations]
    if serves != pipeline:
        wrong.append(f"expected `{name}` to be served by `{pipeline}`, `{serves}` serves it")
    if wrong:
        raise AirflowFailException("\n".join(wrong))
    if checked.error or is_behind:
        raise RuntimeError(checked.error or f"the serving table of {name} could not be published yet")
    log.info("%s serves %s rows under the name %s; no check is violated", pipeline, f"{rows:,}", name)
    return f"{rows:,} rows of {pipeline} as {name}"


def put_back(pipeline: str, proposal: Mapping[str, Any] | None) -> None:
    """Let the old definition serve again, if this run's swap is the newest of its name; withdraw it if it was not made.

    Args:
        pipeline: The changed definition.
        proposal: What was put to a person; None: the comparison allowed none.

    Raises:
        AirflowSkipException: It is not.
        AirflowFailException: It is, and the old one serves: the run did not end well. Or it cannot serve: what stands
            then, and what to do.
    """
    from cutover.lake.control import swaps  # noqa: PLC0415 -- as above
    from cutover.lake.serving import serving_table  # noqa: PLC0415 -- as above
    from cutover.streaming.replacement import approval, swap  # noqa: PLC0415 -- as above

    if proposal is None:
        msg = f"Nothing to swap back: no swap to {pipeline} was proposed."
        raise AirflowSkipException(msg)
    agreed = parse_proposal(proposal)
    name = agreed.basis.of
    with fail_without_retries():
        settings = load_settings()
        approval.withdraw(settings, agreed, NOT_MADE, SystemClock())  # a task that was marked failed may still be at it
        state, serves = approval.find_state(settings, agreed), swaps.served_by(settings, name)
        if state is approval.SwapState.NEITHER or serves not in {pipeline, name}:
            msg = f"Nothing to swap back: {serves} serves {name}, and a swap of this run is not the newest one."
            raise AirflowSkipException(msg)
        old = find_definition(settings, name)
        if state is approval.SwapState.TAKEN_BACK:  # by the try before, which may have ended before the publication
            lagging = serving_table.update_tables(settings, old)
        else:
            reason, turn = "swapped back by Airflow: the swap was not verified", agreed.basis.turns[1] + 1
            try:
                swapped = swap.swap_back(settings, old, why=reason, clock=SystemClock(), who="airflow", turn=turn)[1]
            except CutoverError as error:
                msg = f"{pipeline} still serves {name}, unverified: {error}\nMend that, and clear this task."
                raise AirflowFailException(msg) from None
            lagging = swapped.behind
    note = "; its serving table follows with the next epoch" if name in lagging else ""
    msg = f"{name} serves its name again{note}. The tasks before this one say why."
    raise AirflowFailException(msg)
