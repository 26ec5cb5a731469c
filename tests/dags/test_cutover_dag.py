"""The cutover DAG: what its tasks say and do as tables, and a run without evidence by `dag.test()`."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from cutover_tasks.moves.stage_tasks import apply, propose, undo
from cutover_tasks.task_parts import parse_person

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.loading import catalogue
from cutover.lake.control.served import current_stage, list_moves, read_gate_events
from cutover.lake.journal import Journal, SequenceConflictError
from cutover.lake.journal_rows import GateEvent
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate.stage import StageProposal
from cutover.settings import load_settings
from tests.support.history.journal_rows import make_row, record_stage

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.dag_processing.dagbag import DagBag


def proposal(stage: str = "LAMBDA", target: str = "SHADOW") -> dict[str, Any]:
    settings = load_settings()
    fingerprint = result_fingerprint(catalogue.get(settings, "flights"))
    fields = {"pipeline": "flights", "stage": stage, "target": target, "turn": 0, "stream_version": 0, "runs": ["r1"]}
    return fields | {"result_fingerprint": fingerprint, "audit": "", "text": "evidence"}


def record_move(proposed: dict[str, Any]) -> None:
    """Append the move that a proposal describes, as the task before would have done."""
    proposal = StageProposal.from_json(proposed)
    settings, evidence = load_settings(), json.dumps({"approved": proposal.digest})
    values = {"result_fingerprint": proposal.result_fingerprint, "evidence": evidence}
    record_stage(PipelineLake(settings, catalogue.get(settings, "flights")), proposal.target, **values)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"responded_by_user": {"id": "7", "name": "ada"}}, "airflow:ada"),
        ({"responded_by_user": {"id": "7", "name": ""}}, "airflow:7"),
        ({"responded_by_user": {"id": "7", "name": " \u200b\x1b\n"}}, "airflow:7"),
        ({"responded_by_user": {"id": "7", "name": "eve\n[/bold]\x1b[31m"}}, "airflow:eve [/bold] [31m"),
        ({"responded_by_user": None}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_who_approved_is_airflows_own_user(answer: dict[str, Any] | None, expected: str) -> None:
    assert parse_person(answer) == expected


def test_missing_evidence_is_listed(home: "Path") -> None:
    with pytest.raises(AirflowFailException, match="flights stays in LAMBDA: runs: 0 of"):
        propose("flights", "run-1")
    assert home.is_dir()


def test_a_move_that_is_made_is_not_made_twice(home: "Path") -> None:
    proposed = proposal()
    record_move(proposed)

    assert apply("flights", proposed, {"responded_by_user": {"name": "ada"}}) == "SHADOW"
    assert len(read_gate_events(load_settings(), "flights")) == 1
    assert home.is_dir()


def test_an_approval_without_evidence_behind_it_is_refused(home: "Path") -> None:
    with pytest.raises(AirflowFailException, match="expected the facts that were approved"):
        apply("flights", proposal(), {"responded_by_user": {"name": "ada"}})
    assert read_gate_events(load_settings(), "flights") == []
    assert home.is_dir()


def test_what_was_moved_is_put_back_and_is_red(home: "Path") -> None:
    proposed = proposal()
    record_move(proposed)

    with pytest.raises(AirflowFailException, match="flights is back in LAMBDA"):
        undo("flights", proposed)
    settings = load_settings()
    with pytest.raises(AirflowSkipException, match="was not moved"):  # the task was killed after its write: once more
        undo("flights", proposed)

    assert str(current_stage(PipelineLake(settings, catalogue.get(settings, "flights")))) == "LAMBDA"
    assert [row.event for row in read_gate_events(settings, "flights")] == ["advanced", "rolled_back"]
    assert home.is_dir()


def test_nothing_is_put_back_where_nothing_was_moved_and_it_cannot_be_made_any_more(home: "Path") -> None:
    for _ in range(2):  # killed after its write: once more
        with pytest.raises(AirflowSkipException, match="was not moved"):
            undo("flights", proposal())
    settings = load_settings()
    with pytest.raises(SequenceConflictError):  # by a task that was marked failed at its commit
        Journal(settings, "flights", GateEvent).append(make_row(GateEvent, pipeline="flights"), expected_sequence=0)
    assert [row.event for row in read_gate_events(settings, "flights")] == ["withdrawn"]
    assert list_moves(settings, "flights") == []
    assert str(current_stage(PipelineLake(settings, catalogue.get(settings, "flights")))) == "LAMBDA"
    with pytest.raises(AirflowSkipException, match="no move of flights was proposed"):
        undo("flights", None)
    assert home.is_dir()


def test_without_evidence_nobody_is_asked(bag: "DagBag", home: "Path") -> None:
    run = bag.dags["flights_cutover"].test()

    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert home.is_dir()
    assert states == {
        "propose": "failed",
        "approve": "upstream_failed",
        "apply": "upstream_failed",
        "verify": "upstream_failed",
        "undo": "skipped",
        "finish": "upstream_failed",
    }
    assert str(run.state) == "failed"
