"""What a test has shown of a runner: noted while it runs, kept if it passes, written to CUTOVER_CAPABILITIES."""

import json
import os
from pathlib import Path
from typing import Literal

Runner = Literal["reference", "streaming", "batch"]
RUNNERS: tuple[Runner, ...] = ("reference", "streaming", "batch")

_noted: set[tuple[str, Runner]] = set()


def shown(feature: str, *runners: Runner) -> None:
    """Note that the test in hand compares these runners on a feature, such as `window: daily`."""
    _noted.update((feature, runner) for runner in runners)


def settle(test: str, *, passed: bool) -> None:
    """Keep what a test has noted if it passed, and begin anew."""
    found, place = sorted(_noted), os.environ.get("CUTOVER_CAPABILITIES")
    _noted.clear()
    if passed and place is not None:
        with Path(place).open("a", encoding="utf-8") as out:
            out.writelines(
                json.dumps({"feature": feature, "runner": runner, "test": test}) + "\n" for feature, runner in found
            )
