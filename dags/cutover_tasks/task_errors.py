"""How a failure of Cutover looks in Airflow: its own sentence, the runbook's name, and no retry that cannot help."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from cutover.errors import CutoverError

log = logging.getLogger("airflow.task")


@contextmanager
def fail_without_retries() -> Iterator[None]:
    """Turn a failure that a person must act on (exit code 2 of the command line) into a failed task without retries.

    Raises:
        AirflowFailException: In place of a `CutoverError`, with its message, hint and runbook.
    """
    try:
        yield
    except CutoverError as error:
        log.error("%s", error)  # noqa: TRY400 -- the sentence is for a person; the trace would bury it
        raise AirflowFailException(str(error)) from None
