"""The DAGs of audit and rollback: what their tasks say and do, and the seconds until batch serves again."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from cutover_tasks.check_tasks import audit_sample, fail_with_regression, parse_audit, roll_back_after_audit
from cutover_tasks.moves.stage_tasks import move_back_to

from cutover.definition.loading import catalogue
from cutover.definition.model.policy import Stage
from cutover.infra.processes.family import ChildEnd
from cutover.lake.control.served import current_stage, read_gate_events
from cutover.lake.journal_rows import GateEvent
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.history import AuditState
from cutover.settings import load_settings
from tests.support.history.audits import make_audit
from tests.support.history.journal_rows import record_stage

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.dag_processing.dagbag import DagBag

FOUND: dict[str, Any] = {"state": "regression", "reason": "1 row differs", "unexplained": 1, "examples": ["a row"]}
AGREES: dict[str, Any] = FOUND | {"state": "agrees", "unexplained": 0, "examples": []}
"""Seconds, of the promise; on a machine that does nothing else it takes less than one."""


def record_move(stage: str) -> None:
    settings = load_settings()
    record_stage(PipelineLake(settings, catalogue.get(settings, "flights")), stage)


def rows() -> list[GateEvent]:
    return read_gate_events(load_settings(), "flights")


def stage() -> Stage:
    settings = load_settings()
    return current_stage(PipelineLake(settings, catalogue.get(settings, "flights")))


def record_regression() -> None:
    settings = load_settings()
    window_audit = make_audit(
        "flights", state=AuditState.REGRESSION, stream_version=None, unexplained=1, wrong=(3,), examples=("a row",)
    )
    history.record_audit(PipelineLake(settings, catalogue.get(settings, "flights")), window_audit)


@pytest.mark.parametrize("stage_name", ["LAMBDA", "SHADOW"])
def test_outside_of_kappa_nothing_is_audited(home: "Path", stage_name: str) -> None:
    record_move(stage_name)

    with pytest.raises(AirflowSkipException, match=f"flights is in {stage_name}"):
        audit_sample("flights")
    assert home.is_dir()


def test_a_policy_without_an_audit_is_skipped(home: "Path", monkeypatch: pytest.MonkeyPatch) -> None:
    record_move("KAPPA")
    flights = catalogue.get(load_settings(), "flights")
    without = replace(flights, policy=replace(flights.policy, audit=None))
    monkeypatch.setattr(catalogue, "get", lambda *_: without)

    with pytest.raises(AirflowSkipException, match="flights is not audited: its policy says `audit=None`"):
        audit_sample("flights")
    assert home.is_dir()


def test_an_audit_without_a_new_window_is_skipped(home: "Path", monkeypatch: pytest.MonkeyPatch) -> None:
    record_move("KAPPA")
    child_end = ChildEnd(exit_code=0, value={"state": "nothing_new", "reason": "No window became final."}, message="")
    monkeypatch.setattr("cutover_tasks.check_tasks.run_child", lambda *_, **__: child_end)

    with pytest.raises(AirflowSkipException, match="No window became final"):
        audit_sample("flights")
    assert home.is_dir()


def test_what_an_audit_printed_is_handed_on() -> None:
    assert parse_audit(ChildEnd(exit_code=1, value=FOUND, message="")) == FOUND


def test_a_refused_audit_is_red_with_its_reason() -> None:
    with pytest.raises(AirflowFailException, match="expected 43 final windows a day"):
        parse_audit(ChildEnd(exit_code=2, value=None, message="expected 43 final windows a day"))


def test_an_audit_that_nobody_expected_to_end_so_is_tried_again() -> None:
    with pytest.raises(RuntimeError, match="ended with 1"):
        parse_audit(ChildEnd(exit_code=1, value=None, message="Traceback"))


def test_an_audit_that_agrees_moves_nothing(home: "Path") -> None:
    record_move("KAPPA")

    with pytest.raises(AirflowSkipException, match="has no regression"):
        roll_back_after_audit("flights", AGREES)
    assert (stage(), len(rows())) == (Stage.KAPPA, 1)
    assert home.is_dir()


def test_a_regression_puts_batch_back_once_and_keeps_the_audit_as_evidence(home: "Path") -> None:
    record_move("KAPPA")
    record_regression()

    roll_back_after_audit("flights", FOUND)
    roll_back_after_audit("flights", FOUND)

    assert (stage(), [row.event for row in rows()]) == (Stage.LAMBDA, ["advanced", "rolled_back"])
    audit = json.loads(rows()[-1].evidence)["because"]["audit"]
    assert (audit["seed"], audit["windows"], audit["wrong"], audit["unexplained"]) == (7, [3], [3], 1)
    assert "audit at 2026-01-01" in rows()[-1].why
    assert home.is_dir()


def test_the_run_of_a_regression_is_red() -> None:
    with pytest.raises(AirflowFailException, match="1 row of final windows differs from a recomputation, such as"):
        fail_with_regression("flights", FOUND)


@pytest.mark.parametrize("stage_name", ["SHADOW", "KAPPA"])
def test_batch_serves_again_from_any_stage(bag: "DagBag", home: "Path", stage_name: str) -> None:
    record_move(stage_name)
    task = next(task for task in bag.dags["flights_rollback"].tasks if task.task_id == "move_back")

    assert move_back_to("flights", {"why": "a drill"}, "run-1", "ada") == "LAMBDA"
    assert stage() is Stage.LAMBDA
    assert (rows()[-1].who, rows()[-1].why) == ("airflow:ada", "a drill")
    assert task.downstream_task_ids == {"start_batch"}
    assert home.is_dir()


def test_a_rollback_that_is_run_again_moves_once(home: "Path") -> None:
    record_move("KAPPA")
    conf = {"why": "a drill", "to": "SHADOW"}

    assert [move_back_to("flights", conf, "run-1", None) for _ in range(2)] == ["SHADOW", "SHADOW"]
    assert len(rows()) == 2
    assert home.is_dir()


@pytest.mark.parametrize("stage_name", ["LAMBDA", "SHADOW"])
def test_a_rollback_to_where_a_pipeline_is_stays_and_takes_the_turn(home: "Path", stage_name: str) -> None:
    record_move(stage_name)

    assert move_back_to("flights", {"why": "a drill", "to": stage_name}, "run-1", "ada") == stage_name
    assert [(row.event, row.stage) for row in rows()][1:] == [("withdrawn", stage_name)]
    assert (rows()[-1].who, rows()[-1].why) == ("airflow:ada", "a drill")
    record_move("KAPPA")  # a week later; the old run is cleared
    assert move_back_to("flights", {"why": "a drill", "to": stage_name}, "run-1", "ada") == stage_name
    assert stage() is Stage.KAPPA
    assert home.is_dir()


@pytest.mark.parametrize(
    ("stage_name", "params", "match"),
    [
        ("LAMBDA", {"why": "a drill", "to": "SHADOW"}, "stays in LAMBDA: it cannot be rolled back to SHADOW"),
        ("KAPPA", {"why": " "}, "expected a reason|why"),
    ],
)
def test_what_is_no_way_back_is_refused(home: "Path", stage_name: str, params: dict[str, str], match: str) -> None:
    record_move(stage_name)

    with pytest.raises(AirflowFailException, match=match):
        move_back_to("flights", params, "run-1", "ada")
    assert (str(stage()), len(rows())) == (stage_name, 1)
    assert home.is_dir()
