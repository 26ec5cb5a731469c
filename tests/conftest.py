"""Fixtures for every kind of test: real servers once a session, cheap things of its own for each test."""

import os
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cutover.settings import KafkaSettings, Settings, SparkSettings
from tests.support import capabilities
from tests.support.broker import running_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """Give the main module of a worker a file: without one Spark's Connect takes it for a doctest, and exits."""
    main = sys.modules["__main__"]
    if hasattr(config, "workerinput") and not hasattr(main, "__file__"):
        main.__file__ = pytest.__file__


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Settle what a test has shown once its own part is over."""
    yield
    if call.when == "call":
        capabilities.settle(item.nodeid, passed=call.excinfo is None)


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a real broker, started once. `CUTOVER_TEST_BOOTSTRAP` names one that runs already."""
    running = os.environ.get("CUTOVER_TEST_BOOTSTRAP")
    if running:
        yield running
        return
    with running_broker(tmp_path_factory.mktemp("broker")) as ports:
        yield f"127.0.0.1:{ports.broker}"


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return settings with a home of this test's own and no broker: for tests that need no log."""
    return Settings(home=tmp_path_factory.mktemp("home"), spark=SparkSettings(master="local[2]", driver_memory="1g"))


@pytest.fixture
def kafka_settings(settings: Settings, kafka_bootstrap: str) -> Settings:
    """Return this test's settings with the session's broker."""
    return settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers=kafka_bootstrap)})


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """Return a topic name that no other test uses."""
    base = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60]
    return f"{base}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Return the session that the paths use, made once."""
    from cutover.engine.spark import session  # noqa: PLC0415 -- tests without Spark do not pay for it

    home = tmp_path_factory.mktemp("spark")
    created = session(Settings(home=home, spark=SparkSettings(master="local[2]", driver_memory="1g")), app="tests")
    yield created
    created.stop()
