"""Figures by name; the function `measure(bench)` of each module measures one."""

from collections.abc import Callable, Mapping
from importlib import import_module

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure

ROOMS = {
    "epoch": "epochs",
    "catchup": "epochs",
    "latency": "epochs",
    "sustained": "epochs",
    "overload": "epochs",
    "batch": "comparison",
    "reconcile": "comparison",
    "diff": "comparison",
    "diff_changed": "comparison",
    "diff_again": "comparison",
    "diff_growth": "comparison",
    "growth": "comparison",
    "restart": "epochs",
    "lookup": "epochs",
    "marks": "epochs",
    "yahoo": "windows",
    "yahoo_latency": "windows",
    "join": "windows",
    "dedup": "epochs",
    "follow": "epochs",
    "avro": "epochs",
    "sessions": "windows",
    "sliding": "windows",
    "commands": "comparison",
    "idle": "installation",
}
"""Folder of each figure, in the order in which they are measured."""
NAMES = tuple(ROOMS)


def measures(names: tuple[str, ...] = NAMES) -> Mapping[str, Callable[[Bench], Figure]]:
    """Return the measuring function of each named figure; only their modules are imported."""
    return {name: import_module(f"benchmarks.figures.{ROOMS[name]}.{name}").measure for name in names}
