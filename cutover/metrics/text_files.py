"""Text files of metrics for node_exporter's textfile collector: one per task and pipeline, replaced atomically."""

import hashlib
import re
from pathlib import Path

from cutover import files
from cutover.events import log
from cutover.settings import Settings

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
READABLE = 0o644
"""File mode: node_exporter runs as another user, and the files contain only numbers and pipeline names."""


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
        files.write(make_metrics_path(settings, task, pipeline), text, mode=READABLE)
    except OSError as error:
        log.warning("metrics_not_written", pipeline=pipeline, task=task, error=error.strerror or str(error))
        return False
    return True
