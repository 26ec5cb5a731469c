"""What a path has used: recorded with each epoch and each batch run, None where it is not known."""

from dataclasses import dataclass

from cutover.engine.usage import UsageMeter
from cutover.json_text import EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCost:
    """Totals of one driver or one batch run since its beginning."""

    __pydantic_config__ = EXACT

    core_seconds: float | None = None  # of its process and its JVM; None: executors ran elsewhere, or no kernel says
    read_bytes: int | None = None  # by all reads of these processes: the log, tables, their own programs
    written_bytes: int | None = None  # of the data files that it added to its tables


def measure_cost(meter: UsageMeter, *, is_local: bool, written_bytes: int | None) -> PathCost:
    """Return what was used so far.

    Args:
        meter: Made when the driver or the run began.
        is_local: False: executors are processes of other machines, so what this one counts is not what was used.
        written_bytes: As the caller has counted them.
    """
    used = meter.measure() if is_local else None
    return PathCost(
        core_seconds=None if used is None else used.core_seconds,
        read_bytes=None if used is None else used.read_bytes,
        written_bytes=written_bytes,
    )


def add_costs(path_cost: PathCost, second: PathCost) -> PathCost:
    """Return the sum; a figure that either does not know is not known."""
    seconds = None
    if path_cost.core_seconds is not None and second.core_seconds is not None:
        seconds = round(path_cost.core_seconds + second.core_seconds, 3)
    return PathCost(
        core_seconds=seconds,
        read_bytes=_add(path_cost.read_bytes, second.read_bytes),
        written_bytes=_add(path_cost.written_bytes, second.written_bytes),
    )


def _add(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
