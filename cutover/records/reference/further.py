"""The measures that need every value of a group, in plain Python: each a line over the values in log order."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from cutover.definition.counted import MILLION, Quantile, TopK
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
    TopK: lambda measure, values: _top(values, measure.k),
    Quantile: lambda measure, values: _quantile(values, measure),
}


def _top(values: Sequence[Any], k: int) -> list[dict[str, Any]] | None:
    ranked = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count} for value, count in ranked[:k]] or None


def _quantile(values: Sequence[Any], measure: Quantile) -> float | None:
    rank = max(math.ceil(Fraction(round(measure.q * MILLION), MILLION) * len(values)), 1)
    return _bound(sorted(map(float, values))[rank - 1], measure.bits) if values else None


def _bound(value: float, bits: int) -> float:
    """Return a number cut towards zero to so many binary digits behind its first one."""
    mantissa, power = math.frexp(value)
    return math.ldexp(math.trunc(mantissa * 2 ** (bits + 1)), power - bits - 1)
