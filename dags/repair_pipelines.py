"""Recompute selected windows of this pipeline with the batch path, show what would change, and optionally publish it.

Trigger this DAG manually. `windows` lists the start of each window, one per line (UTC if no zone is given); if it is
empty, all dirty windows are selected. **A dry run unless `publish` is set**: a mapped task `preview` per window, named
by the window's start, shows in its log and XCom which rows would change. With `publish`, after all previews have
succeeded, the windows that differ are recomputed together and published in one commit, and `<pipeline>_reconcile`
compares both paths at that cut.

Failed: nothing was changed, and the last line of the log has the reason: docs/runbooks/RetentionHeadroomLow.md if
records of a window have left the log, docs/runbooks/BatchNotFresh.md if another run is active. If one preview fails,
no window is published.
Undo a repair with `cutover repair <pipeline> --undo`; the rows served meanwhile remain in the history: docs/repair.md.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from dag_parts import batch_asset, make_settings, pipelines

from cutover.definition.model.pipeline import Pipeline

PARAMS = {
    "windows": Param([], type="array", items={"type": "string"}, description="Starts of windows; empty: all dirty."),
    "publish": Param(default=False, type="boolean", description="Publish the windows that differ. Off: a dry run."),
    "why": Param("", type="string", maxLength=500, description="Reason, recorded with the repair."),
}

SETTINGS = make_settings(__doc__, retry_delay=timedelta(seconds=30), timeout=timedelta(hours=2))


def repair_dag(pipeline: Pipeline) -> None:
    """Build the DAG that repairs windows of one pipeline."""
    asset = batch_asset(pipeline.name)

    tags = ["cutover", "repair", pipeline.name]

    @dag(dag_id=f"{pipeline.name}_repair", schedule=None, tags=tags, params=PARAMS, **SETTINGS)
    def repair() -> None:
        @task(doc_md="Returns the start of each requested window.")
        def collect_windows(**context: Any) -> list[str]:
            from cutover_tasks.batch_tasks import collect_starts  # noqa: PLC0415 -- the task's work, loaded when it runs

            return collect_starts(pipeline.name, context["params"])

        @task(pool="spark", map_index_template="{{ window }}", doc_md="Recomputes a window and shows its changes.")
        def preview(window: str) -> dict[str, Any]:
            from cutover_tasks.batch_tasks import preview_window  # noqa: PLC0415 -- the task's work, loaded when it runs

            get_current_context()["window"] = window or "all dirty windows"
            return preview_window(pipeline.name, window)

        @task(
            pool="spark",
            outlets=[asset],
            doc_md="Publishes windows that differ in one commit; skipped in a dry run.",
        )
        def publish(previews: list[dict[str, Any]], **context: Any) -> dict[str, Any]:
            from cutover_tasks.batch_tasks import publish_windows  # noqa: PLC0415 -- the task's work, loaded when it runs

            published = publish_windows(pipeline.name, list(previews), context["params"])
            context["outlet_events"][asset].extra = published
            return published

        publish(preview.expand(window=collect_windows()))

    repair()


for definition in pipelines():
    repair_dag(definition)
