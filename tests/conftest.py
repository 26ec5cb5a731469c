"""Fixtures for every kind of test: real servers once a session, new cheap ones for each test."""

import contextlib
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutover.settings import KafkaSettings, Settings
from tests.support.comparison import twice
from tests.support.pages import capabilities
from tests.support.servers.broker import running_broker
from tests.support.suite import schedule, tiers
from tests.support.suite.depth import register
from tests.support.suite.quick_spark import INTERPRETED, QUICK, QUICK_CONF

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register()

BOOTSTRAP = "CUTOVER_TEST_BOOTSTRAP"
os.environ.setdefault("CUTOVER_SPARK__CONF", json.dumps(QUICK_CONF))  # for commands that tests start, Airflow's too
if "CUTOVER_TEST_COMPILED" not in os.environ:
    os.environ.setdefault("SPARK_CONF_DIR", str(INTERPRETED))


def pytest_configure(config: pytest.Config) -> None:
    """Give the main module of a worker a file: without one Spark's Connect takes it for a doctest, and exits."""
    main = sys.modules["__main__"]
    if hasattr(config, "workerinput") and not hasattr(main, "__file__"):
        main.__file__ = pytest.__file__


def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` starts."""
    return schedule.workers()


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Start the broker that all workers share, and note what their tests take, until the run ends."""
    durations = schedule.Durations()
    config.pluginmanager.register(durations)
    running = contextlib.ExitStack()
    config.add_cleanup(running.close)
    if BOOTSTRAP not in os.environ:
        home = running.enter_context(tempfile.TemporaryDirectory(prefix="cutover-broker-"))
        ports = running.enter_context(running_broker(Path(home)))
        os.environ[BOOTSTRAP] = f"127.0.0.1:{ports.broker}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> schedule.LongestFirst:
    """Return what hands the tests out."""
    return schedule.LongestFirst(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the long tests, select those of a part, and order those of a worker, the same way in each."""
    tiers.mark(items)
    if part := os.environ.get("CUTOVER_TEST_PART"):
        selected = set(schedule.select_part([item.nodeid for item in items], part))
        items[:] = [item for item in items if item.nodeid in selected]
    if hasattr(config, "workerinput"):
        schedule.sort(items)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Settle what a test has shown once its own part is over."""
    yield
    if call.when == "call":
        capabilities.settle(item.nodeid, has_passed=call.excinfo is None)


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a real broker, started once; `CUTOVER_TEST_BOOTSTRAP` names one that runs already."""
    running = os.environ.get(BOOTSTRAP)
    if running:
        yield running
        return
    with running_broker(tmp_path_factory.mktemp("broker")) as ports:
        yield f"127.0.0.1:{ports.broker}"


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return settings with a home of this test's own and no broker: for tests that need no log."""
    return Settings(home=tmp_path_factory.mktemp("home"), spark=QUICK)


@pytest.fixture
def kafka_settings(settings: Settings, kafka_bootstrap: str) -> Settings:
    """Return this test's settings with the session's broker."""
    return settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers=kafka_bootstrap)})


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """Return a topic name that no other test uses."""
    base = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60]
    return f"{base}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def comparisons_twice() -> Iterator[None]:
    """Let each comparison of a module run twice, and give the same bytes."""
    with twice.comparisons():
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Return the session that the paths use, made once."""
    from cutover.engine.spark import session  # noqa: PLC0415 -- tests without Spark do not pay for it

    home = tmp_path_factory.mktemp("spark")
    created = session(Settings(home=home, spark=QUICK), app="tests")
    yield created
    created.stop()
