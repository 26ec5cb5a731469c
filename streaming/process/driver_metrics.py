"""Metrics of a driver: immutable values that the driver replaces and a scraper reads over HTTP, without a lock.

They are served on loopback; if that fails, the driver logs it once and continues. There is backpressure if the log
fills faster than it is read; two thresholds keep the state from flickering.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cutover import files, metrics
from cutover.events import log
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.topic_partitions import format_partition_number
from cutover.metrics import MetricSample
from cutover.records.classes import Class
from cutover.settings import Settings
from cutover.streaming.process.heartbeat import run_folder

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Pace = Literal["RUNNING", "BACKPRESSURED"]
HIGH_EPOCHS = 10
LOW_EPOCHS = 2


def next_pace(now: Pace, *, lag: int, cap: int) -> Pace:
    """Decide by the lag; between two bounds the state stays as it is.

    Args:
        now: The state so far.
        lag: Records unread.
        cap: Most records of one epoch. Above 10 epochs' worth the state turns on, below 2 it turns off.
    """
    if lag > HIGH_EPOCHS * cap:
        return "BACKPRESSURED"
    return "RUNNING" if lag < LOW_EPOCHS * cap else now


BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histograms, in seconds."""

_NONE: Mapping[str, int] = dict.fromkeys(map(str, Class), 0)

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class TimeSpread:
    """Histogram: number of times between two bounds, and their sum."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    total: float = 0.0

    def add(self, seconds: float) -> "TimeSpread":
        """Return the spread that has one more time in it."""
        at = bisect_left(BOUNDS, seconds)
        return TimeSpread((*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :]), self.total + seconds)

    def samples(self, family: str, pipeline: str) -> Iterator[MetricSample]:
        """Yield the samples of a histogram: running counts by upper bound, then sum and count."""
        running = list(accumulate(self.counts))
        for upper_bound, count in zip((*map(str, BOUNDS), "+Inf"), running, strict=True):
            yield MetricSample(f"{family}_bucket", (pipeline, upper_bound), count)
        yield MetricSample(f"{family}_sum", (pipeline,), self.total)
        yield MetricSample(f"{family}_count", (pipeline,), running[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTotals:
    """Totals of one driver's epochs; replaced at each commit."""

    newest: EpochRecord | None = None
    epochs: int = 0
    ticks: int = 0
    records: int = 0
    classes: Mapping[str, int] = field(default_factory=lambda: _NONE)
    conflicts: int = 0
    written_bytes: int = 0
    reading: TimeSpread = TimeSpread()
    committing: TimeSpread = TimeSpread()


class DriverMetrics:
    """The numbers of one driver.

    Epochs set one of its values, readings of the log the other two; a scrape reads all three: none waits.
    """

    def __init__(self) -> None:
        self._totals = EpochTotals()
        self._unread: Mapping[int, int] = {}
        self._pace: Pace = "RUNNING"

    @property
    def newest(self) -> EpochRecord | None:
        """Return the newest epoch that was committed; None before the first of a version."""
        return self._totals.newest

    def note_epoch(self, record: EpochRecord, *, commit_seconds: float, written_bytes: int) -> None:
        """Count a committed epoch; its caller holds the engine's lock, as for the commit."""
        now = self._totals
        self._totals = EpochTotals(
            newest=record,
            epochs=now.epochs + 1,
            ticks=now.ticks + record.tick,
            records=now.records + record.records,
            classes={name: pairs + record.counts.get(name, 0) for name, pairs in now.classes.items()},
            conflicts=now.conflicts + record.conflicts,
            written_bytes=written_bytes,
            reading=now.reading if record.tick else now.reading.add(record.seconds),
            committing=now.committing.add(commit_seconds),
        )

    def note_start(self, record: EpochRecord) -> None:
        """Note the epoch from which a driver continues; it is not counted."""
        self._totals = replace(self._totals, newest=record)

    def note_look(self, pace: Pace, high: Mapping[int, int], read: Mapping[int, int]) -> None:
        """Note a reading of the log: its ends, and the position."""
        self._pace = pace
        self._unread = {partition: max(0, end - read.get(partition, 0)) for partition, end in high.items()}

    def samples(self, pipeline: str) -> Iterator[MetricSample]:
        """Yield all current numbers."""
        totals, labels = self._totals, (pipeline,)
        for name, value in (
            ("epochs", totals.epochs),
            ("ticks", totals.ticks),
            ("read_records", totals.records),
            ("commit_conflicts", totals.conflicts),
            ("written_bytes", totals.written_bytes),
        ):
            yield MetricSample(f"cutover_stream_{name}_total", labels, value)
        for name, pairs in totals.classes.items():
            yield MetricSample("cutover_stream_records_total", (pipeline, name), pairs)
        yield from totals.reading.samples("cutover_stream_read_seconds", pipeline)
        yield from totals.committing.samples("cutover_stream_commit_seconds", pipeline)
        yield MetricSample("cutover_stream_backpressured", labels, float(self._pace == "BACKPRESSURED"))
        for partition, unread in sorted(self._unread.items()):
            yield MetricSample("cutover_stream_unread_offsets", (pipeline, format_partition_number(partition)), unread)
        if totals.newest is not None:
            yield from _newest(totals.newest, pipeline)


def _newest(record: EpochRecord, pipeline: str) -> Iterator[MetricSample]:
    """Yield what the newest epoch says; nothing of what is not known."""
    labels = (pipeline,)
    yield MetricSample("cutover_stream_epoch", labels, record.epoch)
    if record.processing_time:
        at = datetime.fromisoformat(record.processing_time).timestamp()
        yield MetricSample("cutover_stream_last_commit_timestamp_seconds", labels, at)
    newest_event = max(record.max_event.values(), default=None)
    if record.watermark_after is not None:
        yield MetricSample("cutover_stream_watermark_timestamp_seconds", labels, record.watermark_after / 1e6)
        if newest_event is not None:
            lag = (newest_event - record.watermark_after) / 1e6
            yield MetricSample("cutover_stream_watermark_lag_seconds", labels, lag)


class DriverCollector:
    """Collector of a driver's numbers for a registry, labelled with the pipeline."""

    def __init__(self, metrics: DriverMetrics, pipeline: str) -> None:
        self._metrics, self._pipeline = metrics, pipeline

    def collect(self) -> Iterable["Metric"]:
        """Yield the current metric families."""
        return metrics.group_samples(self._metrics.samples(self._pipeline))


def target_path(settings: Settings, pipeline: str) -> Path:
    """Return the file that says where a driver is scraped, as Prometheus' file discovery reads it."""
    return settings.metrics_dir / "targets" / f"{run_folder(settings, pipeline).name}.json"


@contextmanager
def serve_metrics(settings: Settings, pipeline: str, metrics: DriverMetrics) -> Iterator[int | None]:
    """Serve a driver's metrics while the block runs, if the settings enable it; yields the port."""
    port = settings.metrics.port
    if port is None:
        yield None
        return
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 -- only where it is enabled

    registry = CollectorRegistry()
    registry.register(DriverCollector(metrics, pipeline))
    try:
        server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    except OSError as error:
        log.warning("metrics_not_served", pipeline=pipeline, port=port, error=error.strerror or str(error))
        yield None
        return
    target = target_path(settings, pipeline)
    try:
        _announce(target, pipeline, server.server_port)
        yield server.server_port
    finally:
        with suppress(OSError):
            target.unlink(missing_ok=True)
        server.shutdown()
        server.server_close()
        thread.join()


def _announce(target: Path, pipeline: str, port: int) -> None:
    """Say where the driver is scraped: in a file, which a killed driver leaves, so that its silence is seen."""
    targets = [{"targets": [f"{LOOPBACK}:{port}"], "labels": {"driver": target.stem}}]
    try:
        files.write_json(target, targets)
    except OSError as error:
        log.warning("metrics_not_announced", pipeline=pipeline, port=port, error=error.strerror or str(error))
