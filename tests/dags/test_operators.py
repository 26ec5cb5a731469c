"""Operators in a team's own DAGs: what they trigger, what they wait for, and how a verdict ends them."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperatorLink
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException
from airflow.serialization.serialized_objects import DagSerialization

from cutover.infra.airflow import operators
from cutover.infra.airflow.operators import CutoverCutOperator, CutoverReconcileOperator, name_run
from cutover.positions.position import Position

GOOD = {"verdict": "EXPLAINED", "exit_code": 0, "sentence": "36 late events.", "report": "reports/flights/a.html"}
BAD = GOOD | {"verdict": "DIVERGED", "exit_code": 1}
BATCH, RECONCILE = "flights_batch", "flights_reconcile"


class FakeTaskInstance:
    """What a task sees of itself: other DAGs, XComs of their runs, and those that it pushes."""

    dag_id, task_id, run_id, map_index, try_number = "nightly", "compare", "scheduled__2026-11-29T00:00:00+00:00", -1, 1

    def __init__(self, *, paused: str = "", compared: dict[str, Any] | None = None) -> None:
        self.paused, self.compared, self.pushed = paused, compared or {}, dict[str, Any]()

    def get_dag(self, dag_id: str) -> SimpleNamespace:
        return SimpleNamespace(is_paused=dag_id == self.paused)

    def xcom_pull(self, *, task_ids: str, dag_id: str, run_id: str, key: str, map_indexes: int) -> Any:
        assert (task_ids, dag_id, map_indexes) == ("compare", RECONCILE, 0)
        return self.compared.get(key) if run_id == name_run(self) else None

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture
def operator(home: object) -> CutoverReconcileOperator:
    assert home is not None
    return CutoverReconcileOperator(task_id="compare", pipeline="flights")


def finish(ti: FakeTaskInstance, dag_id: str, state: str) -> tuple[str, dict[str, Any]]:
    run_id = name_run(ti)
    return "DagStateTrigger", {"dag_id": dag_id, "run_ids": [run_id], run_id: state}


def test_batch_runs_first_and_the_comparison_after_it(operator: CutoverReconcileOperator) -> None:
    ti = FakeTaskInstance(compared=GOOD)

    with pytest.raises(DagRunTriggerException) as batch:
        operator.execute({"ti": ti})
    with pytest.raises(DagRunTriggerException) as reconcile:
        operator.execute_complete({"ti": ti}, finish(ti, BATCH, "success"))

    assert (batch.value.trigger_dag_id, reconcile.value.trigger_dag_id) == (BATCH, RECONCILE)
    assert batch.value.deferrable
    assert operator.execute_complete({"ti": ti}, finish(ti, RECONCILE, "success")) == GOOD


def test_links_lead_to_the_report_of_the_triggered_run_and_to_the_gate(operator: CutoverReconcileOperator) -> None:
    ti = FakeTaskInstance()
    links = {link.name: link.get_link(operator, ti_key=ti) for link in operator.operator_extra_links}

    assert links["Gate"].endswith("/cutover/pipelines/flights")
    assert links["Report"].endswith(f"/cutover/open?dag_id={RECONCILE}&run_id={name_run(ti)}")


def test_failing_verdict_fails_the_task_with_its_sentence(operator: CutoverReconcileOperator) -> None:
    ti = FakeTaskInstance(compared=BAD)

    with pytest.raises(AirflowFailException, match="DIVERGED: 36 late events"):
        operator.execute_complete({"ti": ti}, finish(ti, RECONCILE, "failed"))

    assert ti.pushed.items() >= BAD.items()


@pytest.mark.parametrize("dag_id", [BATCH, RECONCILE])
def test_run_that_failed_without_a_verdict_is_named(operator: CutoverReconcileOperator, dag_id: str) -> None:
    ti = FakeTaskInstance()

    with pytest.raises(AirflowFailException, match=f"DAG {dag_id}: expected a result of the run {name_run(ti)}"):
        operator.execute_complete({"ti": ti}, finish(ti, dag_id, "failed"))


@pytest.mark.parametrize("paused", [BATCH, RECONCILE])
def test_paused_dag_is_rejected_since_its_run_would_wait(operator: CutoverReconcileOperator, paused: str) -> None:
    with pytest.raises(AirflowFailException, match=f"DAG {paused}: expected it to be unpaused"):
        operator.execute({"ti": FakeTaskInstance(paused=paused)})


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", [CutoverCutOperator, CutoverReconcileOperator])
def test_unknown_pipeline_is_rejected(kind: Any) -> None:
    with pytest.raises(AirflowFailException, match="nothing"):
        kind(task_id="t", pipeline="nothing").execute({"ti": FakeTaskInstance()})


@pytest.mark.usefixtures("home")
def test_cut_is_the_environment_of_a_job_that_reads_and_records_it(monkeypatch: pytest.MonkeyPatch) -> None:
    end = Position(topics={"flights": {0: 1380}}, watermark=None, table_version=None, at=0, topic_ids={"flights": "i"})
    monkeypatch.setattr("cutover.positions.log_check.find_log_end", lambda *_: end)
    monkeypatch.setattr("cutover.log.kafka.LogClient", lambda _: None)
    ti = FakeTaskInstance()

    environment = CutoverCutOperator(task_id="cut", pipeline="flights").execute({"ti": ti})

    assert environment["CUTOVER_CUT"] == '{"flights":{"0":1380}}'
    assert json.loads(environment["CUTOVER_POSITION"])["topic_ids"] == {"flights": "i"}


def test_runs_of_one_task_differ_by_attempt_and_stay_short() -> None:
    ti, again = FakeTaskInstance(), FakeTaskInstance()
    again.try_number = 2
    again.dag_id = ti.dag_id = "d" * 250

    assert name_run(ti) == name_run(ti) != name_run(again)
    assert len(name_run(ti)) <= 250


def test_links_reach_airflows_interface() -> None:
    with DAG("nightly", schedule=None) as dag:
        CutoverReconcileOperator(task_id="compare", pipeline="flights")

    (task,) = DagSerialization.to_dict(dag)["dag"]["tasks"]

    links: dict[str, type[BaseOperatorLink]] = {"Report": operators.ReportLink, "Gate": operators.GateLink}
    assert task["__var"]["_operator_extra_links"] == {name: link().xcom_key for name, link in links.items()}
