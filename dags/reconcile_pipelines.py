"""Compare the streaming path of this pipeline with its batch path, at the cut of a batch run, and store a report.

Runs whenever `<pipeline>_batch` published: **every** triggering event gets a report of its own, as a mapped task named
by its epoch, even if several events arrive in one run. Triggered by hand, it compares at the newest cut; parameters
`from`, `to` and `epoch` choose.

Green: CONSISTENT, or EXPLAINED within the definition's policy. Red: the verdict is the last line of the log, with the
report's address (also the XCom `report`). What to do: docs/runbooks/DivergenceUnexplained.md for DIVERGED,
docs/runbooks/LateRateHigh.md for EXPLAINED beyond the policy, docs/runbooks/NotComparable.md for NOT_COMPARABLE.
A verdict is not tried again: it would be the same. A task that is cleared, or that ends late, speaks for its own cut
alone: it changes neither alerts nor `latest.html` nor what the gate knows of a newer one, and its log says so.

After each comparison, whatever it said, `verify` judges what must hold in any case (`cutover verify`). Red: a check is
violated, which stands in the last lines of its log; docs/runbooks/InvariantBroken.md. What cannot be proven is logged.
Then `scrub` checks the bytes of the next listed files (`cutover verify --files`); docs/runbooks/TableUnreadable.md.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from dag_parts import batch_asset, make_settings
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "from": Param(None, type=["null", "string"], description="Start of the range, UTC; empty: all closed windows."),
    "to": Param(None, type=["null", "string"], description="End of the range, exclusive, UTC."),
    "epoch": Param(None, type=["null", "integer"], minimum=0, description="Epoch of the cut; empty: the newest."),
}

SETTINGS = make_settings(__doc__, retries=2, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=1))


def reconcile_dag(pipeline: Pipeline) -> None:
    """Make the DAG that compares both paths of one pipeline."""
    asset = batch_asset(pipeline.name)

    tags = ["cutover", "reconcile", pipeline.name]

    @dag(dag_id=f"{pipeline.name}_reconcile", schedule=[asset], tags=tags, params=PARAMS, **SETTINGS)
    def reconcile() -> None:
        @task(doc_md="One request for each batch run that triggered this run.")
        def collect_requests(**context: Any) -> list[dict[str, Any]]:
            from cutover_tasks.reconcile_task import requests  # noqa: PLC0415 -- the task's work, loaded when it runs

            return requests(context["triggering_asset_events"][asset], context["params"])

        @task(map_index_template="{{ label }}", doc_md="Compares both paths at one cut; a failing verdict fails it.")
        def compare(request: dict[str, Any], **context: Any) -> dict[str, Any]:
            from cutover_tasks.reconcile_task import label, report  # noqa: PLC0415 -- the task's work, loaded when it runs

            get_current_context()["label"] = label(request)  # `context` is a copy, which the template does not see
            return report(pipeline.name, request, context)

        @task(trigger_rule="all_done", doc_md="Judges what must hold whatever happened; a violated check fails it.")
        def verify() -> dict[str, Any]:
            from cutover_tasks.check_task import verify  # noqa: PLC0415 -- the task's work, loaded when it runs

            return verify(pipeline.name)

        @task(trigger_rule="all_done", doc_md="Checks the bytes of the next listed files; a damaged one fails it.")
        def scrub() -> dict[str, Any]:
            from cutover_tasks.check_task import scrub  # noqa: PLC0415 -- the task's work, loaded when it runs

            return scrub(pipeline.name)

        @task(doc_md="Red if a comparison or a check is: a run's last task says how the run ended.")
        def settle() -> None:
            """Do nothing of its own."""

        compared, checked, files = compare.expand(request=collect_requests()), verify(), scrub()
        compared >> checked >> files
        [compared, checked, files] >> settle()

    reconcile()


for definition in pipelines():
    reconcile_dag(definition)
