"""Two workers of a real cluster run both paths; one executor of each is killed on the way: the same tables."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
from pyspark.sql import SparkSession

from cutover.batch import recompute
from cutover.engine import queries
from cutover.infra.cli.installation import Cluster, open_cluster
from cutover.infra.processes import family
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.process import Identity, is_alive
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.servers.broker import stop_group
from tests.support.suite.until import until

EXECUTOR = "CoarseGrainedExecutorBackend"
CAP = 2000
EVENTS = [Event(id=i, minute=i / 300, key="abc"[i % 3], partition=i % 4) for i in range(3 * CAP)]
LATE = [Event(id=9000 + i, minute=0, logged=20, partition=i % 4) for i in range(8)]
CLOSING = [Event(id=9900 + i, minute=60, partition=i % 4) for i in range(4)]
WITHIN = 180.0


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a running cluster of two workers."""
    with open_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


def batch_rows(settings: Settings, topic: str) -> list[tuple[Any, ...]]:
    """Return the batch table, in order."""
    connection = queries.open_duckdb()
    delta.relation(connection, "batch", PipelineLake(settings, rig.pipeline(topic)).batch_uri())
    query = "SELECT epoch_us(window_start), k, clicks, ids, squares, newest FROM batch ORDER BY ALL"
    return list(connection.execute(query).fetchall())


def run_and_kill(settings: Settings, topic: str, workers: Cluster, path: Literal["stream", "batch"]) -> str:
    """Run a path on the cluster, kill the executor that has a task, wait for the end; return Spark's output."""
    marker, log = settings.home / f"{path}.marker", settings.home / f"{path}.log"
    arguments = {
        "home": str(settings.home),
        "bootstrap": settings.kafka.bootstrap_servers,
        "topic": topic,
        "cap": CAP,
        "path": path,
        "spark": {"master": workers.master, "conf": dict(workers.conf())},
        "marker": str(marker),
    }
    with log.open("wb") as log_file:
        command = [sys.executable, "-m", "tests.cluster.path_on_cluster", json.dumps(arguments)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, start_new_session=True
        )
    try:
        until(lambda: process.poll() is not None or "ready" in said_in(marker), WITHIN)
        executors = until(lambda: executors_of(workers), WITHIN)
        for executor in executors:
            os.kill(executor.pid, signal.SIGSTOP)
        Path(f"{marker}.go").touch()
        until(lambda: "running" in said_in(marker), WITHIN)
        victim = next(executor for executor in executors if listens(executor, int(said_in(marker)["running"])))
        os.kill(victim.pid, signal.SIGKILL)
        for executor in executors:
            if executor != victim:
                os.kill(executor.pid, signal.SIGCONT)
        code = process.wait(WITHIN)
    finally:
        stop_group(process)
    text = log.read_text(encoding="utf-8", errors="replace")
    assert code == 0, text[-3000:]
    assert not is_alive(victim)
    return text


def executors_of(workers: Cluster) -> list[Identity]:
    """Return the executors, one of each worker; empty until all are registered."""
    executors_by_worker = [list_executors(worker) for worker in workers.workers]
    return [executor for of_worker in executors_by_worker for executor in of_worker] if all(executors_by_worker) else []


def list_executors(worker: Identity) -> list[Identity]:
    """List living executors under a worker; other children of it are none."""
    return [member for member in family.family(worker) if member.pid != worker.pid and is_executor(member)]


def is_executor(member: Identity) -> bool:
    try:
        return EXECUTOR in " ".join(psutil.Process(member.pid).cmdline())
    except psutil.Error:
        return False


def said_in(marker: Path) -> dict[str, str]:
    """Return the lines of the marker: each word with its value."""
    words = marker.read_text(encoding="utf-8").split() if marker.exists() else []
    return {word: value for word, _, value in (word.partition(":") for word in words)}


def listens(process: Identity, port: int) -> bool:
    """Return whether a process listens on a port."""
    sockets = psutil.Process(process.pid).net_connections()
    return any(socket.laddr.port == port for socket in sockets if socket.status == psutil.CONN_LISTEN)


@pytest.mark.timeout(600)
def test_tables_are_the_same_when_an_executor_dies_in_each_path(
    kafka_settings: Settings,
    topic_name: str,
    workers: Cluster,
    tmp_path: Path,
    spark: SparkSession,  # noqa: ARG001
) -> None:
    settings, pipeline = rig.fast(kafka_settings), rig.pipeline(topic_name, cap=CAP)
    alone = settings.model_copy(update={"home": tmp_path})
    rig.make_topic(settings, topic_name, partitions=4)
    rig.send(settings, topic_name, [*EVENTS, *LATE, *CLOSING])

    outputs = [
        run_and_kill(settings, topic_name, workers, "stream"),
        run_and_kill(settings, topic_name, workers, "batch"),
    ]
    driver.run_driver(PipelineLake(alone, pipeline), until="drain")
    recompute.recompute_windows(PipelineLake(alone, pipeline))

    assert ["Lost executor" in text for text in outputs] == [True, True]
    lake = PipelineLake(settings, pipeline)
    assert rig.gaps(rig.records(lake)) == []
    assert rig.expect_cells([*EVENTS, *LATE, *CLOSING]) == rig.count_by_cell(lake)
    assert batch_rows(alone, topic_name) == batch_rows(settings, topic_name)
    assert run_reconciliation(lake).finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
    assert sum(sum(r.counts.values()) for r in rig.records(lake)) == len(EVENTS) + len(LATE) + 4
