"""How a failure of Cutover looks in Airflow: its own sentence, the runbook's name, and no retry that cannot help."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from cutover.errors import CutoverError


@contextmanager
def failing_plainly() -> Iterator[None]:
    """Turn a failure that a person must act on (exit code 2 of the command line) into a failed task without retries.

    Raises:
        AirflowFailException: In place of a `CutoverError`, with its message, hint and runbook.
    """
    try:
        yield
    except CutoverError as error:
        raise AirflowFailException(str(error)) from error
