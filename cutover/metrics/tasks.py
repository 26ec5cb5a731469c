"""Metrics of a task's runs: a decorator that writes them, and their text files.

The textfile collector of node_exporter reads one file per task and pipeline, which is replaced atomically. Failures to
write are logged and never fail the task.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

from cutover import files
from cutover.definition.model.pipeline import Pipeline
from cutover.events import log
from cutover.metrics.families import MetricSample, render_samples
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

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
