"""Definitions for tasks that inspect or roll back existing results, also if a definition's file no longer loads."""

import logging

from cutover.definition.model.pipeline import Pipeline
from cutover.settings import Settings

log = logging.getLogger("airflow.task")


def load_task_definition(settings: Settings, name: str, *, running: bool = False) -> Pipeline:
    """Return the effective definition of a pipeline; log a warning if it is not the one in the file.

    Args:
        settings: Settings of the installation.
        name: Name of the pipeline.
        running: Prefer the definition of a running driver to the one in the file.

    Raises:
        DefinitionError: The file is missing or does not load, and no definition is recorded.
    """
    from cutover.lake.recorded_definitions import resolve_definition  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    definition = resolve_definition(settings, name, running=running)
    if definition.note is not None:
        log.warning("%s", definition.note)
    return definition.pipeline
