"""Parts that the tasks share: the definition that they work on, and errors of Cutover as failed tasks."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError
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
    from cutover.lake.shown_definition import resolve_definition  # noqa: PLC0415 -- brings duckdb and deltalake: only where a task runs

    definition = resolve_definition(settings, name, running=running)
    if definition.note is not None:
        log.warning("%s", definition.note)
    return definition.pipeline


@contextmanager
def fail_without_retries() -> Iterator[None]:
    """Fail the task without retries on an error that a person has to resolve (exit code 2 of the command line).

    Raises:
        AirflowFailException: In place of a `CutoverError`, with its message, hint and runbook.
    """
    try:
        yield
    except CutoverError as error:
        log.error("%s", error)  # noqa: TRY400 -- the message is written for a person; a traceback would hide it
        raise AirflowFailException(str(error)) from None
