"""Text files of metrics for node_exporter's textfile collector: one a task and pipeline, replaced as a whole."""

import hashlib
import re
from pathlib import Path

from cutover import files
from cutover.events import log
from cutover.settings import Settings

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
READABLE = 0o644
"""node_exporter runs as another user; the files hold numbers and names of pipelines alone."""


def make_metrics_path(settings: Settings, task: str, pipeline: str) -> Path:
    """Return where the file of a task and a pipeline lies; a name that is no plain word becomes its hash."""
    name = pipeline if _PLAIN.match(pipeline) else hashlib.sha256(pipeline.encode()).hexdigest()[:32]
    return settings.metrics_dir / f"cutover_{task}-{name}.prom"


def write_text_file(settings: Settings, task: str, pipeline: str, text: str) -> bool:
    """Replace a file of metrics; a place that cannot be written is told once and ends nothing.

    Args:
        settings: Where the folder is.
        task: One of ours.
        pipeline: Any name.
        text: In Prometheus' text format.

    Returns:
        Whether it was written.
    """
    try:
        files.write(make_metrics_path(settings, task, pipeline), text, mode=READABLE)
    except OSError as error:
        log.warning("metrics_not_written", pipeline=pipeline, task=task, error=error.strerror or str(error))
        return False
    return True
