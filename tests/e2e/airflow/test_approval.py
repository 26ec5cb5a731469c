"""A person in Airflow starts a run, opens its report, approves, rejects; a viewer may not. Killed tasks continue."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from confluent_kafka import Producer

from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError
from cutover.infra import installation
from cutover.infra.airflow import instance
from cutover.infra.airflow.instance import FINAL
from cutover.infra.demo.runs import Runs
from cutover.lake.control.served import current_stage, read_gate_events
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import stage
from cutover.settings import KafkaSettings, Settings
from tests.support.history.self_tests import record_passed
from tests.support.servers.browser import PROGRAM, Page, running_browser
from tests.support.suite.until import until

MINUTE = 60.0
NAME = "approved"
NUMBERS = count(1_000, 100)  # of the first record of the next hundred
MOVES = f"{NAME}_cutover"
BACK = f"{NAME}_rollback"
REST = ("apply", "verify", "undo", "finish")
HOUR = 3_600_000  # milliseconds
WHY = "seen in the report"
DEFINITION = """
from cutover.definition import Count, Fixed, Pipeline, Policy, Sum, Topic

approved = Pipeline(
    name="approved",
    source=Topic(
        name="approved", schema="shop string, amount bigint, at timestamp", event_time="at", time_format="millis"
    ),
    key=("shop",), window=Fixed(hours=1), measures={"sales": Count(), "amount": Sum("amount")},
    policy=Policy(runs=1),
)
"""
pytestmark = pytest.mark.timeout(900)
in_browser = pytest.mark.skipif(PROGRAM is None, reason="no browser: apt-get install chromium")


@pytest.fixture(scope="module")
def runs(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """An installation of this module's own, whose stream has read 1,000 records, and which passed a self-test."""
    pipelines = tmp_path_factory.mktemp("pipelines")
    (pipelines / "approved.py").write_text(DEFINITION)
    settings = Settings(
        home=tmp_path_factory.mktemp("home"),
        pipelines=pipelines,
        kafka=KafkaSettings(bootstrap_servers=kafka_bootstrap),
    )
    with suppress(CutoverError):
        LogClient(settings).create_topic(NAME, partitions=2, config={"retention.ms": "-1"})
    _send(settings, range(1_000))
    running = installation.start_installation(settings, broker_only=False, report_progress=lambda _: None)
    new_runs = Runs(api=instance.api(settings, running.ports), settings=settings, pipeline=NAME)
    try:
        new_runs.start_stream()
        new_runs.read_all(not_before=datetime.now(UTC))
        new_runs.unpause(f"{NAME}_reconcile")
        yield new_runs
    finally:
        installation.stop_installation(settings, report_progress=lambda _: None)


def _send(settings: Settings, numbers: range) -> None:
    """Send sales from two days ago on, 100 an hour."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 20})
    refused: list[str] = []
    first_time = (datetime.now(UTC) - timedelta(hours=48)).timestamp() * 1000
    for number in numbers:
        at = int(first_time + number * HOUR / 100)
        value = {"shop": "abc"[number % 3], "amount": number, "at": at}
        producer.produce(
            NAME,
            json.dumps(value).encode(),
            partition=number % 2,
            timestamp=at,
            on_delivery=lambda error, _: refused.append(str(error)) if error else None,
        )
    producer.flush()
    assert refused == []


@pytest.fixture(autouse=True)
def nothing_open(runs: Runs) -> Iterator[None]:
    """End what a test that failed has left waiting: one run at a time."""
    yield
    for run in runs.api.get(f"dags/{MOVES}/dagRuns", state=["queued", "running"])["dag_runs"]:
        runs.api.patch(f"dags/{MOVES}/dagRuns/{quote(run['dag_run_id'], safe='')}", {"state": "failed"})


@pytest.fixture
def page() -> Iterator[Page]:
    with running_browser(online=True) as tab:
        yield tab


def log_in(page: Page, runs: Runs, user: str) -> None:
    """Log in as a person does."""
    page.resize(1400)
    page.navigate(f"{runs.api.address}/auth/login")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", instance.password(runs.settings, user))
    page.click("button[type=submit]")
    page.wait_for("!location.pathname.startsWith('/auth')")


def newest_run(runs: Runs, dag: str) -> str | None:
    dag_runs = runs.api.get(f"dags/{dag}/dagRuns", order_by="-run_after", limit=1)["dag_runs"]
    return str(dag_runs[0]["dag_run_id"]) if dag_runs else None


def read_tasks(runs: Runs, run: str) -> dict[str, dict[str, Any]]:
    """Return the tasks of a run of the cutover DAG by their ids."""
    path = f"dags/{MOVES}/dagRuns/{quote(run, safe='')}/taskInstances"
    return {str(task["task_id"]): dict(task) for task in runs.api.get(path)["task_instances"]}


def read_states(runs: Runs, run: str) -> dict[str, str]:
    return {name: str(task["state"]) for name, task in read_tasks(runs, run).items()}


def read_approval_state(runs: Runs, run: str) -> str | None:
    """Return the state of the approval of a run of the cutover DAG, None before it waits."""
    assert runs.api.state(MOVES, run) != "failed"
    state = read_states(runs, run).get("approve")
    return state if state in {"deferred", "awaiting_input", "success"} else None


def propose(runs: Runs) -> str:
    """Start the cutover DAG and return its run once that waits for a person."""
    runs.unpause(MOVES)
    run = runs.trigger(MOVES)
    until(lambda: read_approval_state(runs, run), within=3 * MINUTE)
    return run


def find_end(runs: Runs, run: str) -> str:
    """Return the state in which a run of the cutover DAG ended."""

    def read_final_state() -> str | None:
        state = runs.api.state(MOVES, run)
        return state if state in FINAL else None

    return until(read_final_state, within=5 * MINUTE) or ""


def prove(runs: Runs) -> Pipeline:
    """Let batch serve, and make evidence that the stage may move on: newer records, on which both paths agree."""
    pipeline = catalogue.get(runs.settings, NAME)
    lake = PipelineLake(runs.settings, pipeline)
    if str(current_stage(lake)) != "LAMBDA":
        stage.move(lake, "rollback", "the next test", SystemClock())
    first_number = next(NUMBERS)
    _send(runs.settings, range(first_number, first_number + 100))
    runs.read_all(not_before=datetime.now(UTC))
    assert runs.wait_verdict(runs.recompute()).verdict == "CONSISTENT"
    record_passed(lake)
    return pipeline


def kill_task(runs: Runs, run: str, task: str) -> None:
    """End a task's process by force while it runs."""
    title = f"airflow worker -- {until(lambda: _find_running(runs, run, task), within=2 * MINUTE)}"

    def find() -> list[psutil.Process]:
        return [
            process for process in psutil.process_iter(["cmdline"]) if title in " ".join(process.info["cmdline"] or [])
        ]

    (process,) = until(find, within=MINUTE, every=0.02)
    os.kill(process.pid, signal.SIGKILL)


def _find_running(runs: Runs, run: str, task: str) -> str | None:
    found_task = read_tasks(runs, run).get(task, {})
    return str(found_task["id"]) if found_task.get("state") == "running" else None


def read_moves(runs: Runs) -> list[tuple[str, str, str]]:
    """Return the gate's history: what happened, to which stage, by whom."""
    rows = read_gate_events(runs.settings, NAME)
    return [(row.event, row.stage, row.who) for row in rows]


def answer(page: Page, runs: Runs, run: str) -> None:
    """Open the request, give a reason, and press Approve."""
    page.navigate(f"{runs.page(f'{NAME}_cutover', run)}/tasks/approve/required_actions")
    page.wait_for_text("LAMBDA to SHADOW")
    page.fill("[name=element_why]", WHY)
    page.click("[data-testid='hitl-option-Approve']")


@in_browser
def test_a_run_that_is_started_by_hand_ends_in_a_report_in_its_tab(page: Page, runs: Runs) -> None:
    batch = f"{NAME}_batch"
    runs.unpause(batch)
    log_in(page, runs, instance.ADMIN)
    page.navigate(runs.page(batch))
    page.click("button[aria-label='Trigger Dag']")
    page.wait_for_text("Run Parameters")
    page.click_button("Trigger")
    started = until(lambda: newest_run(runs, batch), within=MINUTE) or ""

    verdict = runs.wait_verdict(started)
    page.navigate(f"{runs.page(f'{NAME}_reconcile', newest_run(runs, f'{NAME}_reconcile'))}/plugin/cutover_run")

    assert (verdict.verdict, verdict.exit_code) == ("CONSISTENT", 0)
    frame_text = "(document.querySelector('iframe')?.contentDocument?.body?.innerText ?? '')"
    page.wait_for(f"{frame_text}.includes('Streaming and batch agree in all')")


def test_who_rejects_a_move_skips_it(runs: Runs) -> None:
    pipeline, moves_before = prove(runs), read_moves(runs)
    run = propose(runs)

    runs.answer(MOVES, run, option="Reject", reason=WHY)

    assert find_end(runs, run) == "success"
    completed = dict.fromkeys(("propose", "approve"), "success")
    assert read_states(runs, run) == completed | dict.fromkeys(REST, "skipped")
    assert (str(current_stage(PipelineLake(runs.settings, pipeline))), read_moves(runs)) == ("LAMBDA", moves_before)


@in_browser
def test_a_move_takes_the_word_of_an_operator_and_not_that_of_a_viewer(page: Page, runs: Runs) -> None:
    settings, pipeline = runs.settings, prove(runs)
    run = propose(runs)

    log_in(page, runs, "viewer")
    answer(page, runs, run)
    page.wait_for_text("You do not have permission to perform this action.")
    lake = PipelineLake(settings, pipeline)
    assert (read_approval_state(runs, run) != "success", str(current_stage(lake))) == (True, "LAMBDA")

    with running_browser(online=True) as other:
        log_in(other, runs, instance.ADMIN)
        answer(other, runs, run)
        assert find_end(runs, run) == "success"
    row = read_gate_events(settings, NAME)[-1]
    assert (str(current_stage(lake)), row.who, row.why) == ("SHADOW", "airflow:admin", WHY)


def test_a_move_that_somebody_made_meanwhile_refuses_the_approval(runs: Runs) -> None:
    pipeline = prove(runs)
    run = propose(runs)
    stage.move(PipelineLake(runs.settings, pipeline), "advance", "by hand", SystemClock())
    moves = read_moves(runs)

    runs.answer(MOVES, run, option="Approve", reason=WHY)

    assert find_end(runs, run) == "failed"
    later_states = {"apply": "failed", "verify": "upstream_failed", "undo": "skipped"}
    states = read_states(runs, run)
    assert {name: states[name] for name in later_states} == later_states
    assert (str(current_stage(PipelineLake(runs.settings, pipeline))), read_moves(runs)) == ("SHADOW", moves)


def test_a_move_whose_tasks_are_killed_one_after_another_is_made_once(runs: Runs) -> None:
    pipeline = prove(runs)
    moves = read_moves(runs)
    runs.unpause(MOVES)
    run = runs.trigger(MOVES)

    kill_task(runs, run, "propose")
    until(lambda: read_approval_state(runs, run), within=3 * MINUTE)
    runs.answer(MOVES, run, option="Approve", reason=WHY)
    kill_task(runs, run, "apply")
    kill_task(runs, run, "verify")

    assert find_end(runs, run) == "success"
    killed = ("propose", "apply", "verify")
    assert {name: read_tasks(runs, run)[name]["try_number"] for name in killed} == dict.fromkeys(killed, 2)
    assert read_moves(runs) == [*moves, ("advanced", "SHADOW", "airflow:admin")]
    assert str(current_stage(PipelineLake(runs.settings, pipeline))) == "SHADOW"


def test_a_move_whose_task_is_marked_failed_at_work_is_not_made_or_is_put_back(runs: Runs) -> None:
    pipeline = prove(runs)
    moves = read_moves(runs)
    run = propose(runs)
    runs.answer(MOVES, run, option="Approve", reason=WHY)
    until(lambda: _find_running(runs, run, "apply"), within=2 * MINUTE)

    path = f"dags/{MOVES}/dagRuns/{quote(run, safe='')}/taskInstances/apply"
    runs.api.patch(path, {"new_state": "failed"})

    assert find_end(runs, run) == "failed"
    time.sleep(20)  # a task that still runs has the time to move
    assert str(current_stage(PipelineLake(runs.settings, pipeline))) == "LAMBDA"
    new_events = [event for event, _, _ in read_moves(runs)[len(moves) :]]
    assert new_events in (["withdrawn"], ["advanced", "rolled_back"])


def test_airflows_database_is_lost_and_the_stage_is_not(runs: Runs) -> None:
    settings, pipeline = runs.settings, prove(runs)
    lake = PipelineLake(settings, pipeline)
    stage.move(lake, "advance", "by hand", SystemClock())
    moves = read_moves(runs)

    installation.stop_installation(settings, report_progress=lambda _: None)
    for file in instance.locate_airflow_home(settings).glob("airflow.db*"):
        file.unlink()
    running = installation.start_installation(settings, broker_only=False, report_progress=lambda _: None)
    restored_runs = Runs(api=instance.api(settings, running.ports), settings=settings, pipeline=NAME)
    restored_runs.unpause(BACK)
    assert restored_runs.api.get(f"dags/{BACK}/dagRuns")["total_entries"] == 0
    assert (str(current_stage(lake)), read_moves(restored_runs)) == ("SHADOW", moves)

    run = restored_runs.api.trigger(BACK, {"why": "a new database"})
    assert restored_runs.wait(BACK, run, title="rolls back") == "success"
    assert read_moves(restored_runs) == [*moves, ("rolled_back", "LAMBDA", "airflow:admin")]
