"""Five ordinary days of flights: what an operator does to a healthy installation raises no alert that no page names."""

import csv
import gzip
import json
import math
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from cutover import driver_state
from cutover.cli.app import main
from cutover.clock import Point, SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.infra.demo.demonstration import SAMPLE
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.status import make_status
from cutover.settings import Settings
from cutover.timestamps import to_micros
from tests.faults.running.child import Child
from tests.faults.running.clocks import WrongClock
from tests.faults.running.task import Task
from tests.integration.streaming import rig
from tests.support.suite.until import until

NAME = "flights"
HOUR, DAY = 3_600, 86_400
DEFINITION = Path(__file__).parents[3] / "pipelines" / f"{NAME}.py"
FIRST, DAYS = datetime(2013, 1, 1, tzinfo=UTC), 5
RATE_SECONDS = 7_200.0
"""Shares are computed over all epochs of a day, however slow the machine is."""


@dataclass(slots=True)
class Installation:
    """A home whose commands run in this process and whose drivers run in their own, all by one clock."""

    settings: Settings
    file: Path
    read_output: Callable[[], str]
    offset: timedelta = timedelta(0)  # of the clock, ahead of the machine's
    driver: Child | None = None
    drivers: list[Child] = field(default_factory=list)
    watching: FactCollector | None = None  # one that collects repeatedly, as `cutover watch` does
    compared: list[tuple[str, dict[str, int]]] = field(default_factory=list)  # verdict, records by cause

    @property
    def pipeline(self) -> Pipeline:
        return catalogue.get(self.settings, NAME)

    @property
    def topic(self) -> str:
        return self.pipeline.source.name

    def run(self, *words: str) -> str:
        """Run a command that has to end with 0, and return what it prints."""
        self.read_output()
        code = main([*words])
        printed = self.read_output()
        assert code == 0, f"cutover {' '.join(words)}: exit code {code}: {printed}"
        return printed

    def produce(self, day: int) -> None:
        """Send the records of a day, in order of their log time."""
        start = FIRST + timedelta(days=day)
        bounds = ("--from", start.isoformat(), "--to", (start + timedelta(days=1)).isoformat())
        self.run("produce", str(self.file), "--pipeline", NAME, "--partitions", "2", *bounds)

    def start(self, *, block: tuple[Point, int | None] | None = None) -> None:
        """Start a driver in a separate process."""
        task = Task(
            role="stream",
            settings=rig.fast(self.settings),
            make=partial(catalogue.get, self.settings, NAME),
            trace=self.settings.home / f"driver-{len(self.drivers)}.trace",
            block=block,
            clock=WrongClock(self.offset.total_seconds()),
        )
        self.driver = Child(task)
        self.drivers.append(self.driver)

    @property
    def running(self) -> Child:
        """Return the driver that was started last."""
        assert self.driver is not None
        return self.driver

    def stop(self) -> None:
        """Let the driver end after the epoch in hand."""
        assert self.running.stop() == 0, self.running.tail()
        self.driver = None

    def await_read(self) -> None:
        """Wait until the driver has read all that is in the log."""
        ends = LogClient(self.settings).latest(self.topic)

        def has_read() -> bool:
            assert self.running.process.poll() is None, self.running.tail()
            newest = rig.records(PipelineLake(self.settings, self.pipeline))[-1]
            return all(newest.end.get(partition, 0) >= end for partition, end in ends.items())

        self.running.await_point("epoch.committed")
        until(has_read, 120.0)

    def reconcile(self) -> None:
        """Compare, and keep the verdict with the number of records behind each cause."""
        answer = json.loads(self.run("reconcile", NAME, "--json"))
        causes = {name: cause["events"] for name, cause in answer["causes"].items() if cause["rows"]}
        self.compared.append((str(answer["verdict"]), causes))

    def watch(self) -> set[str]:
        """Look once by the command and once by a watch that runs on; return the alerts that fire."""
        answer = json.loads(self.run("watch", NAME, "--once", "--json"))
        self.watching = self.watching or FactCollector(PipelineLake(self.settings, self.pipeline), SystemClock())
        running = make_status(self.watching.collect())
        assert (answer["undecided"], running.undecided) == ([], ())
        by_command = {alert["name"]: alert["text"] for alert in answer["alerts"]}
        by_running = {alert.name: alert.text for alert in running.alerts}
        assert set(by_running) == set(by_command), f"{by_running} against {by_command}"
        return set(by_command)

    def count_late(self) -> list[int]:
        """Count the late records of each day from the file: a day is an epoch of two partitions."""
        with self.file.open(encoding="utf-8", newline="") as lines:
            events = [(int(row["arrival_time"]), int(row["event_time"])) for row in csv.DictReader(lines)]
        late, watermark = [], -math.inf
        newest = {0: -math.inf, 1: -math.inf}
        for day in range(DAYS):
            start = int((FIRST + timedelta(days=day)).timestamp())
            times = [event for logged, event in events if start <= logged < start + DAY]
            late.append(sum(event // HOUR * HOUR + HOUR + 2 * HOUR <= watermark for event in times))
            newest = {p: max([newest[p], *times[p::2]]) for p in newest}
            watermark = max(watermark, min(newest.values()) - HOUR // 2)
        return late


@pytest.fixture
def installation(
    kafka_settings: Settings,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Installation]:
    """Return an installation of the sample's definition, with a batch run a day, and the sample's first days."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    text = DEFINITION.read_text(encoding="utf-8")
    for was, now in (
        ('name="flights",\n        schema', f'name="{topic_name}",\n        schema'),
        ("@hourly", "@daily"),
        ("1 minute", "1 hour"),
    ):
        assert text.count(was) == 1
        text = text.replace(was, now)
    (folder / f"{NAME}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(kafka_settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(folder))
    monkeypatch.setenv("CUTOVER_ALERTS__RATE_SECONDS", str(RATE_SECONDS))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(kafka_settings.kafka.bootstrap_servers))
    alerts = kafka_settings.alerts.model_copy(update={"rate_seconds": RATE_SECONDS})
    settings = kafka_settings.model_copy(update={"pipelines": folder, "alerts": alerts})
    new_installation = Installation(settings, _write_days(tmp_path / "days.csv"), lambda: capsys.readouterr().out)
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(UTC) + new_installation.offset)
    measure_ahead = driver_state._measure_ahead  # the files of this machine are dated by the same clock
    monkeypatch.setattr(
        driver_state,
        "_measure_ahead",
        lambda at, mtime: measure_ahead(at, mtime + new_installation.offset.total_seconds()),
    )
    yield new_installation
    for driver in new_installation.drivers:
        driver.end()


def _write_days(file: Path) -> Path:
    """Write the records of the sample's first days, by log time."""
    end = int((FIRST + timedelta(days=DAYS)).timestamp())
    with gzip.open(SAMPLE, "rt", encoding="utf-8", newline="") as sample, file.open("w", newline="") as target:
        rows = csv.DictReader(sample)
        writer = csv.DictWriter(target, rows.fieldnames or ())
        writer.writeheader()
        for row in rows:  # in order of log time
            if int(row["arrival_time"]) >= end:
                break
            writer.writerow(row)
    return file


def _live(home: Installation) -> Iterator[str]:
    """Live through the days; yield after each step what was done."""
    yield from _read(home, 0)
    yield from _compare(home, "day 0")
    yield from _read(home, 1, killed=True)
    yield from _compare(home, "day 1")
    home.run("repair", NAME, "--window", "2013-01-02T15:00", "--publish", "--why", "requested by a reader")
    yield "day 1: a repair that changes nothing"
    yield from _read(home, 2)
    for table in (_epoch_log(home), PipelineLake(home.settings, home.pipeline).batch_uri()):
        DeltaTable(table).optimize.compact()
    yield "day 2: OPTIMIZE by another writer"
    yield from _compare(home, "day 2")
    home.run("batch", NAME, "--anew")
    home.reconcile()
    yield "day 2: compared with a batch from scratch"
    yield from _read(home, 3)
    yield from _compare(home, "day 3")
    _delete_before(home, FIRST + timedelta(days=1))
    yield "day 3: the first day leaves the log"
    yield from _compare(home, "day 3, without the first")
    yield from _pause(home)
    yield from _read(home, 4)
    yield from _compare(home, "day 4")
    home.run("batch", NAME, "--anew")
    home.reconcile()
    yield "day 4: compared with a batch from scratch"
    home.run("verify", NAME)
    yield "day 4: verified"


def _read(home: Installation, day: int, *, killed: bool = False) -> Iterator[str]:
    """Let a night pass, send a day's records, and let a new driver read them."""
    if home.driver is not None:
        home.stop()
        yield f"night {day}: the driver is stopped"
        home.offset += timedelta(days=1)
    home.produce(day)
    if killed:
        home.start(block=("epoch.aggregated", None))
        home.running.marker()
        assert home.running.kill() == -signal.SIGKILL
        yield f"day {day}: the driver is killed"
    home.start()
    home.await_read()
    yield f"day {day}: read"


def _compare(home: Installation, label: str) -> Iterator[str]:
    home.run("batch", NAME)
    yield f"{label}: batch"
    home.reconcile()
    yield f"{label}: compared"


def _pause(home: Installation) -> Iterator[str]:
    """Let six hours pass in which no one sends; batch and comparison keep their schedule."""
    home.stop()
    home.offset += timedelta(hours=6)
    home.start()
    home.running.await_point("start.read")
    yield "pause of six hours"
    yield from _compare(home, "pause")


def _delete_before(home: Installation, moment: datetime) -> None:
    """Delete the records of earlier days, as retention does."""
    offsets = LogClient(home.settings).offsets_for_time(home.topic, to_micros(moment))
    places = [TopicPartition(home.topic, partition, offset) for partition, offset in offsets.items() if offset]
    admin = AdminClient({"bootstrap.servers": str(home.settings.kafka.bootstrap_servers)})
    for answer in admin.delete_records(places).values():
        answer.result(30)


def _epoch_log(home: Installation) -> str:
    return rig.epoch_log(PipelineLake(home.settings, home.pipeline)).uri


LATE, QUIET, NO_ALERT = {"LateRateHigh"}, {"NoInput"}, set[str]()
"""What docs/runbooks name for these days: late records beyond the policy's share, and a topic to which no one sends."""

EXPECTED: Mapping[str, set[str]] = {
    "day 0: read": NO_ALERT,
    "day 0: batch": NO_ALERT,
    "day 0: compared": NO_ALERT,
    "night 1: the driver is stopped": NO_ALERT,
    "day 1: the driver is killed": NO_ALERT,
    "day 1: read": NO_ALERT,
    "day 1: batch": NO_ALERT,
    "day 1: compared": NO_ALERT,
    "day 1: a repair that changes nothing": NO_ALERT,
    "night 2: the driver is stopped": NO_ALERT,
    "day 2: read": LATE,
    "day 2: OPTIMIZE by another writer": LATE,
    "day 2: batch": LATE,
    "day 2: compared": LATE,
    "day 2: compared with a batch from scratch": LATE,
    "night 3: the driver is stopped": LATE,
    "day 3: read": LATE,
    "day 3: batch": LATE,
    "day 3: compared": LATE,
    "day 3: the first day leaves the log": LATE,
    "day 3, without the first: batch": LATE,
    "day 3, without the first: compared": LATE,
    "pause of six hours": QUIET,
    "pause: batch": QUIET,
    "pause: compared": QUIET,
    "night 4: the driver is stopped": QUIET,
    "day 4: read": NO_ALERT,
    "day 4: batch": NO_ALERT,
    "day 4: compared": NO_ALERT,
    "day 4: compared with a batch from scratch": NO_ALERT,
    "day 4: verified": NO_ALERT,
}


@pytest.mark.timeout(900)
def test_clean_days_raise_no_alert_that_no_page_names(installation: Installation) -> None:
    alerts_by_step = {step: installation.watch() for step in _live(installation)}

    late = list(accumulate(installation.count_late()))
    days = (0, 1, 2, 2, 3, 3, 3, 4, 4)
    assert late == [0, 0, 1, 2, 2]
    assert installation.compared == [("EXPLAINED", {"late": late[d]}) if late[d] else ("CONSISTENT", {}) for d in days]
    assert alerts_by_step == EXPECTED
