"""All metrics of Cutover: name in base units, labels (never a value of a record) and meaning.

Source: Prometheus documentation, metric and label naming (base units, `_total` for counters, `_seconds`, `_bytes`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """All samples of one name."""

    kind: Kind
    text: str  # one sentence, the HELP line
    labels: tuple[str, ...] = ("pipeline",)


class MetricSample(NamedTuple):
    """Value of a family, with its labels in the order of the family."""

    family: str  # a key of FAMILIES
    labels: Sequence[str]
    value: float


def _gauge(text: str, *labels: str) -> MetricFamily:
    return MetricFamily(kind="gauge", text=text, labels=("pipeline", *labels))


def _counter(text: str, *labels: str) -> MetricFamily:
    return MetricFamily(kind="counter", text=text, labels=("pipeline", *labels))


def _histogram(text: str) -> MetricFamily:
    return MetricFamily(kind="histogram", text=text)


DRIVER: Mapping[str, MetricFamily] = {
    "cutover_stream_epochs_total": _counter("Epochs that this driver has committed, including ticks"),
    "cutover_stream_ticks_total": _counter("Epochs without data that this driver has committed"),
    "cutover_stream_read_records_total": _counter("Records that this driver has read and committed"),
    "cutover_stream_records_total": _counter("(Record, window) pairs by class", "class"),
    "cutover_stream_commit_conflicts_total": _counter("Commits that were rejected and retried"),
    "cutover_stream_written_bytes_total": _counter("Size of the data files that this driver has added"),
    "cutover_stream_read_seconds": _histogram("Time of an epoch from its plan to its commit; ticks have none"),
    "cutover_stream_commit_seconds": _histogram("Time of the commit of an epoch"),
    "cutover_stream_epoch": _gauge("Number of the newest committed epoch"),
    "cutover_stream_last_commit_timestamp_seconds": _gauge("Time of the latest commit of this driver, Unix time"),
    "cutover_stream_watermark_timestamp_seconds": _gauge("The watermark, Unix time"),
    "cutover_stream_watermark_lag_seconds": _gauge("Latest event time read minus the watermark"),
    "cutover_stream_unread_offsets": _gauge("Offsets from the next one to read to the end of the log", "partition"),
    "cutover_stream_backpressured": _gauge("1 while the log grows faster than it is read"),
}
"""Metric families of a driver, on its endpoint."""

TASKS: Mapping[str, MetricFamily] = {
    "cutover_task_last_run_timestamp_seconds": _gauge("Time at which the task ended last, Unix time", "task"),
    "cutover_task_duration_seconds": _gauge("Duration of the latest run of the task", "task"),
    "cutover_task_failed": _gauge(
        "1 if the task ended with an error; a difference between the paths is not an error", "task"
    ),
    "cutover_batch_epoch": _gauge("Epoch of the newest batch run's cut"),
    "cutover_batch_duration_seconds": _gauge("Duration of the newest batch run"),
    "cutover_batch_scanned_offsets": _gauge("Offsets that the newest batch run read for the first time"),
    "cutover_batch_stale_ranges": _gauge("Ranges of dirty closed windows that the newest batch run did not recompute"),
    "cutover_batch_incomplete_ranges": _gauge("Ranges of windows that can no longer be computed from the log"),
    "cutover_verify_check": _gauge("1 for the current state of a check, 0 for its other states", "check", "state"),
    "cutover_verify_violations": _gauge("Violations that the newest verification found"),
    "cutover_gate_stage": _gauge("1 for the stage after the newest decision, 0 for the others", "stage"),
    "cutover_gate_allowed": _gauge("1 if the newest decision allowed its move", "move"),
    "cutover_gate_conditions": _gauge("Conditions of the newest decision that are met or missing", "state"),
}
"""Metric families of tasks, in text files."""

WATCH: Mapping[str, MetricFamily] = {
    "cutover_alert_firing": _gauge(
        "1 while an alert fires, 0 while it does not; no series while undecided", "alert", "severity"
    ),
    "cutover_watch_last_sample_timestamp_seconds": _gauge("Time of the latest sample of `cutover watch`, Unix time"),
    "cutover_watch_unread_offsets": _gauge("Unread offsets by partition", "partition"),
    "cutover_watch_watermark_lag_seconds": _gauge("Latest event time read minus the watermark"),
    "cutover_watch_late_ratio": _gauge(
        "Share of late pairs among accepted and late ones in the newest epochs; no series while unknown"
    ),
    "cutover_watch_driver_alive": _gauge("1 if a driver is running; no series while unknown"),
}
"""Metric families of `cutover watch P --metrics`, in a text file."""

FAMILIES: Mapping[str, MetricFamily] = {**DRIVER, **TASKS, **WATCH}


def group_samples(samples: Iterable[MetricSample]) -> Iterator["Metric"]:
    """Group samples into the metric families of prometheus-client.

    Raises:
        KeyError: The family of a sample is unknown.
    """
    from prometheus_client.core import Metric  # noqa: PLC0415 -- slow to import, and most commands have no metrics

    metrics: dict[str, Metric] = {}
    for sample in samples:
        base, suffix = _split_suffix(sample.family)
        family = FAMILIES[base]
        if base not in metrics:
            metrics[base] = Metric(base.removesuffix("_total"), family.text, family.kind)
        names = (*family.labels, "le") if suffix == "_bucket" else family.labels
        metrics[base].add_sample(sample.family, dict(zip(names, sample.labels, strict=True)), sample.value)
    yield from metrics.values()


def _split_suffix(name: str) -> tuple[str, str]:
    """Split the name of a histogram's sample into the family and its suffix."""
    for suffix in ("_bucket", "_sum", "_count"):
        if name not in FAMILIES and name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


def render_samples(samples: Iterable[MetricSample]) -> str:
    """Render samples in Prometheus' text format; prometheus-client escapes the labels."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 -- as above

    registry = CollectorRegistry()
    registry.register(SampleCollector(samples))
    return generate_latest(registry).decode()


class SampleCollector:
    """Collector of samples for a registry of prometheus-client."""

    def __init__(self, samples: Iterable[MetricSample]) -> None:
        self._samples = list(samples)

    def collect(self) -> Iterator["Metric"]:
        """Yield the families."""
        return group_samples(self._samples)
