"""Resources that a path has used, recorded with each epoch and each batch run; None if unknown."""

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
    """Measure the resources used so far.

    Args:
        meter: Created when the driver or the run began.
        is_local: False: executors run on other machines, so the usage of this machine is incomplete.
        written_bytes: Counted by the caller.
    """
    used = meter.measure() if is_local else None
    return PathCost(
        core_seconds=None if used is None else used.core_seconds,
        read_bytes=None if used is None else used.read_bytes,
        written_bytes=written_bytes,
    )


def add_costs(cost: PathCost, other: PathCost) -> PathCost:
    """Return the sum of two costs; a figure that is unknown in either is unknown."""
    seconds = None
    if cost.core_seconds is not None and other.core_seconds is not None:
        seconds = round(cost.core_seconds + other.core_seconds, 3)
    return PathCost(
        core_seconds=seconds,
        read_bytes=_add(cost.read_bytes, other.read_bytes),
        written_bytes=_add(cost.written_bytes, other.written_bytes),
    )


def _add(figure: int | None, other: int | None) -> int | None:
    return None if figure is None or other is None else figure + other
