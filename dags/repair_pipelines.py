"""Compute some windows of this pipeline anew by the batch path, show what would change, and publish it if asked to.

By hand alone. `windows`: the start of each window, one a line (a time without a zone is UTC); none: all that are dirty.
**A dry run unless `publish` is set**: each window is a mapped task of its own, named by its start, whose log and
XCom say which rows would change. With `publish`, once every window was looked at, those that differ are computed
together and published in one commit; then `<pipeline>_reconcile` compares both paths at that cut.

Red: refused, nothing was changed, and the last line says why: docs/runbooks/RetentionHeadroomLow.md for a window whose
records have left the log, docs/runbooks/BatchNotFresh.md while another run is under way. A red window publishes none.
To take a repair back: `cutover repair <pipeline> --undo`; what was served meanwhile stays recorded. See docs/repair.md.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from dag_parts import batch_asset, make_settings
from definitions import pipelines

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "windows": Param([], type="array", items={"type": "string"}, description="Starts of windows; none: all dirty."),
    "publish": Param(default=False, type="boolean", description="Publish what differs. Off: a dry run."),
    "why": Param("", type="string", maxLength=500, description="Kept with the repair."),
}

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=2))


def repair_dag(pipeline: Pipeline) -> None:
    """Make the DAG that repairs windows of one pipeline."""
    asset = batch_asset(pipeline.name)

    tags = ["cutover", "repair", pipeline.name]

    @dag(dag_id=f"{pipeline.name}_repair", schedule=None, tags=tags, params=PARAMS, **SETTINGS)
    def repair() -> None:
        @task(doc_md="One request for each window that was asked for.")
        def collect_windows(**context: Any) -> list[str]:
            from cutover_tasks.repair_task import collect_starts  # noqa: PLC0415 -- the task's work, loaded when it runs

            return collect_starts(pipeline.name, context["params"])

        @task(pool="spark", map_index_template="{{ window }}", doc_md="Computes a window and says what would change.")
        def look(window: str) -> dict[str, Any]:
            from cutover_tasks.repair_task import look_at  # noqa: PLC0415 -- the task's work, loaded when it runs

            get_current_context()["window"] = window or "all dirty windows"
            return look_at(pipeline.name, window)

        @task(
            pool="spark", outlets=[asset], doc_md="Publishes the windows that differ, together; skipped in a dry run."
        )
        def publish(looks: list[dict[str, Any]], **context: Any) -> dict[str, Any]:
            from cutover_tasks.repair_task import publish_windows  # noqa: PLC0415 -- the task's work, loaded when it runs

            published = publish_windows(pipeline.name, list(looks), context["params"])
            context["outlet_events"][asset].extra = published
            return published

        publish(look.expand(window=collect_windows()))

    repair()


for definition in pipelines():
    repair_dag(definition)
