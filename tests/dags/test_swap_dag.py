"""The swap DAG: what a person approves, made once and as approved; only changed definitions have one."""

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from cutover_tasks.moves.swap_task import compare, put_back, swap_approved, verify_served
from deltalake import DeltaTable

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.lake.control import swaps
from cutover.lake.control.control_tables import OvertakenError
from cutover.lake.paths import serving_uri
from cutover.lake.serving import serving_table
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.beside import swap as swapping
from cutover.streaming.beside.replay import replay_definition
from cutover.streaming.beside.serve import Agreed
from tests.dags import test_dag_rules as rules
from tests.dags.conftest import DAGS
from tests.integration.streaming import rig
from tests.integration.streaming.test_swap import DEFINITIONS, DROPS, EVENTS

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.dag_processing.dagbag import DagBag
    from pyspark.sql import SparkSession

ADA: dict[str, Any] = {"responded_by_user": {"name": "ada"}, "params_input": {"why": "dropped clicks are paid for"}}


@pytest.fixture
def at_work(
    kafka_settings: Settings, spark: "SparkSession", topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """A definition with a serving table, and a changed one that has read as much."""
    assert spark is not None
    settings = rig.fast(kafka_settings, fold_every=1_000)
    rig.make_topic(settings, topic_name, partitions=2)
    rig.for_commands(monkeypatch, settings, topic_name)
    folder = settings.home / "definitions"
    (folder / "clicks.py").write_text(DEFINITIONS.format(topic=topic_name), encoding="utf-8")
    known = settings.model_copy(update={"pipelines": folder})
    old = catalogue.get(known, "clicks")
    rig.send(known, topic_name, EVENTS)
    driver.run(known, old, until="drain")
    replay_definition(known, catalogue.get(known, "clicks_2"), old, SystemClock())
    serving_table.publish(known, old)
    return known


def count_served(settings: Settings) -> int:
    return int(DeltaTable(serving_uri(settings, "clicks")).to_pyarrow_table().num_rows)


def test_a_person_approves_what_was_compared_and_it_is_made_once(at_work: Settings) -> None:
    before = count_served(at_work)

    proposal = compare("clicks_2")
    assert f"| differ as declared | {2 * DROPS:,} changed, {DROPS:,} extra |" in proposal["text"]
    with pytest.raises(AirflowFailException, match="expected the person who approved it, got nobody"):
        swap_approved("clicks_2", proposal, {})
    assert swap_approved("clicks_2", proposal, ADA) == "clicks"
    assert swap_approved("clicks_2", proposal, ADA) == "clicks"  # the task was killed after its write: once more

    (row,) = swaps.history(at_work, "clicks")
    assert (row["served_by"], row["who"], row["why"]) == ("clicks_2", "airflow:ada", "dropped clicks are paid for")
    assert verify_served("clicks_2", "clicks") == f"{count_served(at_work)} rows of clicks_2 as clicks"
    assert count_served(at_work) == before + DROPS

    for _ in range(2):  # the second time the task was killed after its write
        with pytest.raises(AirflowFailException, match="clicks serves its name again"):
            put_back("clicks_2", proposal)
    assert (swaps.served_by(at_work, "clicks"), count_served(at_work)) == ("clicks", before)
    assert [row["who"] for row in swaps.history(at_work, "clicks")] == ["airflow:ada", "airflow"]
    with pytest.raises(AirflowFailException, match=r"expected what was approved, turns \(0, 0\) was approved"):
        swap_approved("clicks_2", proposal, ADA)
    with pytest.raises(AirflowFailException, match="`clicks` serves it"):
        verify_served("clicks_2", "clicks")


def test_a_swap_of_somebody_else_is_not_taken_back(at_work: Settings) -> None:
    proposal = compare("clicks_2")
    with pytest.raises(AirflowSkipException, match="clicks serves clicks, which this run has not asked for"):
        put_back("clicks_2", proposal)
    swap_approved("clicks_2", proposal, ADA)
    new, old = catalogue.get(at_work, "clicks_2"), catalogue.get(at_work, "clicks")
    swapping.swap_back(at_work, old, why="by hand", clock=SystemClock())
    swapping.swap(at_work, new, old, why="by hand", agreed=Agreed(), clock=SystemClock())

    with pytest.raises(AirflowSkipException, match="clicks_2 serves clicks, which this run has not asked for"):
        put_back("clicks_2", proposal)
    assert len(swaps.history(at_work, "clicks")) == 3
    with pytest.raises(AirflowFailException, match="expected two that serve their own names, got `clicks`"):
        compare("clicks_2")


def test_a_try_that_was_overtaken_by_the_one_before_has_made_its_swap(
    at_work: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal, swap_as_is = compare("clicks_2"), swapping.swap

    def swap_twice(*given: Any, **said: Any) -> Any:
        done = swap_as_is(*given, **said)
        raise OvertakenError(str(done))

    monkeypatch.setattr(swapping, "swap", swap_twice)

    assert swap_approved("clicks_2", proposal, ADA) == "clicks"
    assert swaps.served_by(at_work, "clicks") == "clicks_2"


def test_a_note_that_says_more_than_was_approved_is_refused(at_work: Settings) -> None:
    proposal = compare("clicks_2")
    file = at_work.home / "definitions" / "clicks.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('rows=("added",)', 'rows=("added", "removed")'), encoding="utf-8")

    with pytest.raises(AirflowFailException, match="expected what was approved, note "):
        swap_approved("clicks_2", proposal, ADA)
    assert swaps.served_by(at_work, "clicks") == "clicks"

    file.write_text(text.replace('rows=("added",)', "rows=()"), encoding="utf-8")
    with pytest.raises(AirflowFailException, match=f"expected 0 rows that differ from clicks stream-0, got {DROPS}"):
        compare("clicks_2")


@pytest.fixture
def changed_bag(airflow_home: "Path", tmp_path: "Path", monkeypatch: pytest.MonkeyPatch) -> "DagBag":
    """The DAGs of a definition and of a changed one; nothing has run."""
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- after the home is set

    assert airflow_home.is_dir()
    (tmp_path / "clicks.py").write_text(DEFINITIONS.format(topic="clicks"), encoding="utf-8")
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path))
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    return DagBag(dag_folder=str(DAGS), bundle_path=DAGS, bundle_name="dags-folder")


def test_a_changed_definition_alone_has_the_dag_and_it_keeps_the_rules(changed_bag: "DagBag") -> None:
    assert [name for name in changed_bag.dag_ids if name.endswith("_swap")] == ["clicks_2_swap"]
    for rule in (
        rules.test_every_dag_file_loads,
        rules.test_every_dag_has_words_for_the_person_on_call,
        rules.test_every_runbook_that_a_dag_names_exists,
        rules.test_every_dag_is_tagged_with_its_path_and_pipeline,
        rules.test_every_dag_runs_once_at_a_time_and_never_catches_up,
        rules.test_every_task_has_owner_retries_timeout_and_words,
    ):
        rule(changed_bag)


def test_what_was_not_filled_is_not_put_to_a_person(changed_bag: "DagBag") -> None:
    run = changed_bag.dags["clicks_2_swap"].test()

    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert states == {
        "compare_definitions": "failed",
        "approve": "upstream_failed",
        "swap_definitions": "upstream_failed",
        "verify_swap": "upstream_failed",
        "swap_back": "skipped",
        "finish": "upstream_failed",
    }
