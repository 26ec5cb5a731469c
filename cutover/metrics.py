"""All metrics of Cutover, and the text files in which the runs of tasks write theirs.

A metric has a name in base units, labels (never a value of a record) and a meaning. A task's metrics are written by a
decorator: the textfile collector of node_exporter reads one file per task and pipeline, which is replaced atomically.
Failures to write are logged and never fail the task.

Source: Prometheus documentation, metric and label naming (base units, `_total` for counters, `_seconds`, `_bytes`).
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar, cast

from cutover import files
from cutover.definition.model.pipeline import Pipeline
from cutover.events import log
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

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


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
READABLE = 0o644
"""File mode: node_exporter runs as another user, and the files contain only numbers and pipeline names."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Task = Callable[Concatenate[PipelineLake, Arguments], Result]
Describe = Callable[[PipelineLake, Result], str]


def make_metrics_path(settings: Settings, task: str, pipeline: str) -> Path:
    """Return the path of the file of a task and a pipeline; a name that is not a plain word is replaced by its hash."""
    name = pipeline if _PLAIN.match(pipeline) else hashlib.sha256(pipeline.encode()).hexdigest()[:32]
    return settings.metrics_dir / f"cutover_{task}-{name}.prom"


def write_text_file(settings: Settings, task: str, pipeline: str, text: str) -> bool:
    """Replace a file of metrics; if it cannot be written, a warning is logged.

    Args:
        settings: Settings with the folder.
        task: Name of the task.
        pipeline: Name of the pipeline, any text.
        text: Metrics in Prometheus' text format.

    Returns:
        True if the file was written.
    """
    try:
        files.write_atomically(make_metrics_path(settings, task, pipeline), text, mode=READABLE)
    except OSError as error:
        log.warning("metrics_not_written", pipeline=pipeline, task=task, error=error.strerror or str(error))
        return False
    return True


def write_metrics(
    task: str, describe: Describe[Result], *, answers: tuple[type[Exception], ...] = ()
) -> Callable[[Task[Arguments, Result]], Task[Arguments, Result]]:
    """Return a decorator that writes two files of a task: one after every run, one after every run with a result.

    Args:
        task: Name of the task in labels and file names.
        describe: Returns the metrics of a result in Prometheus' text format; empty: no file is written.
        answers: Errors that reject a request: the task has not failed, and nothing is written.
    """

    def add(function: Task[Arguments, Result]) -> Task[Arguments, Result]:
        @wraps(function)
        def run(lake: PipelineLake, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            start = time.monotonic()
            try:
                result = function(lake, *args, **kwargs)
            except answers:
                raise
            except BaseException:
                _write_run(lake, task, start, failed=True)
                raise
            _write_run(lake, task, start, failed=False)
            _write_result(lake, task, lambda: describe(lake, result))
            return result

        return cast("Task[Arguments, Result]", run)  # `wraps` changes the declared type

    return add


def describe_samples(samples: Callable[[Pipeline, Result], Iterable[MetricSample]]) -> Describe[Result]:
    """Convert a function from a definition and a result to samples into a `describe` function."""
    return lambda lake, result: render_samples(samples(lake.pipeline, result))


def _write_run(lake: PipelineLake, task: str, start: float, *, failed: bool) -> None:
    if not lake.settings.metrics.files:
        return
    labels = (lake.name, task)
    samples = (
        MetricSample("cutover_task_last_run_timestamp_seconds", labels, time.time()),
        MetricSample("cutover_task_duration_seconds", labels, round(time.monotonic() - start, 3)),
        MetricSample("cutover_task_failed", labels, float(failed)),
    )
    write_text_file(lake.settings, f"{task}_run", lake.name, render_samples(samples))


def _write_result(lake: PipelineLake, task: str, describe: Callable[[], str]) -> None:
    if not lake.settings.metrics.files:
        return
    try:
        text = describe()
    except Exception as error:  # noqa: BLE001 -- metrics must not fail the task
        log.warning("metrics_not_written", pipeline=lake.name, task=task, error=str(error))
        return
    if text:
        write_text_file(lake.settings, task, lake.name, text)
