"""What the task of the rollback DAG does: one move back, with the person and the reason, made once for each run."""

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from cutover.clock import SystemClock
from cutover.settings import load_settings
from cutover_tasks.task_definitions import find_definition
from cutover_tasks.task_errors import fail_without_retries

if TYPE_CHECKING:
    from cutover.lake.journal_rows import GateEvent

log = logging.getLogger("airflow.task")


def move_back_to(pipeline: str, params: Mapping[str, Any], run_id: str, author: str | None) -> str:
    """Move a pipeline back, or leave it where that is, and return the stage that it is in then.

    Args:
        pipeline: Its name.
        params: `why`, and `to`: the stage.
        run_id: Of the DAG run; a move that it has made is not made again.
        author: Airflow's name of the person; None: it knows none.

    Raises:
        AirflowFailException: There is no way back from here to that stage, or no reason was given.
    """
    from cutover.lake.control.stages import Stage, read_events  # noqa: PLC0415 -- brings duckdb: only where a task runs
    from cutover.reconcile.gate import stage  # noqa: PLC0415 -- as above

    with fail_without_retries():
        settings = load_settings()
        definition, target = find_definition(settings, pipeline), Stage(str(params.get("to") or "LAMBDA"))
        events_of_run = [event for event in read_events(settings, pipeline) if _is_of_run(event, run_id)]
        if events_of_run:
            log.info("%s was in %s by this run", pipeline, events_of_run[-1].stage)
            return events_of_run[-1].stage
        reason, clock = str(params.get("why") or ""), SystemClock()
        evidence: dict[str, Any] = {"because": {"run": run_id}, "who": f"airflow:{author or 'unknown'}"}
        decision = stage.roll_back(settings, definition, reason, clock, back_to=target, **evidence)
    if stage.stays(decision, target):
        log.info("%s stays in %s: %s; a move that had begun cannot be made now", pipeline, target, reason)
        return str(target)
    if decision.target is None:
        msg = f"{pipeline} stays in {decision.stage}: there is no way back from it to {target}."
        raise AirflowFailException(msg)
    log.info("%s: %s to %s: %s", pipeline, decision.stage, decision.target, reason)
    return str(decision.target)


def _is_of_run(event: "GateEvent", run_id: str) -> bool:
    because = json.loads(event.evidence).get("because") or {}
    return bool(because.get("run") == run_id)
