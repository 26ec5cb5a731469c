"""A rig for each fault, and a line of its result."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cutover.settings import Settings
from tests.faults.fault import Fault, Part
from tests.faults.running.rig import Rig, new_rig
from tests.integration.streaming import rig as small
from tests.support.servers.broker import Broker

SEED = int(os.environ.get("CUTOVER_FAULT_SEED", "20261121"))
LINE = "fault"
"""Property of a report: the line of a fault's result."""

RESULTS = Path(os.environ.get("CUTOVER_FAULT_RESULTS", "build/faults.jsonl"))


@pytest.fixture
def rig_of(
    request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Fault], Rig]]:
    """Return a function that makes the installation a fault needs; all of it ends with the test."""
    rigs: list[Rig] = []
    brokers: list[Broker] = []

    def make(fault: Fault) -> Rig:
        bootstrap = None
        if Part.BROKER in fault.needs:
            brokers.append(Broker(tmp_path_factory.mktemp("broker")))
            brokers[0].start()
            bootstrap = brokers[0].bootstrap
        elif Part.KAFKA in fault.needs:
            bootstrap = str(request.getfixturevalue("kafka_bootstrap"))
        if Part.SPARK in fault.needs:
            request.getfixturevalue("spark")
        own_broker = brokers[0] if brokers else None
        rigs.append(new_rig(settings, fault, seed=SEED, bootstrap=bootstrap, broker=own_broker))
        if bootstrap is not None:
            small.make_topic(rigs[0].settings, rigs[0].topic, partitions=fault.partitions)
        return rigs[0]

    yield make
    for rig in rigs:
        rig.close()
    for broker in brokers:
        broker.stop()


class Lines:
    """A plugin that writes a fault's line to the terminal, also where a worker ran it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write what the test has recorded."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        for name, line in report.user_properties if report.when == "teardown" else ():
            if name == LINE and reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(str(line))


def pytest_configure(config: pytest.Config) -> None:
    """Print the lines of faults where the terminal is: not in a worker."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Lines(config))
