"""How a run of the cutover DAG ends: a look at what is served after the move, and the way back."""

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cutover.clock import SystemClock
from cutover.settings import load_settings
from cutover_tasks.moves.approval_words import NOT_MADE
from cutover_tasks.moves.cutover_task import parse_proposal
from cutover_tasks.task_definitions import find_definition
from cutover_tasks.task_errors import fail_without_retries

log = logging.getLogger("airflow.task")


def verify_served(pipeline: str, stage: str) -> str:
    """Check that the stage is the one that was moved to, that what it serves can be read, and that nothing speaks up.

    Raises:
        AirflowFailException: Says what is wrong.
    """
    from cutover.lake.control.stages import current_stage  # noqa: PLC0415 -- brings duckdb: only where a task runs
    from cutover.lake.serving import views  # noqa: PLC0415 -- as above
    from cutover.reconcile.verify.record import verify_and_record  # noqa: PLC0415 -- as above

    with fail_without_retries():
        settings = load_settings()
        definition = find_definition(settings, pipeline)
        now = str(current_stage(settings, definition))
        with views.connect(settings, definition) as connection:
            rows = int(connection.execute("SELECT count(*) FROM serving").fetchall()[0][0])
        checked = verify_and_record(settings, definition)
    wrong = [f"{violation.check}: {violation.text}" for violation in checked.violations] + (
        [checked.error] if checked.error else []
    )
    if now != stage:
        wrong.append(f"expected stage {stage}, it is {now}")
    if wrong:
        raise AirflowFailException("\n".join(wrong))
    log.info("%s serves %s rows in %s; no check is violated", pipeline, f"{rows:,}", now)
    return f"{rows:,} rows in {now}"


def put_back(pipeline: str, proposal: Mapping[str, Any] | None) -> None:
    """Put the stage back where it was before the move, if this run made one; withdraw what it proposed otherwise.

    Args:
        pipeline: Its name.
        proposal: What was put to a person; None: the evidence did not suffice for one.

    Raises:
        AirflowSkipException: It made none.
        AirflowFailException: It did, and the stage is back: the run did not end well.
    """
    from cutover.lake.control.stages import Stage  # noqa: PLC0415 -- as above
    from cutover.reconcile.gate import approval, stage  # noqa: PLC0415 -- as above

    if proposal is None:
        msg = f"Nothing to put back: no move of {pipeline} was proposed."
        raise AirflowSkipException(msg)
    agreed = parse_proposal(proposal)
    with fail_without_retries():
        settings = load_settings()
        stage.withdraw(settings, agreed, NOT_MADE, SystemClock())  # a task that was marked failed may still be at it
        if not approval.has_moved(settings, agreed):
            msg = f"Nothing to put back: {pipeline} was not moved."
            raise AirflowSkipException(msg)
        reason = "rolled back by Airflow: what is served was not in order after the move"
        definition = find_definition(settings, pipeline)
        stage.roll_back(settings, definition, reason, SystemClock(), back_to=Stage(agreed.stage))
    msg = f"{pipeline} is back in {agreed.stage}: `verify_move` says why."
    raise AirflowFailException(msg)
