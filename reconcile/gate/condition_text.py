"""Numbers and thresholds of conditions, formatted for people."""

from collections.abc import Mapping
from typing import Any

from cutover.reconcile.gate.criteria import SECONDS, SHARES
from cutover.reconcile.result.text import duration


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
    text = f"{value * 100:.4g}%" if unit in SHARES else f"{value:,.10g}"
    return f"{text} {unit}".strip()
