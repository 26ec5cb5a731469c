"""A person before Airflow in a real browser: starts a run, opens its report, approves a move; a viewer may not."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from cutover.definition.loading import catalogue
from cutover.errors import CutoverError
from cutover.infra import start, stop
from cutover.infra.airflow import instance
from cutover.infra.demo.runs import Runs
from cutover.lake.control import control_tables
from cutover.lake.control.stages import current_stage
from cutover.log.kafka import LogClient
from cutover.settings import KafkaSettings, Settings
from tests.support.browser import PROGRAM, Page, running_browser
from tests.support.self_tests import record_passed
from tests.support.until import until

MINUTE = 60.0
NAME = "approved"
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
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(PROGRAM is None, reason="no browser: apt-get install chromium"),
]


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
    _send(settings)
    running = start.up(settings, broker_only=False, tell=lambda _: None)
    found = Runs(api=instance.api(settings, running.ports), settings=settings, pipeline=NAME)
    try:
        found.start_stream()
        found.read_all(since=datetime.now(UTC))
        found.unpause(f"{NAME}_reconcile")
        yield found
    finally:
        stop.down(settings, tell=lambda _: None)


def _send(settings: Settings) -> None:
    """Send sales of the last ten hours, 100 an hour."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 20})
    first = (datetime.now(UTC) - timedelta(hours=10)).timestamp() * 1000
    for number in range(1_000):
        at = int(first + number * HOUR / 100)
        value = {"shop": "abc"[number % 3], "amount": number, "at": at}
        producer.produce(NAME, json.dumps(value).encode(), partition=number % 2, timestamp=at)
    producer.flush()


@pytest.fixture
def page() -> Iterator[Page]:
    with running_browser(online=True) as found:
        yield found


def log_in(page: Page, runs: Runs, user: str) -> None:
    """Log in as a person does."""
    page.resize(1400)
    page.go(f"{runs.api.address}/auth/login")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", instance.password(runs.settings, user))
    page.click("button[type=submit]")
    page.wait_for("!location.pathname.startsWith('/auth')")


def newest_run(runs: Runs, dag: str) -> str | None:
    found = runs.api.get(f"dags/{dag}/dagRuns", order_by="-run_after", limit=1)["dag_runs"]
    return str(found[0]["dag_run_id"]) if found else None


def tell_state(runs: Runs, run: str) -> str | None:
    """Return how the approval of a run of the cutover DAG stands, None before it waits."""
    path = f"dags/{NAME}_cutover/dagRuns/{quote(run, safe='')}/taskInstances"
    assert runs.api.state(f"{NAME}_cutover", run) != "failed"
    states = {one["task_id"]: one["state"] for one in runs.api.get(path)["task_instances"]}
    return str(states["approve"]) if states.get("approve") in {"deferred", "awaiting_input", "success"} else None


def answer(page: Page, runs: Runs, run: str) -> None:
    """Open what is asked, say why, and press Approve."""
    page.go(f"{runs.page(f'{NAME}_cutover', run)}/tasks/approve/required_actions")
    page.wait_for_text("LAMBDA to SHADOW")
    page.fill("[name=element_why]", WHY)
    page.click("[data-testid='hitl-option-Approve']")


def test_a_run_that_is_started_by_hand_ends_in_a_report_in_its_tab(page: Page, runs: Runs) -> None:
    batch = f"{NAME}_batch"
    runs.unpause(batch)
    log_in(page, runs, instance.ADMIN)
    page.go(runs.page(batch))
    page.click("button[aria-label='Trigger Dag']")
    page.wait_for_text("Run Parameters")
    page.click_button("Trigger")
    started = until(lambda: newest_run(runs, batch), within=MINUTE) or ""

    verdict = runs.verdict(started)
    page.go(f"{runs.page(f'{NAME}_reconcile', newest_run(runs, f'{NAME}_reconcile'))}/plugin/cutover_run")

    assert (verdict.verdict, verdict.exit_code) == ("CONSISTENT", 0)
    shown = "(document.querySelector('iframe')?.contentDocument?.body?.innerText ?? '')"
    page.wait_for(f"{shown}.includes('Streaming and batch agree in all')")


def test_a_move_takes_the_word_of_an_operator_and_not_that_of_a_viewer(page: Page, runs: Runs) -> None:
    settings, pipeline = runs.settings, catalogue.get(runs.settings, NAME)
    runs.verdict(runs.recompute())
    record_passed(settings, pipeline)
    runs.unpause(f"{NAME}_cutover")
    run = runs.trigger(f"{NAME}_cutover")
    until(lambda: tell_state(runs, run), within=3 * MINUTE)

    log_in(page, runs, "viewer")
    answer(page, runs, run)
    page.wait_for_text("You do not have permission to perform this action.")
    assert (tell_state(runs, run) != "success", str(current_stage(settings, pipeline))) == (True, "LAMBDA")

    with running_browser(online=True) as other:
        log_in(other, runs, instance.ADMIN)
        answer(other, runs, run)
        assert runs.wait(f"{NAME}_cutover", run, title="moves") == "success"
    row = control_tables.read(settings, "gate", NAME)[-1]
    assert (str(current_stage(settings, pipeline)), row["who"], row["why"]) == ("SHADOW", "airflow:admin", WHY)
