"""A real driver and real tasks, scraped by a real Prometheus: every panel of the dashboard has an answer."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from cutover.batch import recompute
from cutover.clock import SystemClock
from cutover.driver_state import read_driver_state
from cutover.errors import LakeError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate import stage
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.record import verify_and_record
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.status import make_status, write_metrics_file
from cutover.settings import KafkaSettings, MetricsSettings, Settings
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.drivers.background import Background
from tests.support.servers.alerting import fetch, find_program, prometheus
from tests.support.suite.until import until

ROOT = Path(__file__).resolve().parents[3]
BOARD = json.loads((ROOT / "infra" / "dashboards" / "cutover.json").read_text(encoding="utf-8"))
QUERIES = [
    (panel["title"], target["expr"].replace("$pipeline", ".*").replace("$__rate_interval", "1m"))
    for panel in BOARD["panels"]
    for target in panel["targets"]
]
CONFIG = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ['RULES']
scrape_configs:
  - job_name: cutover-driver
    file_sd_configs: [{files: ['FOLDER/targets/*.json'], refresh_interval: 1s}]
  - job_name: files
    static_configs: [{targets: ['FILES']}]
"""


@contextlib.contextmanager
def files_served(folder: Path) -> Iterator[str]:
    """Serve all text files as node_exporter does; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(b"".join(path.read_bytes() for path in sorted(folder.glob("*.prom"))))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def run_tasks(lake: PipelineLake) -> None:
    """Run each task once, and look once."""
    recompute.recompute_windows(lake)
    run_reconciliation(lake)
    verify_and_record(lake, only=["N3"])
    stage.move(lake, "advance", "to be refused", SystemClock())
    write_metrics_file(lake.settings, make_status(FactCollector(lake, SystemClock()).collect()))


@pytest.fixture(scope="module")
def address(spark: SparkSession, kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Drive a stream, run each task, and let Prometheus scrape both; yields its address."""
    find_program("prometheus")
    home = tmp_path_factory.mktemp("metrics")
    kafka, metrics = KafkaSettings(bootstrap_servers=kafka_bootstrap), MetricsSettings(port=0)
    settings = rig.fast(Settings(home=home, kafka=kafka, metrics=metrics, pipelines=home / "pipelines"))
    topic = f"metrics-{spark.sparkContext.applicationId}"
    pipeline = rig.pipeline(topic)
    rig.make_topic(settings, topic, partitions=2)
    rig.send(settings, topic, [Event(id=i, minute=i * 0.5, partition=i % 2) for i in range(200)])
    lake = PipelineLake(settings, pipeline)
    driver = Background(lake)
    until(lambda: driver.failure or _is_read(lake), within=120)
    assert driver.failure is None
    run_tasks(lake)
    rules = ROOT / "infra" / "alerts" / "cutover.rules.yml"
    with files_served(settings.metrics_dir) as files:
        config = CONFIG.replace("RULES", str(rules)).replace("FOLDER", str(settings.metrics_dir))
        with prometheus(home / "prometheus", config.replace("FILES", files)) as prometheus_address:
            until(lambda: len(result(prometheus_address, "count_over_time(up[1m]) >= 3 and up == 1")) == 2, within=60)
            yield prometheus_address
    driver.stop()
    assert driver.failure is None
    assert read_driver_state(settings, pipeline.name).state == "STOPPED"


def _is_read(lake: PipelineLake) -> bool:
    """Return whether all 200 records are committed."""
    with contextlib.suppress(LakeError, AssertionError):
        records = rig.records(lake)
        return bool(records) and sum(records[-1].end.values()) >= 200
    return False


def result(address: str, query: str) -> list[dict[str, Any]]:
    answer = fetch(f"{address}/api/v1/query?query={quote(query)}") or {"data": {"result": []}}
    series: list[dict[str, Any]] = answer["data"]["result"]
    return series


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_panel_has_an_answer(address: str, title: str, query: str) -> None:
    series = result(address, query)

    assert series, title
    assert {sample["metric"].get("pipeline") for sample in series} == {"clicks"}


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("cutover_stream_read_records_total", 200),
        ("sum(cutover_stream_records_total)", 200),
        ("sum(cutover_stream_unread_offsets)", 0),
        ("cutover_watch_driver_alive", 1),
        ("sum(cutover_task_failed)", 0),
        ("count(cutover_task_failed)", 4),
        ('cutover_verify_check{check="N3", state="held"}', 1),
        ('cutover_gate_stage{stage="LAMBDA"}', 1),
        ('cutover_gate_allowed{move="advance"}', 0),
        ("max(cutover_batch_epoch) <= bool max(cutover_stream_epoch)", 1),
        ("sum(cutover_reconciliation_verdict)", 1),
    ],
)
def test_numbers_are_those_of_the_run(address: str, query: str, value: float) -> None:
    assert [float(sample["value"][1]) for sample in result(address, query)] == [value]


def test_rules_run_and_are_sound_on_these_metrics(address: str) -> None:
    until(lambda: result(address, 'ALERTS{alertname="AlwaysFiring"}'), within=30)
    groups = fetch(f"{address}/api/v1/rules")["data"]["groups"]

    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
    assert result(address, 'ALERTS{alertname=~"Watch.*|Driver.*|TaskFailed"}') == []
