"""The measures that need every value of a group, in plain Python: each a line over the values in log order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cutover.definition.measures import Measure
from cutover.definition.places import First, Last
from cutover.definition.spread import Stddev, Variance
from cutover.records.reference import spread

Place = tuple[int, int, int]
"""Of a record: event time (microseconds), partition, offset."""


def in_order(values: Sequence[Any], places: Sequence[Place]) -> list[Any]:
    """Return the values that are there, by event time and log position."""
    there = [(place, value) for place, value in zip(places, values, strict=True) if value is not None]
    return [value for _, value in sorted(there, key=lambda pair: pair[0])]


def finish(measure: Measure, values: Sequence[Any]) -> Any:
    """Return one measure of values in order, none of them null."""
    return _FINISH[type(measure)](measure, values)


_FINISH: Mapping[type, Callable[[Any, Sequence[Any]], Any]] = {
    Variance: lambda _, values: spread.variance(values),
    Stddev: lambda _, values: spread.stddev(values),
    First: lambda _, values: values[0] if values else None,
    Last: lambda _, values: values[-1] if values else None,
}
