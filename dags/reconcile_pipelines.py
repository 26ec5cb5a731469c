"""Compare the streaming path of this pipeline with its batch path at the cut of a batch run, and store a report.

Runs after each update of the asset `<pipeline>_batch`. **Every** asset event gets a separate report, as a mapped task
named by its epoch, even if several events trigger one run. Triggered manually, the DAG compares at the latest cut;
the parameters `from`, `to` and `epoch` select another range or cut.

`compare` succeeds if the verdict is CONSISTENT, or EXPLAINED within the definition's policy. Otherwise it fails, and
the last lines of its log show the verdict and the report's address (also the XCom `report`). Runbooks:
docs/runbooks/DivergenceUnexplained.md for DIVERGED, docs/runbooks/LateRateHigh.md for EXPLAINED beyond the policy,
docs/runbooks/NotComparable.md for NOT_COMPARABLE. A verdict is not retried, because it would be the same.
A comparison at an older cut (a cleared or delayed task) does not replace a newer one: alerts, `latest.html` and the
gate keep the newer result, and the log says so.
An acceptable verdict updates the asset `<pipeline>_comparison`, for which other DAGs may wait before they publish.

After each comparison, whatever its verdict, `verify` evaluates the invariants of `cutover verify`. It fails if one is
violated, which its last log lines describe: docs/runbooks/InvariantBroken.md. Checks that cannot be proven are logged.
Then `scrub` verifies the content of the next files (`cutover verify --files`): docs/runbooks/TableUnreadable.md.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from dag_parts import batch_asset, comparison_asset, make_settings, pipelines

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "from": Param(None, type=["null", "string"], description="Start of the range, UTC; empty: all closed windows."),
    "to": Param(None, type=["null", "string"], description="End of the range, exclusive, UTC."),
    "epoch": Param(None, type=["null", "integer"], minimum=0, description="Epoch of the cut; empty: the latest."),
}

SETTINGS = make_settings(__doc__, retries=2, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=1))
SETTINGS["params"] = PARAMS


def reconcile_dag(pipeline: Pipeline) -> None:
    """Build the DAG that compares both paths of one pipeline."""
    asset, compared = batch_asset(pipeline.name), comparison_asset(pipeline.name)

    @dag(f"{pipeline.name}_reconcile", schedule=[asset], tags=["cutover", "reconcile", pipeline.name], **SETTINGS)
    def reconcile() -> None:
        @task(doc_md="Returns one comparison request for each batch run that triggered this run.")
        def collect_requests(**context: Any) -> list[dict[str, Any]]:
            from cutover_tasks.check_tasks import list_requests  # noqa: PLC0415 -- the task's work, loaded when it runs

            return list_requests(context["triggering_asset_events"][asset], context["params"])

        @task(map_index_template="{{ label }}", outlets=[compared], doc_md="Compares; fails on a failing verdict.")
        def compare(request: dict[str, Any], **context: Any) -> dict[str, Any]:
            from cutover_tasks.check_tasks import compare_paths, make_label  # noqa: PLC0415 -- the task's work, loaded when it runs

            get_current_context()["label"] = make_label(request)  # the template does not see `context`, which is a copy
            result = context["outlet_events"][compared].extra = compare_paths(pipeline.name, request, context)
            return result

        @task(trigger_rule="all_done", doc_md="Evaluates the invariants of the tables; fails if one is violated.")
        def verify() -> dict[str, Any]:
            from cutover_tasks.check_tasks import verify_tables  # noqa: PLC0415 -- the task's work, loaded when it runs

            return verify_tables(pipeline.name)

        @task(trigger_rule="all_done", doc_md="Verifies the content of the next files; fails if one is damaged.")
        def scrub() -> dict[str, Any]:
            from cutover_tasks.check_tasks import scrub_tables  # noqa: PLC0415 -- the task's work, loaded when it runs

            return scrub_tables(pipeline.name)

        @task(doc_md="Makes the run fail if a comparison or a check failed.")
        def settle() -> None:
            """Do nothing: Airflow derives the state of a run from its last tasks, and this one follows all others."""

        comparisons, verification, scrubbing = compare.expand(request=collect_requests()), verify(), scrub()
        comparisons >> verification >> scrubbing
        [comparisons, verification, scrubbing] >> settle()

    reconcile()


for definition in pipelines():
    reconcile_dag(definition)
