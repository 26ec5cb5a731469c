"""Cause of a stream's end, in one line for the person on call, without the JVM's stack."""

import re

from cutover.errors import CutoverError, LakeError
from cutover.events import log
from cutover.lake.integrity import same_log
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink.committer import Committer
from cutover.streaming.source import start_offsets

_LONGEST = 300
_PLACES = 40


def find_cause(
    error: BaseException, context: DriverContext, committer: Committer, *, jvm_gone: bool = False
) -> CutoverError:
    """Find the error that names a runbook behind a query's failure.

    The log is checked first: lost offsets and recreated topics reach us as one of many errors of Spark's Kafka source.
    """
    if isinstance(error, CutoverError) and error.runbook is not None:
        return error
    try:
        history = same_log.recorded_history(committer.version.uri)
        start_offsets.find_start(context.pipeline, context.client, committer.newest, committer.accepted, history)
    except CutoverError as cause:
        return cause
    if isinstance(error, CutoverError):
        return error
    if jvm_gone:
        msg = f"Stream of {context.pipeline.name}: expected Spark's JVM, it ended."
        return LakeError(f"{msg}\nHint: start it again; nothing is lost.", runbook="StreamNotRunning")
    log.error("query_failed", pipeline=context.pipeline.name, places=places(str(error)))
    msg = f"Stream of {context.pipeline.name} stopped: {one_line(error)}."
    msg += "\nHint: nothing is lost; the driver's log has the details."
    return LakeError(msg, runbook="StreamNotRunning")


def places(text: str) -> list[str]:
    """Return where an error came from, line by line; no message of it, which may quote a record."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line.startswith(("at ", 'File "'))][:_PLACES]


def one_line(error: BaseException) -> str:
    """Return the first informative line of an error, at most 300 characters."""
    if isinstance(error, CutoverError):
        return str(error).splitlines()[0]
    text = str(error).strip()
    caused = re.findall(r"Caused by: ([^\n]+)", text)
    line = caused[-1] if caused else (text.splitlines() or [""])[0]
    return f"{type(error).__name__}: {line}"[:_LONGEST].rstrip(". ")
