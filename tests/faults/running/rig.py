"""A fresh installation for one fault: its own home, lake, topic and pipeline; what it sends is kept by an oracle."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer

from cutover.batch.recompute import recompute_windows
from cutover.clock import Clock, Probe, SystemClock, silent
from cutover.definition import Pipeline
from cutover.errors import CutoverError
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.report import Report
from cutover.reconcile.verify.facts.facts import Verification
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.facts import Alert
from cutover.settings import KafkaSettings, Settings
from cutover.streaming import driver
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import Heartbeat
from tests.faults.fault import Fault
from tests.faults.running import producer
from tests.faults.running.child import Child
from tests.faults.running.definition import definition
from tests.faults.running.task import Place, Role, Task
from tests.integration.reconcile.lake_of import reconcile
from tests.integration.streaming import rig as small
from tests.integration.streaming.rig import Event
from tests.support.drivers.background import Background
from tests.support.oracle.records import Oracle, OracleRecord
from tests.support.oracle.verification import verify_with_oracle
from tests.support.servers.broker import Broker
from tests.support.suite.until import until

Value = TypeVar("Value")
WITHIN = 240.0  # a deadline, not a wait: far beyond what a quiet machine needs
NO_LIMIT = 1e12


class Rig:
    """One installation, and the actions that harm it."""

    def __init__(self, settings: Settings, topic: str, *, seed: str, broker: Broker | None = None) -> None:
        self.settings = small.fast(settings)
        settings.home.mkdir(parents=True, exist_ok=True)
        self.topic = topic
        self.seed, self.rng = seed, random.Random(seed)  # noqa: S311 -- one seed drives events and fault times
        self.make: Callable[[], Pipeline] = partial(definition, topic)
        self.oracle_file = settings.home / "oracle.jsonl"
        self.evidence: dict[str, Any] = {}
        self.sometimes: set[str] = set()
        self.exit_code: int | None = None  # of the process that had to stop
        self.said = ""  # its message
        self.seen: set[str] = set()  # alerts so far
        self.runs: list[BatchRun] = []
        self.reconciliations: list[Report] = []
        self._broker, self._children, self._background = broker, list[Child](), list[Background]()
        self._beside: list[Rig] = []
        self._endings: list[Callable[[], object]] = []
        self._watchers: dict[Path, FactCollector] = {}
        self.firing: tuple[Alert, ...] = ()  # at the last look
        self._next_id, self._minute = 0, 0.0

    @property
    def lake(self) -> PipelineLake:
        """Log, lake and definition of the pipeline."""
        return PipelineLake(self.settings, self.pipeline)

    # -- the installation

    @property
    def pipeline(self) -> Pipeline:
        """Return the definition; children build it again from `self.make`."""
        return self.make()

    def define(self, **changes: Any) -> Pipeline:
        """Change the definition: arguments of `tests.faults.running.definition.definition` (cap, lateness, policy)."""
        self.make = partial(definition, self.topic, **changes)
        return self.pipeline

    def tune(self, **changes: Any) -> None:
        """Change settings of `stream` for everything that starts from now on."""
        self.settings = small.fast(self.settings, **changes)

    @property
    def broker(self) -> Broker:
        """Return the broker that this fault may harm (`Part.BROKER`)."""
        assert self._broker is not None, "the fault does not need Part.BROKER, and must not harm the shared one"
        return self._broker

    @property
    def client(self) -> LogClient:
        """Return a client of the log."""
        return LogClient(self.settings)

    @property
    def version(self) -> Version:
        """Return the current version of the stream."""
        current = versions.find_current_version(self.lake)
        assert current is not None, "no driver ever began here"
        return current

    @property
    def table(self) -> Path:
        """Return the folder of the epoch log."""
        return Path(self.version.uri)

    def second_home(self) -> Settings:
        """Return another installation on the same lake and topic: its drivers do not see this one's lock."""
        home = self.settings.home / "second-home"
        home.mkdir(exist_ok=True)
        return self.settings.model_copy(update={"home": home, "lake": self.settings.lake_uri})

    def add_installation(self, name: str) -> "Rig":
        """Return another installation with a new lake on the same topic, with the same oracle."""
        settings = self.settings.model_copy(update={"home": self.settings.home / name, "lake": None})
        other = Rig(settings, self.topic, seed=f"{self.seed}/{name}")
        other.oracle_file, other.make = self.oracle_file, self.make
        self._beside.append(other)
        return other

    def second_topic(self) -> str:
        """Return a topic with one record that no oracle knows, for another pipeline of this installation."""
        name = f"{self.topic}-second"
        small.make_topic(self.settings, name)
        small.send(self.settings, name, [Event(id=0), Event(id=1)])
        return name

    # -- what is sent

    def draw(
        self,
        count: int,
        *,
        late: float = 0.0,
        keys: Sequence[str | None] = ("a", "b", None),
        partitions: Sequence[int] | None = None,
    ) -> list[Event]:
        """Return the next events of the seed: ids and log time continue, `late` is the share of those an hour behind.

        `partitions` None: all that the topic has now.
        """
        partitions = partitions or self.client.partitions(self.topic)
        events = []
        for _ in range(count):
            back = 60.0 if self.rng.random() < late else self.rng.uniform(0, 4)
            self._minute += self.rng.uniform(0, 0.6)
            events.append(
                Event(
                    id=self._next_id,
                    minute=max(0.0, self._minute - back),
                    logged=self._minute,
                    key=self.rng.choice(keys),
                    partition=self.rng.choice(partitions),
                )
            )
            self._next_id += 1
        return events

    def close_windows(self) -> None:
        """Send a record an hour later into each partition: windows of all that was drawn so far close by it."""
        self._minute += 60.0
        for partition in self.client.partitions(self.topic):
            event = Event(id=self._next_id, minute=self._minute, logged=self._minute, key="a", partition=partition)
            self._next_id += 1
            self.send([event])

    def send(
        self,
        events: Iterable[Event],
        *,
        mean: Callable[[Event], producer.Meant] | None = None,
        by: Producer | None = None,
        outcome: producer.Outcome | None = None,
        may_fail: bool = False,
        topic_id: str | None = None,
    ) -> list[OracleRecord]:
        """Send events and keep them in the oracle.

        Args:
            events: In order.
            mean: How each is meant (class, window, key); None: as the definition says of `Event`.
            by: A producer with other options, such as transactions; None: a plain one.
            outcome: What became of those that the broker took, where it is not `acked`: `aborted`.
            may_fail: Whether records that do not reach the log are part of the fault.
            topic_id: Of the topic; None: read from the broker.
        """
        topic_id = topic_id or self.client.topic_id(self.topic)
        reports = producer.deliver(by or producer.new(str(self.settings.kafka.bootstrap_servers)), self.topic, events)
        rows = producer.record(self.oracle_file, topic_id, reports, mean or producer.intend(self.pipeline), outcome)
        undelivered = [row for row in rows if row.offset is None]
        assert may_fail or not undelivered, f"{len(undelivered)} records did not reach the log"
        return rows

    @property
    def oracle(self) -> Oracle:
        """Return everything that was sent so far."""
        return Oracle.read(self.oracle_file)

    # -- what runs

    def start(
        self,
        *,
        block: Place | None = None,
        role: Role = "stream",
        until: driver.Until = "forever",
        clock: Clock | None = None,
        prepare: Callable[[], None] | None = None,
        settings: Settings | None = None,
        **changes: Any,
    ) -> Child:
        """Start a path in a separate process; `block` is a point and an epoch, `changes` are stream settings."""
        task = Task(
            role=role,
            settings=small.fast(settings or self.settings, **changes),
            make=self.make,
            trace=self.settings.home / f"child-{len(self._children)}.trace",
            block=block,
            until=until,
            clock=clock,
            prepare=prepare,
        )
        child = Child(task)
        self._children.append(child)
        return child

    def background(
        self, *, settings: Settings | None = None, clock: Clock | None = None, probe: Probe = silent, **changes: Any
    ) -> Background:
        """Start a driver in a thread of this process, on its Spark: for faults that kill no process."""
        started = Background(
            PipelineLake(small.fast(settings or self.settings, **changes), self.pipeline), clock=clock, probe=probe
        )
        self._background.append(started)
        return started

    def drain(self, *, clock: Clock | None = None, probe: Probe = silent, final: bool = False, **changes: Any) -> None:
        """Drive the stream in this process to the log's current ends."""
        goal: driver.Until = "final" if final else "drain"
        driver.run_driver(
            PipelineLake(small.fast(self.settings, **changes), self.pipeline), until=goal, clock=clock, probe=probe
        )

    def batch(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        anew: bool = False,
        probe: Probe = silent,
        clock: Clock | None = None,
    ) -> BatchRun | None:
        """Compute the batch at the newest cut: dirty windows, every closed window of a range, or everything."""
        run = recompute_windows(self.lake, start=start, end=end, anew=anew, probe=probe, clock=clock)
        if run is not None:
            self.runs.append(run)
        return run

    def reconcile(self, *, probe: Probe = silent, clock: Clock | None = None) -> Report:
        """Compare both sides at the newest batch run's cut."""
        report = reconcile(self.lake, probe=probe, clock=clock)
        self.reconciliations.append(report)
        return report

    def verify(self, only: Sequence[str] = ()) -> Verification:
        """Run the checks with the oracle, over all that the log holds."""
        return verify_with_oracle(self.lake, self.oracle, only=only)

    def expect_end(self, child: Child, timeout: float = WITHIN) -> int:
        """Wait for the process that had to stop; its exit code, message and alert are those of the fault."""
        self.exit_code = child.wait(timeout)
        self.said = child.output()
        self.alerts(child.task.settings)
        return self.exit_code

    def refused(self, act: Callable[[], object]) -> CutoverError:
        """Do what has to be refused, and keep exit code, message and alert as those of the fault."""
        with pytest.raises(CutoverError) as failure:
            act()
        error = failure.value
        self.exit_code, self.said = error.exit_code, str(error)
        if error.runbook is not None:
            self.seen.add(error.runbook)
        return error

    # -- what can be seen

    def records(self) -> list[EpochRecord]:
        """Return the records of all committed epochs; none before the first start."""
        version = versions.find_current_version(self.lake)
        if version is None or not delta.exists(version.uri):
            return []
        return small.records(self.lake)

    def newest(self) -> int:
        """Return the number of the newest committed epoch; -1 before the first."""
        records = self.records()
        return records[-1].epoch if records else -1

    def transaction(self) -> int | None:
        """Return the transaction number of the epoch log: the newest epoch, as the table's own log says it."""
        number = delta.open_table(self.version.uri).transaction_version(self.version.app_id)
        return None if number is None else int(number)

    def count_by_cell(self, classes: Sequence[str] = ("accepted", "late")) -> dict[small.Cell, small.Value]:
        """Return records, sum of ids and of squared ids by (window, key), straight from the table's rows."""
        return small.count_by_cell(self.lake, classes=classes)

    def unread(self) -> int:
        """Return the offsets between the newest epoch and the log's ends."""
        records, ends = self.records(), self.client.latest(self.topic)
        position = records[-1].end if records else {}
        return sum(end - position.get(partition, 0) for partition, end in ends.items())

    def beat(self, settings: Settings | None = None) -> Heartbeat | None:
        """Return what the driver last said of itself."""
        return heartbeat.find_heartbeat(settings or self.settings, self.pipeline.name)

    def alerts(self, settings: Settings | None = None) -> set[str]:
        """Return the names of the alerts that fire now (of another home of this lake, if given); they count as seen."""
        home_settings = settings or self.settings
        watcher = self._watchers.setdefault(
            home_settings.home, FactCollector(PipelineLake(home_settings, self.pipeline), SystemClock())
        )
        self.firing = list_firing(watcher.collect())
        names = {alert.name for alert in self.firing}
        self.seen |= names
        return names

    def events(self) -> list[dict[str, Any]]:
        """Return the events that all children logged."""
        return [event for child in self._children for event in child.events()]

    def until(self, read: Callable[[], Value], timeout: float = WITHIN) -> Value:
        """Poll `read()` until its value is true and return it; fail after `timeout` seconds."""
        return until(read, timeout, every=0.05)

    def note(self, name: str, value: Any) -> None:
        """Keep a piece of evidence for `happened` and for the results: numbers, short texts, no paths."""
        self.evidence[name] = value

    def saw(self, name: str) -> None:
        """Say that something happened that must happen somewhere in the whole set: redone, fenced, late, conflict."""
        self.sometimes.add(name)

    def at_end(self, act: Callable[[], object]) -> None:
        """Do something when the fault is over, however it ended."""
        self._endings.append(act)

    def close(self) -> None:
        """End whatever still runs."""
        for act in self._endings:
            act()
        for other in self._beside:
            other.close()
        for child in self._children:
            child.end()
        for thread in self._background:
            if thread.thread.is_alive():
                thread.stop()


def new_rig(settings: Settings, fault: Fault, *, seed: int, bootstrap: str | None, broker: Broker | None = None) -> Rig:
    """Return a rig for a fault; `bootstrap` None: without a log."""
    kafka = settings.kafka if bootstrap is None else KafkaSettings(bootstrap_servers=bootstrap)
    # What is sent is dated by the seed, so its distance from the driver's clock says nothing.
    limits = settings.alerts.model_copy(update={"skew_seconds": NO_LIMIT, **fault.limits})
    topic = f"{fault.name}-{time.time_ns():x}"
    rig_settings = settings.model_copy(update={"kafka": kafka, "alerts": limits})
    return Rig(rig_settings, topic, seed=f"{seed}/{fault.name}", broker=broker)
