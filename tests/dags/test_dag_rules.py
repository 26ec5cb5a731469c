"""Rules that every DAG of this project keeps, over the whole DagBag, without a server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.lake.recorded_definitions import record_definition
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
PATHS = ("audit", "batch", "cutover", "reconcile", "repair", "rollback", "stream")
HEAVY = ("pyspark", "deltalake", "delta", "great_expectations", "confluent_kafka")
GOOD = """
from cutover.definition import Count, Fixed, Pipeline, Topic
made = Pipeline(
    name="{name}", source=Topic(name="{name}", schema="k string, at timestamp", event_time="at"),
    key=("k",), window=Fixed(hours=1), measures={{"n": Count()}}, schedule="@daily",
)
"""


def parse(pipelines: Path, script: str) -> "Any":
    """Parse the DAG folder in a separate process and return the script's output."""
    environment = {**os.environ, "CUTOVER_PIPELINES": str(pipelines)}
    head = (
        "import json, sys\nfrom pathlib import Path\nfrom airflow.dag_processing.dagbag import DagBag\n"
        f"folder = Path({str(DAGS)!r})\nsys.path.append(str(folder))\n"
        "bag = DagBag(dag_folder=str(folder), bundle_path=folder, bundle_name='dags-folder')\n"
    )
    command = [sys.executable, "-c", head + script]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert completed.returncode == 0, completed.stderr[-2000:]
    return json.loads(completed.stdout.splitlines()[-1])


def test_every_dag_file_loads(bag: "DagBag") -> None:
    assert bag.import_errors == {}


def test_flights_has_the_documented_dags(bag: "DagBag") -> None:
    assert {f"flights_{path}" for path in PATHS} <= set(bag.dag_ids)


def test_further_samples_have_no_dags_until_somebody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path))
    script = (
        "from cutover.infra.airflow import instance\nfrom cutover.settings import load_settings\n"
        "def list_pipelines(bag): return sorted({i.rpartition('_')[0] for i in bag.dag_ids})\n"
        "before = list_pipelines(bag)\ninstance.turn_on_samples(load_settings(), ['ad_views'])\n"
        "bag = DagBag(dag_folder=str(folder), bundle_path=folder, bundle_name='dags-folder')\n"
        "print(json.dumps([before, list_pipelines(bag)]))"
    )

    assert parse(ROOT / "pipelines", script) == [["flights"], ["ad_views", "flights"]]


def test_every_dag_has_words_for_the_person_on_call(bag: "DagBag") -> None:
    for dag in bag.dags.values():
        assert dag.doc_md, dag.dag_id
        assert "docs/runbooks/" in dag.doc_md, dag.dag_id


def test_every_runbook_that_a_dag_names_exists(bag: "DagBag") -> None:
    words = " ".join(str(dag.doc_md) for dag in bag.dags.values()).replace("`", " ").split()
    runbooks = {word.strip(".,;:()*") for word in words if "docs/runbooks/" in word}

    assert sorted(runbooks) == sorted(name for name in runbooks if (ROOT / name).is_file())


def test_every_dag_is_tagged_with_its_path_and_pipeline(bag: "DagBag") -> None:
    for dag in bag.dags.values():
        pipeline, path = dag.dag_id.rsplit("_", 1)
        assert {"cutover", path, pipeline} == set(dag.tags)


def test_every_dag_runs_once_at_a_time_and_never_catches_up(bag: "DagBag") -> None:
    assert {(dag.max_active_runs, dag.catchup) for dag in bag.dags.values()} == {(1, False)}


def test_every_task_has_owner_retries_timeout_and_words(bag: "DagBag") -> None:
    for dag in bag.dags.values():
        for task in dag.tasks:
            assert task.owner == "cutover", task
            assert task.retries > 0, task
            assert task.retry_delay.total_seconds() > 0, task
            assert task.execution_timeout is not None, task
            assert task.doc_md, task


def test_spark_task_waits_for_the_only_slot(bag: "DagBag") -> None:
    pools = {dag.dag_id.rsplit("_", 1)[1]: {task.pool for task in dag.tasks} for dag in bag.dags.values()}

    assert pools == {
        "audit": {"default_pool", "spark"},
        "batch": {"spark"},
        "cutover": {"default_pool", "spark"},
        "reconcile": {"default_pool"},
        "repair": {"default_pool", "spark"},
        "rollback": {"default_pool"},
        "stream": {"default_pool"},
    }


def test_stream_starts_by_hand_alone(bag: "DagBag") -> None:
    assert bag.dags["flights_stream"].timetable.can_be_scheduled is False


def test_batch_announces_and_reconcile_listens_to_one_asset(bag: "DagBag") -> None:
    announced = [asset.name for task in bag.dags["flights_batch"].tasks for asset in task.outlets]
    heard = [asset.name for asset in bag.dags["flights_reconcile"].timetable.asset_condition.objects]

    assert announced == heard == ["flights_batch"]


def test_comparison_announces_an_acceptable_verdict(bag: "DagBag") -> None:
    outlets = {task.task_id: [asset.name for asset in task.outlets] for task in bag.dags["flights_reconcile"].tasks}

    assert outlets.pop("compare") == ["flights_comparison"]
    assert not any(outlets.values())


@pytest.mark.parametrize("path", sorted(DAGS.glob("*_pipelines.py")), ids=lambda path: path.name)
def test_dag_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 100


def test_dag_file_names_shadow_no_package() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert packages.isdisjoint(path.stem for path in DAGS.glob("*.py"))


def test_broken_definition_is_an_import_error_that_names_it_and_the_others_load(tmp_path: Path) -> None:
    for name in ("a", "transfers"):  # one has the name of a sample
        (tmp_path / f"{name}.py").write_text(GOOD.format(name=name))
    (tmp_path / "broken.py").write_text("from cutover.definition import Pipelin\n")
    (tmp_path / "typo.py").write_text(GOOD.format(name="typo").replace('key=("k",)', 'key=("kk",)'))

    (tmp_path / "cron.py").write_text(GOOD.format(name="cron").replace("@daily", "every day"))

    ids, errors = parse(tmp_path, "print(json.dumps([bag.dag_ids, bag.import_errors]))")

    assert sorted(ids) == [f"{name}_{path}" for name in ("a", "transfers") for path in PATHS]
    assert list(errors) == ["broken_definitions.py"]
    assert str(tmp_path / "broken.py") in errors["broken_definitions.py"]
    assert "cron.py: pipeline `cron`: schedule: expected cron" in errors["broken_definitions.py"]
    assert "typo.py: pipeline `typo`: key: expected a column" in errors["broken_definitions.py"]


def test_pipeline_whose_definition_broke_after_it_ran_keeps_its_dags_and_no_engine_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path / "home", pipelines=tmp_path / "pipelines")
    settings.pipelines.mkdir()
    (settings.pipelines / "a.py").write_text(GOOD.format(name="a"))
    (settings.pipelines / "b.py").write_text(GOOD.format(name="b"))
    record_definition(PipelineLake(settings, catalogue.get(settings, "b")), SystemClock())
    (settings.pipelines / "b.py").write_text("def (:")
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))

    ids, loaded = parse(
        settings.pipelines, f"print(json.dumps([bag.dag_ids, [m for m in {HEAVY!r} if m in sys.modules]]))"
    )

    assert sorted(ids) == [f"{name}_{path}" for name in "ab" for path in PATHS]
    assert loaded == []
