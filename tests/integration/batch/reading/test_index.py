"""On which earlier runs the next one builds. No Spark: runs are written as the batch path writes them."""

from dataclasses import replace
from pathlib import Path

from cutover.batch.read import index
from cutover.definition import Pipeline, Sql
from cutover.definition.compile.fingerprint import batch_fingerprint
from cutover.lake import batch_runs
from cutover.lake.tables.run_memory import read_once
from cutover.log.cut import LogId
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, write_run

RUN = lake_of([Sale()]).run
LOG = LogId(cluster_id=RUN.cluster_id, topic=RUN.topic, topic_id=RUN.topic_id)


def ran(settings: Settings, *pipelines: Pipeline) -> None:
    """Record one run after another, each under its own definition of the batch side."""
    for number, pipeline in enumerate(pipelines):
        fingerprint = batch_fingerprint(pipeline)
        run = replace(
            RUN, run_id=f"batch-{number}", batch_fingerprint=fingerprint, finished=f"2026-01-0{number + 1}T00:00:00Z"
        )
        write_run(settings, run, pipeline)


def built_on(settings: Settings, pipeline: Pipeline) -> list[str]:
    return [run.run_id for run in index.load(settings, pipeline, LOG).runs]


def test_a_run_builds_on_all_runs_before_it(settings: Settings) -> None:
    ran(settings, PIPELINE, PIPELINE)

    assert built_on(settings, PIPELINE) == ["batch-0", "batch-1"]


def test_another_sql_builds_on_nothing(settings: Settings, tmp_path: Path) -> None:
    ran(settings, PIPELINE)

    assert built_on(settings, _with_sql(tmp_path)) == []


def test_going_back_to_an_earlier_sql_does_not_build_on_its_old_runs(settings: Settings, tmp_path: Path) -> None:
    other = _with_sql(tmp_path)
    ran(settings, PIPELINE, other, PIPELINE)

    assert built_on(settings, other) == []
    assert built_on(settings, PIPELINE) == ["batch-2"]


def test_a_run_that_was_recorded_meanwhile_is_read_with_those_before_it(settings: Settings) -> None:
    with read_once():
        for count in (1, 2):
            ran(settings, *[PIPELINE] * count)
            for _ in range(2):
                found = batch_runs.recorded_runs(settings, PIPELINE)
                assert {run.run_id for run in found} == {f"batch-{number}" for number in range(count)}
                found.clear()


def _with_sql(folder: Path) -> Pipeline:
    (folder / "team.sql").write_text("SELECT 1")
    return replace(PIPELINE, batch=Sql("team.sql"), file=folder / "sales.py")
