"""Measures in plain Python, computed over all values of a group at once, without partial aggregates."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.measures.ordered import Bag, First, Last
from cutover.definition.measures.value_counts import HASH_BIAS, HASHES, MILLION, ApproxDistinct, Quantile, TopK
from cutover.definition.measures.variance import Stddev, Variance
from cutover.definition.model.pipeline import Pipeline
from cutover.records.reference import spread
from cutover.records.reference.hashes import spark_hash

EventPosition = tuple[int, int, int]
"""Event time (microseconds), partition and offset of a record."""

EXACT = Context(prec=76)
"""Twice the digits of the widest decimal column: Python's default of 28 would round."""


def merge_values(
    pipeline: Pipeline, values: Sequence[Mapping[str, Any]], positions: Sequence[EventPosition]
) -> dict[str, Any]:
    """Compute the state of each measure from a group's values, ignoring nulls.

    A sum, minimum or maximum of no values is None. A sum of integers or decimals is a Decimal; a sum of doubles is the
    float nearest to the exact sum.
    """
    return {
        name: merge_measure(measure, [row[name] for row in values], positions)
        for name, measure in pipeline.measures.items()
    }


def finish_values(pipeline: Pipeline, states: Mapping[str, Any]) -> dict[str, Any]:
    """Finish each measure: a mean is a float, or None without values."""
    compiled = compile_pipeline(pipeline)
    return {
        name: finish_measure(measure, states[name], compiled.measured_type(name))
        for name, measure in pipeline.measures.items()
    }


def merge_measure(measure: Measure, values: Sequence[Any], positions: Sequence[EventPosition]) -> Any:
    """Compute the state of one measure; for `First`, `Quantile` and the like, the values in log order."""
    if isinstance(measure, Count):
        return len(values)
    present = [value for value in values if value is not None]
    if isinstance(measure, Avg):
        return (_sum(present), len(present))
    if not isinstance(measure, Sum | Min):
        return _sort_present(values, positions)
    if not present:
        return None
    if isinstance(measure, Sum):
        return _sum(present)
    return max(present) if isinstance(measure, Max) else min(present)


def finish_measure(measure: Measure, state: Any, kind: str | None = None) -> Any:
    """Compute the result of one measure; `kind` is the type of its expression, which `ApproxDistinct` needs."""
    if isinstance(measure, Avg):
        total, count = state
        return float(total) / count if count else None
    if isinstance(measure, ApproxDistinct):
        return _count_distinct({spark_hash(value, str(kind)) for value in state}, measure.k)
    return state if isinstance(measure, Count | Sum | Min) else _FINISH[type(measure)](measure, state)


def _sum(values: Sequence[Any]) -> Any:
    if values and isinstance(values[0], float):
        return doubles.from_units(sum(map(doubles.to_units, values)))
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, Decimal(value))
    return total


def _sort_present(values: Sequence[Any], positions: Sequence[EventPosition]) -> list[Any]:
    """Return the values that are not null, ordered by event time, then log position."""
    present = [(position, value) for position, value in zip(positions, values, strict=True) if value is not None]
    return [value for _, value in sorted(present, key=lambda item: item[0])]


_FINISH: Mapping[type, Callable[[Any, Sequence[Any]], Any]] = {
    Variance: lambda _, values: spread.variance(values),
    Stddev: lambda _, values: spread.stddev(values),
    First: lambda _, values: values[0] if values else None,
    Last: lambda _, values: values[-1] if values else None,
    TopK: lambda measure, values: _find_top(values, measure.k),
    Quantile: lambda measure, values: _compute_quantile(values, measure),
    Bag: lambda measure, values: list(values[: measure.most]) or None,
}


def _find_top(values: Sequence[Any], k: int) -> list[dict[str, Any]] | None:
    ranked = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count} for value, count in ranked[:k]] or None


def _compute_quantile(values: Sequence[Any], measure: Quantile) -> float | None:
    rank = max(math.ceil(Fraction(round(measure.q * MILLION), MILLION) * len(values)), 1)
    return _truncate_bits(sorted(map(float, values))[rank - 1], measure.bits) if values else None


def _count_distinct(hashes: Collection[int], k: int) -> int:
    if len(hashes) < k:
        return len(hashes)
    return (k - 1) * HASHES // (sorted(hashes)[k - 1] + HASH_BIAS)


def _truncate_bits(value: float, bits: int) -> float:
    """Truncate a number towards zero to its leading binary digit and `bits` further ones."""
    mantissa, power = math.frexp(value)
    return math.ldexp(math.trunc(mantissa * 2 ** (bits + 1)), power - bits - 1)
