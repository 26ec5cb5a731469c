"""The figures, by name. A module's `measure(bench)` returns what it found."""

from collections.abc import Callable, Mapping
from importlib import import_module

from benchmarks.bench import Bench
from benchmarks.figure import Figure

NAMES = (
    "epoch",
    "catchup",
    "latency",
    "sustained",
    "overload",
    "batch",
    "reconcile",
    "diff",
    "diff_changed",
    "diff_again",
    "diff_growth",
    "growth",
    "restart",
    "lookup",
    "marks",
    "yahoo",
    "yahoo_latency",
    "join",
    "dedup",
    "sessions",
    "sliding",
    "commands",
)


def measures(names: tuple[str, ...] = NAMES) -> Mapping[str, Callable[[Bench], Figure]]:
    """Return name to function; a module is imported when it is asked for."""
    return {name: import_module(f"benchmarks.figures.{name}").measure for name in names}
