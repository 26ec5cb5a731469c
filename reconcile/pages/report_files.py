"""Files of the reports folder that a reader may get: of the requested pipeline, by plain name, no links."""

import re
from pathlib import Path

from cutover.settings import Settings

_PIPELINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\.(html|json|csv|parquet)\Z")
FORMS = {
    ".html": "text/html; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
}
"""Ending -> media type, in the order in which a page offers them."""


def is_pipeline_name(name: str) -> bool:
    """Return whether a text can be the name of a pipeline: nothing else is looked up anywhere."""
    return _PIPELINE.match(name) is not None


def find_file(settings: Settings, pipeline: str, name: str) -> Path | None:
    """Return a report's file, resolved; None for every name that is not one of a plain file in the pipeline's folder.

    A link is rejected, whatever its target: the folder itself must also lie in the reports folder under its own name.
    """
    if not is_pipeline_name(pipeline) or not _FILE.match(name):
        return None
    folder = settings.reports_dir.resolve() / pipeline
    path = folder / name
    return path if path.is_file() and path.resolve() == path else None


def list_forms(settings: Settings, pipeline: str, run_id: str) -> tuple[str, ...]:
    """Return the names of a run's files that exist, the page first."""
    names = (f"{run_id}{ending}" for ending in FORMS)
    return tuple(name for name in names if find_file(settings, pipeline, name) is not None)
