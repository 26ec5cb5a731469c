"""One look at a stream: newest epoch, log ends, heartbeat. Reads only; joins no consumer group."""

import json
import shutil
from pathlib import Path
from typing import Any

import psutil

from cutover.clock import Clock
from cutover.definition.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake import tables, versions
from cutover.lake.epochs import EpochLog, EpochRecord
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from reconcile.watch.lag import Driver, Sample

RECENT = 200
"""Epochs over which the late share is told."""

_ENDED = {"FAILED", "STOPPED"}


class Observer:
    """Looks at one pipeline again and again.

    Raises:
        LakeError: The pipeline has no epoch yet, or its table cannot be read.
        LogError: The log does not answer.
    """

    def __init__(self, settings: Settings, pipeline: Pipeline, clock: Clock) -> None:
        self._settings, self._pipeline, self._clock = settings, pipeline, clock
        self._log = LogClient(settings)

    def sample(self) -> tuple[Sample, list[EpochRecord]]:
        """Return what is there now, and the newest epochs, oldest first."""
        records = self._recent()
        topic, newest = self._pipeline.source.name, records[-1]
        ends = self._log.latest(topic, self._pipeline.source.isolation)
        first = {p: [newest.end.get(p, 0)] for p, end in ends.items() if end > newest.end.get(p, 0)}
        last = {p: [end - 1] for p, end in ends.items() if end > 0}
        sample = Sample(
            at=self._clock.now(),
            epoch=newest,
            ends=ends,
            driver=driver(self._settings, self._pipeline.name),
            unread_since={r.partition: r.log_time_micros for r in self._log.read(topic, first)},
            newest={r.partition: r.log_time_micros for r in self._log.read(topic, last)},
            free=_free(self._settings.lake_uri),
        )
        return sample, records

    def _recent(self) -> list[EpochRecord]:
        version = versions.current(self._settings, self._pipeline)
        epochs = EpochLog(version.uri) if version is not None and tables.exists(version.uri) else None
        newest = epochs.newest() if epochs is not None else None
        if epochs is None or newest is None:
            name = self._pipeline.name
            msg = f"Stream of {name}: expected at least one committed epoch under this definition, got none."
            raise LakeError(msg + f"\nHint: `cutover stream {name}` starts it.", runbook="StreamNotRunning")
        return epochs.records(after=newest.epoch - RECENT)


def _free(lake: str) -> int | None:
    return None if "://" in lake or not Path(lake).is_dir() else shutil.disk_usage(lake).free


def driver(settings: Settings, name: str) -> Driver:
    """Return what the heartbeat says, and whether the process that wrote it still lives."""
    try:
        raw: dict[str, Any] = json.loads((settings.run_dir / name / "heartbeat.json").read_text(encoding="utf-8"))
        alive = raw["state"] not in _ENDED and _lives(int(raw["pid"]), float(raw["started"]))
        state = raw["state"] if alive or raw["state"] in _ENDED else "DIED"
        return Driver(alive=alive, state=state, error=raw.get("error"), runbook=raw.get("runbook"))
    except (OSError, ValueError, KeyError, TypeError):
        return Driver()


def _lives(pid: int, started: float) -> bool:
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
