"""Features that a test shows of runners: noted while it runs, kept if it passes, written to CUTOVER_CAPABILITIES."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from cutover.definition.measures.kinds import Measure
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import WindowFn
from cutover.panes.model import Setting

Runner = Literal["reference", "streaming", "batch"]
RUNNERS: tuple[Runner, ...] = ("reference", "streaming", "batch")

_noted: set[tuple[str, Runner]] = set()


def note_feature(feature: str, *runners: Runner) -> None:
    """Note that the current test compares these runners on a feature, such as `window: daily`."""
    _noted.update((feature, runner) for runner in runners)


def note_measures(measures: Iterable[Measure], *runners: Runner) -> None:
    """Note measures by their classes."""
    for measure in measures:
        note_feature(f"measure: {type(measure).__name__}", *runners)


def note_setting(setting: Setting, *runners: Runner) -> None:
    """Note the window, the accumulation and every part of the trigger of a setting."""
    note_feature(f"window: {kind_of(setting.window)}", *runners)
    note_feature(f"panes: {setting.accumulation}", *runners)
    for name in re.findall(r"\b([A-Z][A-Za-z]+)\(", repr(setting.trigger)):
        note_feature(f"trigger: {name}", *runners)


def kind_of(window: WindowFn) -> str:
    """Return how the table of capabilities calls a window."""
    if not isinstance(window, SlidingWindows):
        return type(window).__name__.lower()
    offset = " with an offset" if window.offset else ""
    return ("fixed" if window.size == window.every else "sliding") + offset


def settle(test: str, *, has_passed: bool) -> None:
    """Write the noted features if the test has passed, and clear them."""
    features, path = sorted(_noted), os.environ.get("CUTOVER_CAPABILITIES")
    _noted.clear()
    if has_passed and path is not None:
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"feature": feature, "runner": runner, "test": test}) + "\n" for feature, runner in features
            )
