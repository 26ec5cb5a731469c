"""The DAGs in a real Airflow, over a real broker: what ends is started again, and what is stopped stays stopped."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from confluent_kafka import Producer
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from cutover.errors import CutoverError
from cutover.infra import installation
from cutover.infra.airflow import instance
from cutover.infra.demo.runs import Runs
from cutover.infra.processes.supervisor import Supervisor
from cutover.log.kafka import LogClient
from cutover.process import is_alive, parse_identity
from cutover.settings import KafkaSettings, MetricsSettings, Settings
from tests.support.servers.alerting import Hook, listening
from tests.support.suite.until import until

MINUTE = 60.0
TOPIC = "chain"
HOUR = 3_600_000  # milliseconds
SERVICES = {"scheduler", "dag-processor", "api-server"}
DEFINITION = """
from cutover.definition import Count, Fixed, Pipeline, Sum, Topic

chain = Pipeline(
    name="chain",
    source=Topic(
        name="chain", schema="shop string, amount bigint, at timestamp", event_time="at", time_format="millis"
    ),
    key=("shop",), window=Fixed(hours=1), measures={"sales": Count(), "amount": Sum("amount")}, max_rows_per_epoch=200,
)
"""
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def collector() -> Iterator[tuple[str, Hook]]:
    """A collector of OpenTelemetry's metrics: its address, and the messages that came."""
    with listening(parse=ExportMetricsServiceRequest.FromString) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def runs(collector: tuple[str, Hook], kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """An installation of this module's own; its stream has read 1,000 records."""
    pipelines = tmp_path_factory.mktemp("pipelines")
    (pipelines / "chain.py").write_text(DEFINITION)
    kafka = KafkaSettings(bootstrap_servers=kafka_bootstrap)
    settings = Settings(
        home=tmp_path_factory.mktemp("home"),
        pipelines=pipelines,
        kafka=kafka,
        metrics=MetricsSettings(airflow_port=urlsplit(collector[0]).port),
    )
    with suppress(CutoverError):
        LogClient(settings).create_topic(TOPIC, partitions=2, config={"retention.ms": "-1"})
    send(settings, first_number=0, count=1_000)
    running = installation.start_installation(settings, broker_only=False, report_progress=lambda _: None)
    new_runs = Runs(api=instance.api(settings, running.ports), settings=settings, pipeline="chain")
    try:
        streaming(new_runs)
        yield new_runs
    finally:
        installation.stop_installation(settings, report_progress=lambda _: None)
    assert Supervisor(settings.home.resolve()).leftovers() == []


def send(settings: Settings, *, first_number: int, count: int) -> None:
    """Send sales, 100 an hour."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 20})
    for number in range(first_number, first_number + count):
        at = 1_700_000_000_000 + number * HOUR // 100
        value = {"shop": "abc"[number % 3], "amount": number, "at": at}
        producer.produce(TOPIC, json.dumps(value).encode(), partition=number % 2, timestamp=at)
    producer.flush()


def streaming(runs: Runs) -> dict[str, Any]:
    """Return the heartbeat of a driver that has read everything, started if there is none."""
    runs.start_stream()
    runs.read_all(not_before=datetime.now(UTC))
    return runs.heartbeat()


def alive(beat: dict[str, Any]) -> bool:
    identity = parse_identity(beat)
    return identity is not None and is_alive(identity)


def stream_run(runs: Runs) -> str:
    dag_runs = runs.api.get("dags/chain_stream/dagRuns", order_by="-run_after", limit=1)["dag_runs"]
    return str(dag_runs[0]["dag_run_id"])


def triggerer(runs: Runs) -> int | None:
    """Return the job of the triggerer that watches the stream's task; None while none does."""
    task = runs.api.get(f"dags/chain_stream/dagRuns/{quote(stream_run(runs), safe='')}/taskInstances/drive")
    job = task["triggerer_job"] if task["state"] == "deferred" else None
    return None if job is None else int(job["id"])


def stream_log(runs: Runs) -> str:
    """Return the whole log of the newest stream task's newest try, as text."""
    base = f"dags/chain_stream/dagRuns/{quote(stream_run(runs), safe='')}/taskInstances/drive"
    attempt = runs.api.get(base)["try_number"]
    lines = runs.api.get(f"{base}/logs/{attempt}", full_content=True)["content"]
    return "\n".join(str(line["event"]) if isinstance(line, dict) else str(line) for line in lines)


def test_killed_driver_is_started_again_and_goes_on_after_its_last_epoch(runs: Runs) -> None:
    heartbeat_before = streaming(runs)
    os.kill(heartbeat_before["pid"], signal.SIGKILL)

    until(lambda: runs.heartbeat()["pid"] != heartbeat_before["pid"] and alive(runs.heartbeat()), within=3 * MINUTE)

    assert not alive(heartbeat_before)
    epoch = heartbeat_before["epoch"]
    until(lambda: f"epoch {epoch} committed, resumed at {epoch + 1}" in stream_log(runs), within=MINUTE)


def test_killed_triggerer_leaves_the_driver_alone_and_the_next_one_watches_it(runs: Runs) -> None:
    heartbeat_before = streaming(runs)
    watched = until(lambda: triggerer(runs), within=MINUTE)
    supervisor = Supervisor(runs.settings.home.resolve())
    (killed,) = [state.pid for state in supervisor.states() if state.name == "triggerer"]
    os.kill(killed, signal.SIGKILL)

    until(lambda: triggerer(runs) not in {None, watched}, within=4 * MINUTE)

    assert alive(heartbeat_before)
    assert runs.heartbeat()["pid"] == heartbeat_before["pid"]
    assert runs.api.state("chain_stream", stream_run(runs)) == "running"


def test_killed_services_come_back_and_the_driver_has_gone_on_without_them(runs: Runs) -> None:
    heartbeat_before = streaming(runs)
    supervisor = Supervisor(runs.settings.home.resolve())
    killed = {state.name: state.pid for state in supervisor.states() if state.name in SERVICES}
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    send(runs.settings, first_number=1_000, count=100)

    until(lambda: runs.heartbeat()["epoch"] > heartbeat_before["epoch"], within=MINUTE)
    until(lambda: killed.items().isdisjoint({s.name: s.pid for s in supervisor.states()}.items()), within=MINUTE)
    until(runs.api.is_healthy, within=3 * MINUTE)

    assert killed.keys() == SERVICES
    assert alive(heartbeat_before)
    assert runs.heartbeat()["pid"] == heartbeat_before["pid"]
    assert runs.api.state("chain_stream", stream_run(runs)) == "running"


def test_batch_run_is_followed_by_the_report_on_its_cut(runs: Runs) -> None:
    streaming(runs)

    verdict = runs.wait_verdict(runs.recompute())

    assert (verdict.verdict, verdict.exit_code) == ("CONSISTENT", 0)


def test_a_collector_is_sent_the_metrics_of_airflow(runs: Runs, collector: tuple[str, Hook]) -> None:
    streaming(runs)
    runs.recompute()  # a task that only waits reports no end

    def read_names() -> set[str]:
        return {
            metric.name
            for path, message in collector[1].got
            if path == "/v1/metrics"
            for resource in message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    until(lambda: {"airflow.scheduler_heartbeat", "airflow.ti_successes"} <= read_names(), within=MINUTE)


def test_task_stopped_by_hand_stops_the_driver(runs: Runs) -> None:
    heartbeat_before = streaming(runs)
    run = stream_run(runs)
    task = f"dags/chain_stream/dagRuns/{quote(run, safe='')}/taskInstances/drive"
    until(lambda: runs.api.get(task)["state"] == "deferred", within=MINUTE)
    runs.api.patch(task, {"new_state": "failed"})

    until(lambda: not alive(heartbeat_before), within=2 * MINUTE)

    assert runs.heartbeat()["state"] == "STOPPED"
    assert runs.api.wait("chain_stream", run, MINUTE) == "failed"


def test_cleared_task_goes_on_with_one_driver(runs: Runs) -> None:
    heartbeat_before = streaming(runs)
    run = stream_run(runs)
    runs.api.post("dags/chain_stream/clearTaskInstances", {"dag_run_id": run, "only_failed": False, "dry_run": False})

    until(lambda: runs.heartbeat()["pid"] != heartbeat_before["pid"] and alive(runs.heartbeat()), within=3 * MINUTE)

    assert not alive(heartbeat_before)
    assert runs.api.state("chain_stream", run) == "running"
