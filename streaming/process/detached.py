"""Detached drivers: started once, found again through the heartbeat, stopped by a file that they watch."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from cutover.clock import poll_until
from cutover.definition.loading import catalogue
from cutover.errors import LakeError
from cutover.events import log
from cutover.process import is_alive
from cutover.settings import Settings
from cutover.streaming.process import heartbeat
from cutover.streaming.process.heartbeat import Heartbeat

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
    last_heartbeat = heartbeat.find_heartbeat(settings, name)
    return last_heartbeat if last_heartbeat is not None and last_heartbeat.alive else None


def stop_driver(settings: Settings, name: str, timeout: float = STOP_SECONDS) -> Heartbeat | None:
    """Ask the driver of a pipeline to stop after the epoch in hand, and wait for its end.

    Returns:
        Its last heartbeat; None if there never was a driver.

    Raises:
        LakeError: It still runs after `timeout` seconds, or its heartbeat cannot be read.
    """
    last_heartbeat = heartbeat.read_heartbeat(settings, name)
    if last_heartbeat is None or not last_heartbeat.alive:
        return last_heartbeat
    (heartbeat.run_folder(settings, name) / "stop").touch()
    identity = last_heartbeat.identity
    has_ended = poll_until(lambda: None if is_alive(identity) else True, timeout=timeout, interval=_POLL_SECONDS)
    if not has_ended:
        msg = f"Stream of {name}: expected the driver (pid {last_heartbeat.pid}) to end within {timeout:g} s, it runs."
        raise LakeError(msg + "\nHint: its log says what it is busy with.", runbook="StreamNotRunning")
    return heartbeat.find_heartbeat(settings, name)


def find_log_file(settings: Settings, name: str) -> Path:
    """Return the file that takes a detached driver's output."""
    return heartbeat.run_folder(settings, name) / "driver.log"


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
    last_heartbeat = heartbeat.find_heartbeat(settings, name)
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
