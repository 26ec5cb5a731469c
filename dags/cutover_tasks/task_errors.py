"""Errors of Cutover as failed Airflow tasks: the message and its runbook, without useless retries."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from cutover.errors import CutoverError

log = logging.getLogger("airflow.task")


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
