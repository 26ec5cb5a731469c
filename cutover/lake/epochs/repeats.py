"""Who can run a path once more over what was committed: registered by entry point, so no room knows it.

A repeat is a function of settings, a definition, epochs and what is told after each of them. It yields where the epoch
log of its own lies: in a place that nobody serves, and that is gone afterwards. A recompute is a function of settings,
a definition, windows and a clock: it yields settings under which the batch tables are such a place, too. The group is
`cutover.repeats`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from typing import cast

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.settings import Settings

EpochDone = Callable[[int, int], None]  # epochs done, of
Repeat = Callable[[Settings, Pipeline, Sequence[EpochRecord], EpochDone], AbstractContextManager[str]]
Recompute = Callable[[Settings, Pipeline, Sequence[tuple[int, int]], Clock], AbstractContextManager[Settings]]

GROUP, STREAMING, BATCH = "cutover.repeats", "streaming", "batch"


def find_repeat() -> Repeat:
    """Load the repeat of the streaming path.

    Raises:
        LakeError: This installation has none.
    """
    return cast("Repeat", _load(STREAMING))


def find_recompute() -> Recompute:
    """Load what computes windows again by the batch path, apart from its tables.

    Raises:
        LakeError: This installation has none.
    """
    return cast("Recompute", _load(BATCH))


def _load(name: str) -> object:
    found = entry_points(group=GROUP)
    if name not in found.names:
        msg = f"Entry points `{GROUP}`: expected `{name}`, found none."
        raise LakeError(msg + "\nHint: `make setup` installs what this release registers.")
    return found[name].load()
