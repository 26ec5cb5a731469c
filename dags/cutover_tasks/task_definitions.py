"""The definition by which a task looks at, or moves back, what was computed: by name, also where the file fails."""

import logging

from cutover.definition.model.pipeline import Pipeline
from cutover.settings import Settings

log = logging.getLogger("airflow.task")


def find_definition(settings: Settings, name: str, *, running: bool = False) -> Pipeline:
    """Return the definition by which a name is shown; the task's log says where that is not the one in the file.

    Args:
        settings: Of the installation.
        name: Of the pipeline.
        running: Return what a living driver runs with, whatever is in the file.

    Raises:
        DefinitionError: The file does not load, or there is none, and none is recorded.
    """
    from cutover.lake.shown_definition import resolve_definition  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    definition = resolve_definition(settings, name, running=running)
    if definition.note is not None:
        log.warning("%s", definition.note)
    return definition.pipeline
