"""Figures by name; the function `measure_<name>(bench)` of its module measures one."""

from collections.abc import Callable, Mapping
from importlib import import_module

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure

MODULES = {
    "epoch": "epochs.epoch",
    "catchup": "epochs.catchup",
    "latency": "epochs.latency",
    "sustained": "epochs.sustained",
    "overload": "epochs.overload",
    "batch": "comparison.batch",
    "reconcile": "comparison.reconcile",
    "diff": "comparison.diff",
    "diff_changed": "comparison.diff",
    "diff_again": "comparison.diff",
    "diff_growth": "comparison.growth",
    "foreign": "comparison.foreign",
    "growth": "comparison.growth",
    "restart": "epochs.restart",
    "lookup": "epochs.epoch",
    "marks": "epochs.epoch",
    "yahoo": "windows.yahoo",
    "yahoo_latency": "windows.yahoo",
    "join": "windows.join",
    "dedup": "epochs.dedup",
    "follow": "epochs.follow",
    "avro": "epochs.epoch",
    "sessions": "windows.kinds",
    "sliding": "windows.kinds",
    "commands": "comparison.commands",
    "idle": "installation.idle",
}
"""Module of each figure, in the order in which they are measured."""
NAMES = tuple(MODULES)


def measures(names: tuple[str, ...] = NAMES) -> Mapping[str, Callable[[Bench], Figure]]:
    """Return the measuring function of each named figure; only their modules are imported."""
    return {name: getattr(import_module(f"benchmarks.figures.{MODULES[name]}"), f"measure_{name}") for name in names}
