"""Functions that run a path again over committed records, registered by entry point, so that no package imports them.

A repeat is a function of settings, a definition, epochs and a progress callback. It yields the location of a temporary
epoch log, which serves no reader and is deleted afterwards. A recompute is a function of settings, a definition,
windows and a clock: it yields settings under which the batch tables are temporary, too. The group is
`cutover.repeats`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from typing import cast

from cutover.clock import Clock
from cutover.errors import LakeError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

EpochDone = Callable[[int, int], None]  # number of finished epochs, number of all epochs
Repeat = Callable[[PipelineLake, Sequence[EpochRecord], EpochDone], AbstractContextManager[str]]
Recompute = Callable[[PipelineLake, Sequence[tuple[int, int]], Clock], AbstractContextManager[Settings]]

GROUP, STREAMING, BATCH = "cutover.repeats", "streaming", "batch"


def find_repeat() -> Repeat:
    """Load the repeat of the streaming path.

    Raises:
        LakeError: This installation has none.
    """
    return cast("Repeat", _load(STREAMING))


def find_recompute() -> Recompute:
    """Load the function that recomputes windows by the batch path, without changing its tables.

    Raises:
        LakeError: This installation has none.
    """
    return cast("Recompute", _load(BATCH))


def _load(name: str) -> object:
    entries = entry_points(group=GROUP)
    if name not in entries.names:
        msg = f"Entry points `{GROUP}`: expected `{name}`, found none."
        raise LakeError(msg + "\nHint: `make setup` installs what this release registers.")
    return entries[name].load()
