"""Numbers and thresholds of conditions, formatted for people."""

from collections.abc import Mapping
from typing import Any

from cutover.reconcile.gate.criteria import SECONDS, SHARES
from cutover.reconcile.result.text import duration

_SINGULAR = {
    "runs": "run",
    "losses": "loss",
    "writes": "write",
    "rules": "rule",
    "expectations": "expectation",
    "refusals": "refusal",
    "violations": "violation",
    "pages": "page",
    "changes": "change",
}
"""Words of units, as they follow the number one."""


def describe_number(condition: Mapping[str, Any]) -> str:
    """Format a condition's number with its unit; a dash if it is unknown or infinite.

    Args:
        condition: As the JSON of `gate show` has it.
    """
    return _format(condition["number"], condition["unit"])


def describe_threshold(condition: Mapping[str, Any]) -> str:
    """Format a condition's threshold, such as `at least 24 runs`; a dash if the policy sets none."""
    threshold = _format(condition["threshold"], condition["unit"])
    return threshold if condition["threshold"] is None else f"{condition['sense']} {threshold}"


def _format(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == SECONDS:
        return duration(value)
    if unit in SHARES:
        return f"{value * 100:.4g}% {unit}".strip()
    counted = " ".join(_SINGULAR.get(word, word) for word in unit.split()) if value == 1 else unit
    return f"{value:,.10g} {counted}".strip()
