"""Measures in plain Python, over all values of a group at once: nothing is partial here, so nothing has to merge."""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.model.pipeline import Pipeline
from cutover.records.reference import further
from cutover.records.reference.further import EventPosition

EXACT = Context(prec=76)
"""Twice as many digits as a column holds: Python's default of 28 would round."""


def merge_values(
    pipeline: Pipeline, values: Sequence[Mapping[str, Any]], places: Sequence[EventPosition]
) -> dict[str, Any]:
    """Return each measure of a group's values; nulls are left out, and a sum, minimum or maximum of none is None.

    A sum of integers or decimals is a Decimal; of doubles the float nearest to the exact sum.
    """
    return {
        name: merge_measure(measure, [row[name] for row in values], places)
        for name, measure in pipeline.measures.items()
    }


def finish_values(pipeline: Pipeline, states: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures as a result has them: a mean is a float, None of nothing."""
    compiled = compile_pipeline(pipeline)
    return {
        name: finish_measure(measure, states[name], compiled.measured_type(name))
        for name, measure in pipeline.measures.items()
    }


def merge_measure(measure: Measure, values: Sequence[Any], places: Sequence[EventPosition]) -> Any:
    """Return one measure of a group's values, before it is finished; some need the place of each value."""
    if isinstance(measure, Count):
        return len(values)
    present = [value for value in values if value is not None]
    if isinstance(measure, Avg):
        return (_sum(present), len(present))
    if not isinstance(measure, Sum | Min):
        return further.sort_values(values, places)
    if not present:
        return None
    if isinstance(measure, Sum):
        return _sum(present)
    return max(present) if isinstance(measure, Max) else min(present)


def _sum(values: Sequence[Any]) -> Any:
    if values and isinstance(values[0], float):
        return doubles.from_units(sum(map(doubles.to_units, values)))
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, Decimal(value))
    return total


def finish_measure(measure: Measure, state: Any, kind: str | None = None) -> Any:
    """Return one measure as a result has it; some need the type of their expression."""
    if isinstance(measure, Avg):
        total, count = state
        return float(total) / count if count else None
    return state if isinstance(measure, Count | Sum | Min) else further.finish_ordered(measure, state, kind)
