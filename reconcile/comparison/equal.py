"""Equality of a value of plain Python and one of a table: exact, except for the order in which floats were added."""

import math
from datetime import UTC, datetime
from typing import Any

from cutover.reconcile.comparison.layout import FLOAT_RELATIVE
from cutover.records.reference import ApproximateFloat


def to_plain(value: Any) -> Any:
    """Convert a value to plain Python: times without a zone, in UTC, also inside lists and structs."""
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def same(expected: Any, actual: Any) -> bool:
    """Return whether two values of a measure are equal; two NaN are."""
    if isinstance(expected, ApproximateFloat) and math.isinf(expected.max_error):
        return actual is not None  # if doubles overflow, no order of records is better than another
    if isinstance(expected, float) and isinstance(actual, float):
        if math.isnan(expected) and math.isnan(actual):
            return True
        bound = expected.max_error if isinstance(expected, ApproximateFloat) else 0.0
        return math.isclose(expected, actual, rel_tol=FLOAT_RELATIVE, abs_tol=bound)
    return bool(expected == actual)
