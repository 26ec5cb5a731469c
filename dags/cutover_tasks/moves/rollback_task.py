"""Task of the rollback DAG: one move back, recorded with the person and the reason, and made once per run."""

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from cutover.clock import SystemClock
from cutover.definition.model.policy import Stage
from cutover.pipeline_lake import PipelineLake
from cutover.settings import load_settings
from cutover_tasks.task_parts import fail_without_retries, load_task_definition

if TYPE_CHECKING:
    from cutover.lake.journal_rows import GateEvent

log = logging.getLogger("airflow.task")


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
