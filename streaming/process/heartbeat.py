"""Heartbeat and lock of a driver, and detached drivers, which are found through their heartbeat.

A heartbeat is liveness and state in one small file, written by one thread, replaced atomically. The lock admits one
driver for each pipeline of an installation; the table's fence holds across installations. A detached driver is started
once and stopped by a file that it watches.
"""

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self

import psutil

from cutover import files
from cutover.clock import Clock, poll_until
from cutover.definition.loading import catalogue
from cutover.driver_state import make_unreadable_error
from cutover.errors import LakeError
from cutover.events import log
from cutover.process import Identity, identify_current, is_alive
from cutover.settings import Settings


@contextmanager
def only_driver(folder: Path, pipeline: str) -> Iterator[None]:
    """Hold the lock of a pipeline's driver; the system gives it back when the process ends, however it ends.

    Raises:
        LakeError: Another process holds it, or the folder cannot be written.
    """
    with _require_writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "driver.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _make_taken_error(handle, pipeline) from None
        with _require_writable(folder):
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def _require_writable(folder: Path) -> Iterator[None]:
    """Say it where a folder cannot be written: the driver has read and written nothing yet."""
    try:
        yield
    except OSError as error:
        msg = f"Driver's folder `{folder}`: expected a place that can be written, got: {error.strerror or error}."
        raise LakeError(msg + "\nHint: make room and start again.", runbook="DiskHeadroomLow") from error


def _make_taken_error(handle: int, pipeline: str) -> LakeError:
    holder = os.pread(handle, 32, 0).decode() or "unknown"
    msg = (
        f"Stream of {pipeline}: expected no driver in this installation, got one with pid {holder}.\n"
        "Hint: `cutover status` shows it; it has to end before another one starts."
    )
    return LakeError(msg, runbook="StreamFenced")


State = Literal["STARTING", "RUNNING", "BACKPRESSURED", "STOPPING", "FAILED", "STOPPED"]
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z
_STEP = timedelta(seconds=1)
"""What a wall clock is moved by at least to be called set: a clock that is slewed drifts by less between two beats."""

ENDED: tuple[State, ...] = ("FAILED", "STOPPED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """State that a driver last reported."""

    pid: int
    boot: str  # with `started` the identity of the process: a pid alone may be another's by now
    started: float
    run_id: str
    at: str  # ISO 8601, UTC
    state: State = "STARTING"
    epoch: int | None = None  # newest committed
    watermark: str | None = None  # ISO 8601, UTC
    lag: int | None = None  # offsets unread; markers of transactions are among them
    unread_since: str | None = None  # ISO 8601, UTC: records are unread and nothing was committed since
    silent_since: str | None = None  # no broker answers since
    quiet_since: str | None = None  # no partition has grown since; None: the log was not read yet
    job_unread_since: str | None = None  # ISO 8601, UTC: a followed job has made no batch since, and has unread records
    job_silence: float | None = None  # seconds for which a followed job may make no batch, by its earlier ones
    open_since: Mapping[str, str] = field(default_factory=dict)  # partition -> a transaction holds its end since
    skew: Mapping[str, float] = field(default_factory=dict)  # partition -> driver clock - newest log time, seconds
    losses_seen: int | None = None  # sequence of the first recorded loss that the driver knew nothing of as it started
    error: str | None = None
    runbook: str | None = None  # name of a page in docs/runbooks
    exit_code: int | None = None

    @property
    def alive(self) -> bool:
        """Return whether the driver's process is running: same pid, same start, no zombie."""
        return self.state not in ENDED and is_alive(self.identity)

    @property
    def identity(self) -> Identity:
        """Pid, boot and start time of the process that wrote it."""
        return Identity(pid=self.pid, boot=self.boot, started=self.started)

    @classmethod
    def from_json(cls, raw: object) -> Self:
        """Return the heartbeat of a parsed file; keys that are not known are left out."""
        fields: dict[str, Any] = raw if isinstance(raw, dict) else {}
        return cls(**{name: value for name, value in fields.items() if name in cls.__dataclass_fields__})


def run_folder(settings: Settings, name: str) -> Path:
    """Return the folder of a pipeline's run-time files; a version that the settings name has a separate one."""
    version = settings.stream_version
    return settings.run_dir / (name if version is None else f"{name}.stream-{version}")


def read_heartbeat(settings: Settings, name: str) -> Heartbeat | None:
    """Return the last heartbeat of a pipeline's driver; None if there never was one.

    Raises:
        LakeError: It exists and cannot be read, so it is unknown whether a driver is running.
    """
    file = run_folder(settings, name) / "heartbeat.json"
    try:
        return Heartbeat.from_json(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise make_unreadable_error(file, name, error) from error


def find_heartbeat(settings: Settings, name: str) -> Heartbeat | None:
    """Return the last heartbeat of a driver, for callers that poll; None if there is none that can be read."""
    try:
        return read_heartbeat(settings, name)
    except LakeError:
        return None


class HeartbeatWriter:
    """The one writer of a heartbeat file. Others say what changed; its thread writes, regularly and at each change."""

    def __init__(self, path: Path, beat: Heartbeat, *, seconds: float, clock: Clock) -> None:
        self._path, self._seconds, self._clock = path, seconds, clock
        self._now, self._lock, self._changed = beat, threading.Lock(), threading.Event()
        self._offset = self._measure_offset()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Write the first beat, then one per interval until `end`."""
        self._write()
        self._thread.start()

    @property
    def now(self) -> Heartbeat:
        """Return what the next beat will say."""
        with self._lock:
            self._follow_clock()
            return self._now

    def update(self, **changes: Any) -> None:
        """Change fields; a change of state is written at once."""
        with self._lock:
            self._follow_clock()
            previous, self._now = self._now, replace(self._now, **changes)
            if previous.state != self._now.state:
                self._changed.set()

    def end(self, **changes: Any) -> None:
        """Write the last beat and stop."""
        self.update(**changes)
        self._ended = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._ended:
            self._changed.wait(self._seconds)
            self._changed.clear()
            self._try_to_write()
        self._try_to_write()  # the end may have been said while the beat before it was being written

    def _try_to_write(self) -> None:
        try:
            self._write()
        except OSError as error:  # a full disk must not end the beat: it may have room again
            log.warning("heartbeat_not_written", error=str(error))

    def _write(self) -> None:
        now = self._clock.now().astimezone(UTC).isoformat(timespec="milliseconds")
        with self._lock:
            self._follow_clock()
            self._now = replace(self._now, at=now)
            value = asdict(self._now)
        files.write_json(self._path, value)

    def _measure_offset(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _follow_clock(self) -> None:
        """Move the times since which something lasts along with a wall clock that was set: how long it lasts stays."""
        offset = self._measure_offset()
        shift = timedelta(seconds=offset - self._offset)
        if abs(shift) >= _STEP:
            self._offset = offset
            now = self._now
            self._now = replace(
                now,
                unread_since=_move(now.unread_since, shift),
                silent_since=_move(now.silent_since, shift),
                quiet_since=_move(now.quiet_since, shift),
                open_since={partition: _move(opened, shift) for partition, opened in now.open_since.items()},
            )


def _move(moment: str | None, by: timedelta) -> Any:
    """Return a time that lies so much later, as a heartbeat has it; None for None."""
    return None if moment is None else (datetime.fromisoformat(moment) + by).isoformat(timespec="milliseconds")


def first_beat(run_id: str, clock: Clock) -> Heartbeat:
    """Start with this process's identity; no epoch yet."""
    own_fields = asdict(identify_current())
    return Heartbeat(**own_fields, run_id=run_id, at=clock.now().isoformat(timespec="milliseconds"))


START_SECONDS = 60.0
STOP_SECONDS = 90.0
_POLL_SECONDS = 0.1


def ensure_driver(settings: Settings, name: str) -> Heartbeat:
    """Return the living driver of a pipeline, started if there is none.

    Raises:
        DefinitionError: A new driver has no definition that loads; one that lives needs none.
        LakeError: A new driver gave no sign of life within a minute, or ended at once; with what it said.
    """
    living = find_alive(settings, name)
    if living is not None:
        log.info("driver_attached", pipeline=name, pid=living.pid, epoch=living.epoch)
        return living
    catalogue.get(settings, name)
    process = _start(settings, name)
    beat = poll_until(
        lambda: _read_own_heartbeat(settings, name, process), timeout=START_SECONDS, interval=_POLL_SECONDS
    )
    if beat is None or not beat.alive:
        beat = find_alive(settings, name) or beat  # another one's was faster, and ours gave way
    if beat is None or not beat.alive:
        raise _make_start_error(settings, name, beat)
    log.info("driver_started", pipeline=name, pid=beat.pid)
    return beat


def find_alive(settings: Settings, name: str) -> Heartbeat | None:
    """Return the heartbeat of a running driver; the table's fence decides where the heartbeat is stale."""
    last_heartbeat = find_heartbeat(settings, name)
    return last_heartbeat if last_heartbeat is not None and last_heartbeat.alive else None


def stop_driver(settings: Settings, name: str, timeout: float = STOP_SECONDS) -> Heartbeat | None:
    """Ask the driver of a pipeline to stop after the epoch in hand, and wait for its end.

    Returns:
        Its last heartbeat; None if there never was a driver.

    Raises:
        LakeError: It still runs after `timeout` seconds, or its heartbeat cannot be read.
    """
    last_heartbeat = read_heartbeat(settings, name)
    if last_heartbeat is None or not last_heartbeat.alive:
        return last_heartbeat
    (run_folder(settings, name) / "stop").touch()
    identity = last_heartbeat.identity
    has_ended = poll_until(lambda: None if is_alive(identity) else True, timeout=timeout, interval=_POLL_SECONDS)
    if not has_ended:
        msg = f"Stream of {name}: expected the driver (pid {last_heartbeat.pid}) to end within {timeout:g} s, it runs."
        raise LakeError(msg + "\nHint: its log says what it is busy with.", runbook="StreamNotRunning")
    return find_heartbeat(settings, name)


def find_log_file(settings: Settings, name: str) -> Path:
    """Return the file that takes a detached driver's output."""
    return run_folder(settings, name) / "driver.log"


def make_environment(settings: Settings) -> dict[str, str]:
    """Return a driver's environment: ours without Airflow's, and this installation's folders by absolute path."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    driver_variables = {
        "CUTOVER_HOME": str(settings.home.resolve()),
        "CUTOVER_PIPELINES": str(settings.pipelines.resolve()),
    }
    if settings.lake is not None:
        driver_variables["CUTOVER_LAKE"] = settings.lake_uri
    return inherited | driver_variables


def _start(settings: Settings, name: str) -> psutil.Popen:
    """Start a driver that outlives this process: a new session, no terminal, output to a file."""
    file = find_log_file(settings, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as output:
        return psutil.Popen(
            [sys.executable, "-m", "cutover.streaming", name],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=make_environment(settings),
        )


def _read_own_heartbeat(settings: Settings, name: str, process: psutil.Popen) -> Heartbeat | None:
    """Return the heartbeat of the process we started, once it says more than STARTING or has ended."""
    last_heartbeat = find_heartbeat(settings, name)
    if last_heartbeat is None or last_heartbeat.pid != process.pid:
        return _make_dead_heartbeat(process) if process.poll() is not None else None
    return last_heartbeat if last_heartbeat.state != "STARTING" or process.poll() is not None else None


def _make_dead_heartbeat(process: psutil.Popen) -> Heartbeat:
    return Heartbeat(pid=process.pid, boot="", started=0.0, run_id="", at="", state="FAILED", exit_code=process.poll())


def _make_start_error(settings: Settings, name: str, heartbeat: Heartbeat | None) -> LakeError:
    message = (
        heartbeat.error if heartbeat is not None and heartbeat.error else _last_line(find_log_file(settings, name))
    )
    runbook = (heartbeat.runbook if heartbeat is not None else None) or "StreamNotRunning"
    return LakeError(f"Stream of {name}: the driver did not start: {message}\nHint: see its log file.", runbook=runbook)


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines() if file.is_file() else []
    return lines[-1] if lines else "it said nothing."
