"""Embedded stack of drills: a separate home, broker and pipeline, which end when the stack is closed.

`Records` is its producer, which sends valid records by default, and records with chosen defects.

A drill is defined by actions on the stack: the fault that causes its alert and the external part of the repair, with
scaled-down limits.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from cutover.clock import poll_until
from cutover.definition.loading import catalogue
from cutover.errors import CutoverError, LogError
from cutover.infra.processes.family import end_with_parent
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings

PARTITIONS = 2
CARRIERS: Sequence[str | None] = ("AA", "UA", None)
HISTORY_SECONDS, HISTORY_RECORDS = 1_200, 240
FLUSH_SECONDS = 30.0


class Records:
    """Producer of records for one topic; each record has a unique id unless one is given."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self.topic, self._next_id = bootstrap, topic, 0
        self._producer = self.make_producer()

    def make_producer(self, **options: object) -> Producer:
        """Make a Kafka producer for this log, with further options such as `transactional.id`."""
        producer_config = {
            "bootstrap.servers": self._bootstrap,
            "linger.ms": 1,
            "enable.idempotence": True,
            "log_level": 0,
        }
        return Producer({**producer_config, **options})

    def send_history(self) -> None:
        """Send the records of the last twenty minutes, in order of their times."""
        start = time.time() - HISTORY_SECONDS
        for n in range(HISTORY_RECORDS):
            self.send(1, at=start + n * HISTORY_SECONDS / HISTORY_RECORDS, flush=False)
        self.send(2 * PARTITIONS)

    def send(  # noqa: PLR0913 -- each parameter is one possible defect of a record
        self,
        count: int,
        *,
        at: float | None = None,
        logged: float | None = None,
        partition: int | None = None,
        carrier: str | None = "",
        extra: dict[str, Any] | None = None,
        raw: bytes | None = None,
        first_id: int | None = None,
        sender: Producer | None = None,
        flush: bool = True,
    ) -> None:
        """Send records, distributed over partitions and carriers.

        Args:
            count: Number of records.
            at: Event time, seconds since 1970; None: now.
            logged: Log timestamp, seconds since 1970; None: the event time, but not later than now.
            partition: Partition of all records; None: round robin.
            carrier: Carrier of all records; "": round robin.
            extra: Further fields.
            raw: Bytes to send in place of the record.
            first_id: Id of the first record, to send records twice; None: the next unused id.
            sender: Another producer.
            flush: Wait until the broker has acknowledged all records.

        Raises:
            LogError: A record was not acknowledged.
        """
        producer = sender or self._producer
        for n in range(count):
            number = self._allocate_id() if first_id is None else first_id + n
            now = time.time()
            event = now if at is None else at
            row = {"id": number, "carrier": carrier if carrier != "" else CARRIERS[number % 3], "at": int(event * 1000)}
            producer.produce(
                self.topic,
                raw if raw is not None else json.dumps(row | (extra or {})).encode(),
                partition=number % PARTITIONS if partition is None else partition,
                timestamp=int(1000 * (min(event, now) if logged is None else logged)),
            )
        if flush and producer.flush(FLUSH_SECONDS):
            msg = f"Topic {self.topic}: expected all records of the drill to be acknowledged, some were not."
            raise LogError(msg)

    def _allocate_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


PIPELINE = "flights"
"""Name of the pipeline in the runbooks, so that their commands can be run unchanged."""

COMMAND_SECONDS = 300.0
POLL_SECONDS = 0.25
COLUMNS = "500"  # lines of output are never wrapped

_DEFINITION = '''"""The pipeline of the drills."""

from cutover.definition import (
    Audit, BatchJob, Count, Delta, Fixed, Lateness, Max, Pipeline, Policy, SameDefinition, SparkStream, Sql, Sum, Topic
)

flights = Pipeline(
    name="flights",
    source=Topic(
        name="{topic}",
        schema="id bigint NOT NULL, carrier string, at timestamp NOT NULL",
        event_time="at",
        time_format="millis",
        record_id="id",{parse}
    ),
    key=("carrier",),
    where="carrier IS NULL OR carrier <> 'TEST'",
    window=Fixed(seconds=10),
    measures={{"flights": Count(), "ids": Sum("id"), "newest": Max("id")}},
    {time},
    batch={batch},
    policy=Policy(
        max_late_share=0.1, max_malformed_share=0.1, max_future_share=0.1, max_duplicate_share=0.1,
        max_filtered_share=0.1,
        audit=Audit(share=0.05, within_days=1, power=0.99),
        job_reads_within="{job_reads_within}",
    ),
    max_rows_per_epoch={cap},
)
'''
_OWN_TIME = """lateness=Lateness(
        out_of_orderness="2 seconds", allowed="0 seconds", idle_after="{idle_after}", max_ahead="{max_ahead}"
    )"""
_FOLLOWED_TIME = (
    """stream=SparkStream(table=Delta("{job}/table"), checkpoint="{job}/checkpoint", output_mode="append")"""
)
_DEFAULTS = {
    "idle_after": "20 seconds",
    "max_ahead": "1 hour",
    "batch": "SameDefinition()",
    "cap": "60",
    "follows_job": "",
    "job_reads_within": "1 hour",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """Result of a command: exit code, output and duration."""

    line: str
    exit_code: int
    printed: str
    errors: str
    seconds: float


class Stack:
    """Home of drills, with a broker and the pipeline `flights` on a separate topic.

    Commands run in child processes, as a user would run them. They see only this home: no setting and no file of the
    installation from which the drill was started.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / ".cutover"
        self.settings = Settings(
            home=self.home, pipelines=root / "pipelines", lake=None, stream_version=None, kafka=KafkaSettings()
        )
        self.limits: Mapping[str, object] = {}
        self.records: Records
        self._topics = 0
        self._parameters = dict(_DEFAULTS)

    @property
    def lake(self) -> PipelineLake:
        """Pipeline of this home, with its definition as commands load it."""
        return PipelineLake(self.settings, catalogue.get(self.settings, PIPELINE))

    # -- commands

    def environment(self) -> dict[str, str]:
        """Return the environment of commands: this process's without any setting, plus the settings of the stack."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CUTOVER_", "AIRFLOW"))}
        stack_settings = {
            "CUTOVER_HOME": str(self.home),
            "CUTOVER_PIPELINES": str(self.root / "pipelines"),
            "CUTOVER_STREAM__TRIGGER_SECONDS": "0.2",
            "CUTOVER_STREAM__HEARTBEAT_SECONDS": "0.5",
            "COLUMNS": COLUMNS,
            "NO_COLOR": "1",
        }
        scaled_limits = {f"CUTOVER_ALERTS__{name.upper()}": str(value) for name, value in self.limits.items()}
        return {**inherited, **stack_settings, **scaled_limits}

    def start(self, line: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command with further environment variables; it ends when this process does."""
        return subprocess.Popen(
            make_command(line),
            cwd=self.root,
            env=self.environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 -- one call to the kernel
        )

    def run(self, line: str, **variables: str) -> CommandEnd:
        """Run a command line that begins with `cutover`, and wait for its end."""
        began = time.monotonic()
        child = self.start(line, **variables)
        try:
            printed, errors = child.communicate(timeout=COMMAND_SECONDS)
        except BaseException:
            child.kill()
            child.wait()
            raise
        seconds = time.monotonic() - began
        return CommandEnd(line=line, exit_code=child.returncode, printed=printed, errors=errors, seconds=seconds)

    def require(self, line: str, *codes: int, **variables: str) -> CommandEnd:
        """Run a command and check that it ends with one of `codes` (0 if none is given).

        Raises:
            CutoverError: It ended with another exit code; the message has the end of its output.
        """
        completed = self.run(line, **variables)
        if completed.exit_code not in (codes or (0,)):
            output_end = "\n".join((completed.errors or completed.printed).splitlines()[-6:])
            expected = " or ".join(map(str, codes or (0,)))
            msg = f"Drill, `{line}`: expected exit code {expected}, got {completed.exit_code}:"
            raise CutoverError(f"{msg}\n{output_end}")  # noqa: EM102 -- the output follows
        return completed

    # -- the installation

    def open(self) -> None:
        """Start the broker on a free port of the loopback address."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.require("cutover up --broker-only")

    def close(self) -> None:
        """Stop all processes of this home."""
        if self.home.exists():
            self.run("cutover down")

    def reset(self) -> None:
        """Start over with a new topic with records and a new lake, on which both paths are up to date and compared."""
        if (self.home / "run" / PIPELINE).exists():
            self.run(f"cutover stream {PIPELINE} --stop")
        for folder in (self.home / "lake", self.home / "run" / PIPELINE, self.home / "reports"):
            shutil.rmtree(folder, ignore_errors=True)
        self._topics += 1
        self.make_topic()
        self.define(**_DEFAULTS)
        self.records = Records(self.client.bootstrap, self.topic)
        self.records.send_history()
        self.start_driver()
        self.await_read()
        self.require(f"cutover batch {PIPELINE}")
        self.require(f"cutover reconcile {PIPELINE}")

    def make_topic(self) -> None:
        """Create the topic, with unlimited retention."""
        self.client.create_topic(self.topic, partitions=PARTITIONS, config={"retention.ms": "-1"})

    def start_driver(self) -> None:
        """Start a detached driver, as Airflow's task does, unless one is running."""
        self.require(f"cutover stream {PIPELINE} --detach")

    def stop_driver(self) -> None:
        """Stop the driver after its current epoch."""
        self.require(f"cutover stream {PIPELINE} --stop")

    def await_read(self) -> None:
        """Wait until the driver has committed all records of the log.

        Raises:
            CutoverError: It has not within `COMMAND_SECONDS`.
        """

        def has_read_all() -> bool | None:
            version = versions.find_current_version(self.lake)
            latest = None if version is None or not delta.exists(version.uri) else EpochLog(version.uri).newest()
            ends = self.client.latest(self.topic)
            return None if latest is None or any(latest.end.get(p, 0) < end for p, end in ends.items()) else True

        if poll_until(has_read_all, timeout=COMMAND_SECONDS, interval=POLL_SECONDS) is None:
            msg = f"Drill: expected the driver of {PIPELINE} to read all of {self.topic} in {COMMAND_SECONDS:.0f} s."
            raise CutoverError(msg)

    def define(self, **parameters: str) -> None:
        """Write the definition.

        Args:
            parameters: `idle_after`, `max_ahead`, `batch`, `cap`, `job_reads_within`, and `follows_job`, which is not
                empty if the stream is a Spark job; `{home}` in them is the home of the stack. The others remain
                unchanged.
        """
        self._parameters |= {name: value.replace("{home}", str(self.home)) for name, value in parameters.items()}
        folder = self.root / "pipelines"
        folder.mkdir(exist_ok=True)
        is_followed = bool(self._parameters["follows_job"])
        time_text = _FOLLOWED_TIME.format(job=self.job_folder) if is_followed else _OWN_TIME.format(**self._parameters)
        parse = ' parse="from_json",' if is_followed else ""
        text = _DEFINITION.format(topic=self.topic, time=time_text, parse=parse, **self._parameters)
        (folder / f"{PIPELINE}.py").write_text(text, encoding="utf-8")

    @property
    def job_folder(self) -> Path:
        """Folder of the tables and the checkpoint of jobs that Cutover did not write, of the current topic."""
        return self.home / f"job-{self._topics}"

    def run_job(self) -> None:
        """Run the streaming job over all records that the topic has, and wait for its end.

        Raises:
            CutoverError: It failed; the message has the end of its output.
        """
        arguments = ("-m", "cutover.infra.drills.job", self.client.bootstrap, self.topic, str(self.job_folder))
        completed = subprocess.run(
            (sys.executable, *arguments),
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if completed.returncode:
            output_end = "\n".join(completed.stderr.splitlines()[-6:])
            msg = f"Drill: expected the streaming job to end, got exit code {completed.returncode}:\n{output_end}"
            raise CutoverError(msg)

    @property
    def topic(self) -> str:
        """Name of the current topic; each `reset` creates another one."""
        return f"{PIPELINE}-{self._topics}"

    @property
    def client(self) -> LogClient:
        """Client of the broker."""
        return LogClient(self.settings)

    @property
    def version(self) -> Version:
        """Current version of the stream.

        Raises:
            CutoverError: There is none.
        """
        version = versions.find_current_version(self.lake)
        if version is None:
            msg = f"Drill: expected a version of the stream of {PIPELINE}, got none."
            raise CutoverError(msg)
        return version


def make_command(line: str) -> list[str]:
    """Split a command line into arguments, with `cutover` replaced by this interpreter and the CLI module."""
    return [sys.executable, "-m", "cutover.cli.app", *shlex.split(line)[1:]]


Action = Callable[[Stack], object]

SCALE: Mapping[str, object] = {
    "stalled_seconds": 3.0,
    "silent_seconds": 4.0,
    "open_seconds": 4.0,
    "held_seconds": 5.0,
    "rate_seconds": 60.0,
}
"""Limits of alerts (`AlertSettings`) in every drill: minutes become seconds."""


def no_action(stack: Stack) -> None:
    """Do nothing: the alert fires by the passing of time, or the commands of the runbook are the whole repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """Alert that is caused on purpose, with the steps that cause and resolve it.

    Attributes:
        name: Name of the alert and of its runbook.
        title: Short description of the fault.
        inject: Action that causes the alert.
        sustain_clear: Action that is repeated until the alert is clear, before the fault and after the repair.
        sustain_fault: Action that is repeated until the alert fires, such as a producer that continues to send.
        external_repair: Action that the runbook requests from others (the owner of a producer or of the cluster);
            performed after the section Fix.
        case: Case of the runbook (`when=`) that is followed.
        scale: Limits of this drill, in addition to `SCALE`.
        definition: Arguments of the definition that differ, see `Stack.define`.
        prepare: Action before the driver starts with the definition of the drill.
        needs_driver: Run a driver when the fault is injected; otherwise the driver is stopped first.
        is_isolated: Start on a new log and lake, and leave them in a state that other drills cannot use.
        quick: Run with the tests.
        timeout: Seconds in which the alert has to fire, and again to clear.
    """

    name: str
    title: str
    inject: Action
    sustain_clear: Action = no_action
    sustain_fault: Action = no_action
    external_repair: Action = no_action
    case: str | None = None
    scale: Mapping[str, object] = field(default_factory=dict)
    definition: Mapping[str, str] = field(default_factory=dict)
    prepare: Action = no_action
    needs_driver: bool = True
    is_isolated: bool = False
    quick: bool = False
    timeout: float = 90.0

    @property
    def limits(self) -> Mapping[str, object]:
        """All limits that differ from those of an installation, by name."""
        return {**SCALE, **self.scale}
