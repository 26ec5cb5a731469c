"""When a value of plain Python and one of a table are the same: exactly, floats but for the order of their sums."""

import math
from datetime import UTC, datetime
from typing import Any

from cutover.reconcile.comparison.layout import FLOAT_RELATIVE
from cutover.records.reference import Near


def plain(value: Any) -> Any:
    """Return a value as plain Python has it: times without a zone, in UTC; those inside lists and structs too."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def same(expected: Any, found: Any) -> bool:
    """Return whether two values of a measure are equal; two NaN are."""
    if isinstance(expected, Near) and math.isinf(expected.bound):
        return found is not None  # beyond what doubles hold, no order of records is better than another
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected) and math.isnan(found):
            return True
        bound = expected.bound if isinstance(expected, Near) else 0.0
        return math.isclose(expected, found, rel_tol=FLOAT_RELATIVE, abs_tol=bound)
    return bool(expected == found)
