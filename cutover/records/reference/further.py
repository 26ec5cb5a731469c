"""The measures that need every value of a group, in plain Python: each a line over the values in log order."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

from cutover.definition.measures.kinds import Measure
from cutover.definition.measures.ordered import Bag, First, Last
from cutover.definition.measures.value_counts import HASH_BIAS, HASHES, MILLION, ApproxDistinct, Quantile, TopK
from cutover.definition.measures.variance import Stddev, Variance
from cutover.records.reference import spread
from cutover.records.reference.hashes import spark_hash

EventPosition = tuple[int, int, int]
"""Of a record: event time (microseconds), partition, offset."""


def sort_values(values: Sequence[Any], places: Sequence[EventPosition]) -> list[Any]:
    """Return the values that are there, by event time and log position."""
    placed_values = [(place, value) for place, value in zip(places, values, strict=True) if value is not None]
    return [value for _, value in sorted(placed_values, key=lambda pair: pair[0])]


def finish_ordered(measure: Measure, values: Sequence[Any], kind: str | None) -> Any:
    """Return one measure of values in order, none of them null, of a type."""
    if isinstance(measure, ApproxDistinct):
        return _count_distinct({spark_hash(value, str(kind)) for value in values}, measure.k)
    return _FINISH[type(measure)](measure, values)


_FINISH: Mapping[type, Callable[[Any, Sequence[Any]], Any]] = {
    Variance: lambda _, values: spread.variance(values),
    Stddev: lambda _, values: spread.stddev(values),
    First: lambda _, values: values[0] if values else None,
    Last: lambda _, values: values[-1] if values else None,
    TopK: lambda measure, values: _top(values, measure.k),
    Quantile: lambda measure, values: _quantile(values, measure),
    Bag: lambda measure, values: list(values[: measure.most]) or None,
}


def _top(values: Sequence[Any], k: int) -> list[dict[str, Any]] | None:
    ranked = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count} for value, count in ranked[:k]] or None


def _quantile(values: Sequence[Any], measure: Quantile) -> float | None:
    rank = max(math.ceil(Fraction(round(measure.q * MILLION), MILLION) * len(values)), 1)
    return _truncate_bits(sorted(map(float, values))[rank - 1], measure.bits) if values else None


def _count_distinct(hashes: Collection[int], k: int) -> int:
    if len(hashes) < k:
        return len(hashes)
    return (k - 1) * HASHES // (sorted(hashes)[k - 1] + HASH_BIAS)


def _truncate_bits(value: float, bits: int) -> float:
    """Return a number cut towards zero to so many binary digits behind its first one."""
    mantissa, power = math.frexp(value)
    return math.ldexp(math.trunc(mantissa * 2 ** (bits + 1)), power - bits - 1)
