"""Id of a driver's run: stored in every record it commits, so that the author of an epoch is known."""

import os
import re
import uuid

_PID = re.compile(r"^pid-(\d+)-")


def new_run_id() -> str:
    """Return the id of this process's run; it contains the pid and is never used twice."""
    return f"pid-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def pid_of(run_id: str) -> str:
    """`unknown` where the run id names none."""
    match = _PID.match(run_id)
    return match[1] if match else "unknown"
