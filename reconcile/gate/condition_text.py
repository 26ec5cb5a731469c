"""How the number of a condition and its threshold are written for people."""

from collections.abc import Mapping
from typing import Any

from cutover.reconcile.gate.criteria import SECONDS, SHARES
from cutover.reconcile.result.text import duration


def describe_number(condition: Mapping[str, Any]) -> str:
    """Return a condition's number with its unit; a dash where it is not known or has no end.

    Args:
        condition: As the JSON of `gate show` has it.
    """
    return _write(condition["number"], condition["unit"])


def describe_threshold(condition: Mapping[str, Any]) -> str:
    """Return what a condition asks of its number: `at least 24 runs`; a dash where the policy asks for nothing."""
    asked = _write(condition["threshold"], condition["unit"])
    return asked if condition["threshold"] is None else f"{condition['sense']} {asked}"


def _write(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == SECONDS:
        return duration(value)
    text = f"{value * 100:.4g}%" if unit in SHARES else f"{value:,.10g}"
    return f"{text} {unit}".strip()
