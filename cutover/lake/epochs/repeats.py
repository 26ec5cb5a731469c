"""Who can run a path once more over epochs that were committed: registered by entry point, so no room knows it.

A repeat is a function of settings, a definition, epochs and what is told after each of them. It yields where the epoch
log of its own lies: in a place that nobody serves, and that is gone afterwards. The group is `cutover.repeats`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from typing import cast

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.settings import Settings

EpochDone = Callable[[int, int], None]  # epochs done, of
Repeat = Callable[[Settings, Pipeline, Sequence[EpochRecord], EpochDone], AbstractContextManager[str]]

GROUP, STREAMING = "cutover.repeats", "streaming"


def find_repeat() -> Repeat:
    """Load the repeat of the streaming path.

    Raises:
        LakeError: This installation has none.
    """
    found = entry_points(group=GROUP)
    if STREAMING not in found.names:
        msg = f"Entry points `{GROUP}`: expected `{STREAMING}`, found none."
        raise LakeError(msg + "\nHint: `make setup` installs what this release registers.")
    return cast("Repeat", found[STREAMING].load())
