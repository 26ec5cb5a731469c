"""Lock for one batch writer per pipeline; the kernel releases it when its holder dies."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from cutover.errors import LakeError
from cutover.events import log
from cutover.settings import Settings

PATIENCE = 900.0  # seconds; a run of a year of flights takes less than one minute


@contextmanager
def writer_lock(settings: Settings, pipeline: str, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the pipeline's batch lock; a second run waits for the first, or is rejected if `patience` is 0.

    Raises:
        LakeError: The other run did not end in time.
    """
    folder = settings.run_dir / pipeline
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "batch.lock"
    with path.open("a", encoding="utf-8") as file:
        if not _try_lock(file):
            log.info("batch_waiting", pipeline=pipeline, lock=str(path))
            _wait(file, pipeline, patience)
        yield


def _wait(file: TextIOWrapper, pipeline: str, patience: float) -> None:
    attempts = Retrying(
        stop=stop_after_delay(patience), wait=wait_fixed(0.2), retry=retry_if_exception_type(BlockingIOError)
    )
    try:
        attempts(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except RetryError:
        if not patience:
            msg = f"Batch of `{pipeline}`: expected no run and no repair under way, got one that holds `batch.lock`."
            raise LakeError(msg + "\nHint: try again once it has ended.", runbook="BatchNotFresh") from None
        msg = (
            f"Batch of `{pipeline}`: expected the run that is under way to end within {patience:g} s, it has not ended."
        )
        raise LakeError(
            msg + "\nHint: check that run before you start a second one.", runbook="BatchNotFresh"
        ) from None


def _try_lock(file: TextIOWrapper) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
