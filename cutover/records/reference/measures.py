"""Measures in plain Python, over all values of a group at once: nothing is partial here, so nothing has to merge."""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.model.pipeline import Pipeline
from cutover.records.reference import further
from cutover.records.reference.further import Place

EXACT = Context(prec=76)
"""Twice as many digits as a column holds: Python's default of 28 would round."""


def merge_values(pipeline: Pipeline, values: Sequence[Mapping[str, Any]], places: Sequence[Place]) -> dict[str, Any]:
    """Return each measure of a group's values; nulls are left out, and a sum, minimum or maximum of none is None.

    A sum of integers or decimals is a Decimal; of doubles the float nearest to the exact sum.
    """
    return {
        name: value_of(measure, [row[name] for row in values], places) for name, measure in pipeline.measures.items()
    }


def finish_values(pipeline: Pipeline, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures as a result has them: a mean is a float, None of nothing."""
    compiled = compile_pipeline(pipeline)
    return {
        name: finish(measure, found[name], compiled.measured_type(name)) for name, measure in pipeline.measures.items()
    }


def value_of(measure: Measure, values: Sequence[Any], places: Sequence[Place]) -> Any:
    """Return one measure of a group's values, before it is finished; some need the place of each value."""
    if isinstance(measure, Count):
        return len(values)
    given = [value for value in values if value is not None]
    if isinstance(measure, Avg):
        return (_sum(given), len(given))
    if not isinstance(measure, Sum | Min):
        return further.in_order(values, places)
    if not given:
        return None
    if isinstance(measure, Sum):
        return _sum(given)
    return max(given) if isinstance(measure, Max) else min(given)


def _sum(given: Sequence[Any]) -> Any:
    if given and isinstance(given[0], float):
        return doubles.from_units(sum(map(doubles.to_units, given)))
    total = Decimal(0)
    for value in given:
        total = EXACT.add(total, Decimal(value))
    return total


def finish(measure: Measure, found: Any, kind: str | None = None) -> Any:
    """Return one measure as a result has it; some need the type of their expression."""
    if isinstance(measure, Avg):
        total, count = found
        return float(total) / count if count else None
    return found if isinstance(measure, Count | Sum | Min) else further.finish(measure, found, kind)
