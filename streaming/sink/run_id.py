"""The name of a driver's run: in every record it commits, so that whose an epoch is can be told."""

import os
import re
import uuid

_PID = re.compile(r"^pid-(\d+)-")


def new_run_id() -> str:
    """Return the name of this process's run; it tells the pid to people and is never used twice."""
    return f"pid-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def pid_of(run_id: str) -> str:
    """`unknown` where the run id names none."""
    match = _PID.match(run_id)
    return match[1] if match else "unknown"
