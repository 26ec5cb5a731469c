"""Inputs of a driver run from outside its state, its ongoing problems, and the cause of its end.

The heartbeat carries the problems for readers that poll rarely. The cause is one line for the person on call, without
the JVM's stack.
"""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from cutover.clock import Clock, Probe
from cutover.definition.model.pipeline import Pipeline
from cutover.engine.usage import UsageMeter
from cutover.errors import CutoverError, LakeError
from cutover.events import log
from cutover.lake.integrity import same_log
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.process.driver_metrics import DriverMetrics
from cutover.streaming.process.heartbeat import HeartbeatWriter
from cutover.streaming.process.time_policy import STEADY, TimePolicy
from cutover.streaming.sink.committer import Committer
from cutover.streaming.source import start_offsets


@dataclass(slots=True)
class DriverStart:
    """Start of a driver, once it is known."""

    table: str = ""  # URI of the epoch log
    offsets: Mapping[int, int] = field(default_factory=dict)  # partition -> the first one that it reads


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverContext:
    """Everything that a driver run is given from outside: pipeline, clients, clock, policy, heartbeat, stop event."""

    lake: PipelineLake
    client: LogClient
    clock: Clock
    probe: Probe
    beat: HeartbeatWriter
    place: Path  # folder of the pipeline's run-time files
    time_policy: TimePolicy = STEADY
    meter: UsageMeter = field(default_factory=UsageMeter)  # counts from the run's beginning on
    metrics: DriverMetrics = field(default_factory=DriverMetrics)
    start: DriverStart = field(default_factory=DriverStart)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def pipeline(self) -> Pipeline:
        """Definition of the pipeline."""
        return self.lake.pipeline


_LONGEST = 300
_PLACES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSnapshot:
    """Offsets of one reading of the log, by partition."""

    read: Mapping[int, int]  # next offset of the stream
    high: Mapping[int, int]  # high watermarks
    stable: Mapping[int, int] = field(default_factory=dict)  # last stable offsets; empty: nothing is unread
    newest: Mapping[int, int] = field(default_factory=dict)  # newest log timestamp of live partitions, microseconds


class Health:
    """Ongoing problems. Each change is written to the heartbeat; times are the driver's clock, ISO 8601 in UTC."""

    def __init__(self, beat: HeartbeatWriter, clock: Clock) -> None:
        self._beat, self._clock = beat, clock
        self._open: dict[int, int] = {}  # partition -> last stable offset, which stands below its end
        self._high: Mapping[int, int] | None = None  # high watermarks at the last look

    @property
    def is_silent(self) -> bool:
        """Return whether no broker answered at the last try."""
        return self._beat.now.silent_since is not None

    def note_silence(self) -> None:
        """Note that no broker answers."""
        self._beat.update(silent_since=self._beat.now.silent_since or self._format_now())

    def note_answer(self) -> None:
        """Note that a broker answers."""
        if self.is_silent:
            self._beat.update(silent_since=None)

    def note_commit(self) -> None:
        """Note a commit: what is unread now is unread since now."""
        self._beat.update(unread_since=None)

    def note_look(self, look: LogSnapshot) -> None:
        """Note what a look has shown."""
        self.note_answer()
        is_behind = any(end > look.read.get(p, 0) for p, end in (look.stable or look.high).items())
        grown, self._high = self._high != look.high, look.high
        self._beat.update(
            quiet_since=self._format_now() if grown else self._beat.now.quiet_since,
            unread_since=(self._beat.now.unread_since or self._format_now()) if is_behind else None,
            open_since=self._track_open_partitions(look),
            skew=self._skew(look) or self._beat.now.skew,
        )

    def _track_open_partitions(self, look: LogSnapshot) -> dict[str, str]:
        """Return the time since which each partition's last stable offset has been stuck below its end."""
        held_back = {p: stable for p, stable in look.stable.items() if stable < look.high.get(p, 0)}
        open_before, open_since = self._open, self._beat.now.open_since
        self._open = held_back
        return {
            str(p): open_since[str(p)] if open_before.get(p) == stable and str(p) in open_since else self._format_now()
            for p, stable in held_back.items()
        }

    def _skew(self, look: LogSnapshot) -> dict[str, float]:
        now = self._clock.now().timestamp()
        return {str(p): round(now - micros / 1e6, 3) for p, micros in look.newest.items()}

    def _format_now(self) -> str:
        return self._clock.now().astimezone(UTC).isoformat(timespec="milliseconds")


def find_cause(
    error: BaseException, context: DriverContext, committer: Committer, *, jvm_gone: bool = False
) -> CutoverError:
    """Find the error that names a runbook behind a query's failure.

    The log is checked first: lost offsets and recreated topics reach us as one of many errors of Spark's Kafka source.
    """
    if isinstance(error, CutoverError) and error.runbook is not None:
        return error
    try:
        history = same_log.recorded_history(committer.version.uri)
        start_offsets.find_start(context.pipeline, context.client, committer.newest, committer.accepted, history)
    except CutoverError as cause:
        return cause
    if isinstance(error, CutoverError):
        return error
    if jvm_gone:
        msg = f"Stream of {context.pipeline.name}: expected Spark's JVM, it ended."
        return LakeError(f"{msg}\nHint: start it again; nothing is lost.", runbook="StreamNotRunning")
    log.error("query_failed", pipeline=context.pipeline.name, places=places(str(error)))
    msg = f"Stream of {context.pipeline.name} stopped: {one_line(error)}."
    msg += "\nHint: nothing is lost; the driver's log has the details."
    return LakeError(msg, runbook="StreamNotRunning")


def places(text: str) -> list[str]:
    """Return where an error came from, line by line; no message of it, which may quote a record."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line.startswith(("at ", 'File "'))][:_PLACES]


def one_line(error: BaseException) -> str:
    """Return the first informative line of an error, at most 300 characters."""
    if isinstance(error, CutoverError):
        return str(error).splitlines()[0]
    text = str(error).strip()
    caused = re.findall(r"Caused by: ([^\n]+)", text)
    line = caused[-1] if caused else (text.splitlines() or [""])[0]
    return f"{type(error).__name__}: {line}"[:_LONGEST].rstrip(". ")
