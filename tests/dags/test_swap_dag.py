"""The swap DAG: what a person approves, made once and as approved; only changed definitions have one."""

import shutil
import uuid
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from cutover_tasks.moves.swap_tasks import apply, propose, undo, verify
from deltalake import DeltaTable

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.lake.control import served
from cutover.lake.journal import Journal
from cutover.lake.serving import serving_table
from cutover.pipeline_lake import PipelineLake, serving_uri
from cutover.reconcile.verify import record
from cutover.settings import KafkaSettings, Settings
from cutover.streaming.replacement import swap as swapping
from cutover.streaming.replacement.compare import compare_definitions
from cutover.streaming.replacement.replay import Agreed
from tests.dags import test_dag_rules as rules
from tests.dags.conftest import DAGS
from tests.integration.streaming import rig
from tests.integration.streaming.versions.test_swap import DEFINITIONS, DROPS, EVENTS
from tests.support.drivers.fed import Fed, HandClock
from tests.support.suite.quick_spark import QUICK

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.dag_processing.dagbag import DagBag
    from pyspark.sql import SparkSession

ADA: dict[str, Any] = {"responded_by_user": {"name": "ada"}, "params_input": {"why": "dropped clicks are paid for"}}


@pytest.fixture(scope="module")
def filled(kafka_bootstrap: str, spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A definition with a serving table, and a changed one that has read as much: tests get copies of the home."""
    topic = f"swap-dag-{uuid.uuid4().hex[:8]}"
    home = tmp_path_factory.mktemp("filled")
    kafka = KafkaSettings(bootstrap_servers=kafka_bootstrap)
    settings = rig.fast(Settings(home=home, spark=QUICK, kafka=kafka), fold_every=1_000)
    rig.make_topic(settings, topic, partitions=2)
    with pytest.MonkeyPatch.context() as patch:
        rig.for_commands(patch, settings, topic)
        (home / "definitions" / "clicks.py").write_text(DEFINITIONS.format(topic=topic), encoding="utf-8")
        installation = settings.model_copy(update={"pipelines": home / "definitions"})
        old = catalogue.get(installation, "clicks")
        rig.send(installation, topic, EVENTS)
        for pipeline in (old, catalogue.get(installation, "clicks_2")):
            lake = PipelineLake(installation, pipeline)
            Fed(spark, lake, HandClock()).feed(Counter(event.partition for event in EVENTS))
        serving_table.publish(PipelineLake(installation, old))
    return installation


@pytest.fixture
def at_work(filled: Settings, tmp_path: "Path", monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home of this test's own with both definitions."""
    home = tmp_path / "home"
    shutil.copytree(filled.home, home)
    monkeypatch.setenv("CUTOVER_HOME", str(home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(home / "definitions"))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(filled.kafka.bootstrap_servers))
    return filled.model_copy(update={"home": home, "pipelines": home / "definitions"})


def count_served(settings: Settings) -> int:
    return int(DeltaTable(serving_uri(settings, "clicks")).to_pyarrow_table().num_rows)


def test_a_person_approves_what_was_compared_and_it_is_made_once(
    at_work: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    served_before = count_served(at_work)

    proposal, other_proposal = propose("clicks_2", "run-1"), propose("clicks_2", "run-2")
    assert "| note: removed | squares |" in proposal["text"]
    assert f"| rows that differ as the note declares | {2 * DROPS:,} changed, {DROPS:,} extra |" in proposal["text"]
    with pytest.raises(AirflowFailException, match="expected the person who approved it, got no name"):
        apply("clicks_2", proposal, {})
    assert apply("clicks_2", proposal, ADA) == "clicks"
    assert apply("clicks_2", proposal, ADA) == "clicks"  # the task was killed after its write: once more

    (row,) = served.read_swaps(at_work, "clicks")
    assert (row.served_by, row.who, row.why) == ("clicks_2", "airflow:ada", "dropped clicks are paid for")
    assert verify("clicks_2", "clicks") == f"{count_served(at_work)} rows of clicks_2 as clicks"
    assert count_served(at_work) == served_before + DROPS

    with pytest.raises(AirflowSkipException, match="a swap of this run is not the latest one"):
        undo("clicks_2", other_proposal)

    with monkeypatch.context() as patch:
        patch.setattr(
            serving_table, "update_tables", lambda *_, **__: ("clicks",)
        )  # as if killed before the publication
        with pytest.raises(AirflowFailException, match="serving table follows"):
            undo("clicks_2", proposal)
    assert count_served(at_work) == served_before + DROPS
    with pytest.raises(AirflowFailException, match=r"clicks serves its name again\. "):
        undo("clicks_2", proposal)
    assert (served.served_by(at_work, "clicks"), count_served(at_work)) == ("clicks", served_before)
    assert [row.who for row in served.read_swaps(at_work, "clicks")] == ["airflow:ada", "airflow"]
    with pytest.raises(AirflowFailException, match="one of the two was swapped or a swap withdrawn"):
        apply("clicks_2", proposal, ADA)
    with pytest.raises(AirflowFailException, match="`clicks` serves it"):
        verify("clicks_2", "clicks")


def test_a_swap_of_somebody_else_is_not_taken_back(at_work: Settings) -> None:
    proposal = propose("clicks_2", "run-1")
    apply("clicks_2", proposal, ADA)
    new, old = catalogue.get(at_work, "clicks_2"), catalogue.get(at_work, "clicks")
    swapping.swap_back(PipelineLake(at_work, old), reason="by hand", clock=SystemClock())
    swapping.swap_definition(at_work, new, old, reason="by hand", agreed=Agreed(), clock=SystemClock())

    with pytest.raises(AirflowSkipException, match="clicks_2 serves clicks, and a swap of this run is not the latest"):
        undo("clicks_2", proposal)
    assert len(served.read_swaps(at_work, "clicks")) == 3
    outdated = proposal | {"basis": proposal["basis"] | {"turns": [0, 3]}}  # no comparison proposes that; even so
    with pytest.raises(AirflowSkipException, match="clicks_2 serves clicks, and a swap of this run is not the latest"):
        undo("clicks_2", outdated)
    assert (len(served.read_swaps(at_work, "clicks")), served.served_by(at_work, "clicks")) == (4, "clicks_2")
    with pytest.raises(AirflowFailException, match="expected two that serve their own names, got `clicks`"):
        propose("clicks_2", "run-1")


def test_a_swap_that_somebody_made_during_the_comparison_is_not_taken_back(
    at_work: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = catalogue.get(at_work, "clicks_2"), catalogue.get(at_work, "clicks")
    reject_as_is = swapping.reject_replaced

    def reject_before_a_swap(*arguments: Any) -> None:
        monkeypatch.setattr(swapping, "reject_replaced", reject_as_is)
        reject_as_is(*arguments)
        swapping.swap_definition(at_work, new, old, reason="by hand", agreed=Agreed(), clock=SystemClock())

    monkeypatch.setattr(swapping, "reject_replaced", reject_before_a_swap)
    proposal = propose("clicks_2", "run-1")

    with pytest.raises(AirflowSkipException, match="clicks_2 serves clicks, and a swap of this run is not the latest"):
        undo("clicks_2", proposal)
    assert [row.why for row in served.read_swaps(at_work, "clicks")] == ["by hand"]


def test_a_swap_that_overtakes_its_withdrawal_is_taken_back(at_work: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, append = propose("clicks_2", "run-1"), Journal.append

    def append_behind_the_swap(*arguments: Any, **keywords: Any) -> int:
        monkeypatch.setattr(Journal, "append", append)
        assert apply("clicks_2", proposal, ADA) == "clicks"
        return append(*arguments, **keywords)

    monkeypatch.setattr(Journal, "append", append_behind_the_swap)

    with pytest.raises(AirflowFailException, match=r"clicks serves its name again\. "):
        undo("clicks_2", proposal)
    assert [row.served_by for row in served.read_swaps(at_work, "clicks")] == ["clicks_2", "clicks"]


def test_a_swap_that_is_withdrawn_at_its_commit_is_not_made(at_work: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, swap_as_is = propose("clicks_2", "run-1"), served.record_swap

    def swap_while_marked_failed(*arguments: Any, **keywords: Any) -> None:
        for _ in range(2):  # killed after its write: once more
            with pytest.raises(AirflowSkipException, match="a swap of this run is not the latest one"):
                undo("clicks_2", proposal)
        swap_as_is(*arguments, **keywords)

    monkeypatch.setattr(served, "record_swap", swap_while_marked_failed)

    with pytest.raises(AirflowFailException, match="another process appended row 0 first"):
        apply("clicks_2", proposal, ADA)
    (row,) = served.read_swaps(at_work, "clicks")
    assert (row.served_by, "withdrawn by Airflow" in row.why) == ("clicks", True)


def test_a_try_that_the_one_before_overtook_has_made_its_swap(
    at_work: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal, compare_as_is = propose("clicks_2", "run-1"), compare_definitions

    def compare_beside_the_try_before(*arguments: Any) -> Any:
        monkeypatch.setattr(swapping, "compare_definitions", compare_as_is)
        assert apply("clicks_2", proposal, ADA) == "clicks"
        return compare_as_is(*arguments)

    monkeypatch.setattr(swapping, "compare_definitions", compare_beside_the_try_before)

    assert apply("clicks_2", proposal, ADA) == "clicks"
    assert [row.served_by for row in served.read_swaps(at_work, "clicks")] == ["clicks_2"]


@pytest.mark.parametrize(
    ("result_fields", "error", "message"),
    [
        ({"violations": (SimpleNamespace(check="N1", text="a row is missing"),)}, AirflowFailException, "N1: a row is"),
        ({"error": "the log does not answer"}, RuntimeError, "the log does not answer"),
    ],
)
def test_what_cannot_be_judged_is_tried_again_and_what_is_violated_is_not(
    at_work: Settings,
    monkeypatch: pytest.MonkeyPatch,
    result_fields: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    checked = SimpleNamespace(**{"violations": (), "error": None} | result_fields)
    monkeypatch.setattr(record, "verify_and_record", lambda *_: checked)

    with pytest.raises(error, match=message):
        verify("clicks_2", "clicks_2")
    assert at_work.home.is_dir()


def test_a_note_that_says_more_than_was_approved_is_refused(at_work: Settings) -> None:
    proposal = propose("clicks_2", "run-1")
    file = at_work.home / "definitions" / "clicks.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('rows=("added",)', 'rows=("added", "removed")'), encoding="utf-8")

    with pytest.raises(AirflowFailException, match="got changes: the change note changed"):
        apply("clicks_2", proposal, ADA)
    assert served.served_by(at_work, "clicks") == "clicks"

    file.write_text(text.replace('rows=("added",)', "rows=()"), encoding="utf-8")
    with pytest.raises(AirflowFailException, match=f"expected 0 rows that differ from clicks stream-0, got {DROPS}"):
        propose("clicks_2", "run-1")


@pytest.fixture
def changed_bag(airflow_home: "Path", tmp_path: "Path", monkeypatch: pytest.MonkeyPatch) -> "DagBag":
    """The DAGs of a definition and of a changed one; nothing has run."""
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- after the home is set

    assert airflow_home.is_dir()
    (tmp_path / "clicks.py").write_text(DEFINITIONS.format(topic="clicks"), encoding="utf-8")
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path))
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    return DagBag(dag_folder=str(DAGS), bundle_path=DAGS, bundle_name="dags-folder")


@pytest.fixture
def bag_at_work(airflow_home: "Path", at_work: Settings) -> "DagBag":
    """The DAGs of both definitions, which have read as much."""
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- after the home is set

    assert airflow_home.is_dir()
    assert at_work.home.is_dir()
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
        "propose": "failed",
        "approve": "upstream_failed",
        "apply": "upstream_failed",
        "verify": "upstream_failed",
        "undo": "skipped",
        "finish": "upstream_failed",
    }


def test_an_approval_that_is_marked_by_hand_is_nobodys(bag_at_work: "DagBag") -> None:
    run = bag_at_work.dags["clicks_2_swap"].test(mark_success_pattern="approve")

    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert states == {
        "propose": "success",
        "approve": "success",
        "apply": "failed",
        "verify": "upstream_failed",
        "undo": "skipped",
        "finish": "upstream_failed",
    }
