"""Texts of the task `approve`: cells of the evidence that it shows, person and reason of the answer."""

from collections.abc import Mapping
from typing import Any

_NO_REASON = "approved in Airflow"

NOT_MADE = "withdrawn by Airflow: no task of the run has made it"
"""Reason that is recorded with a withdrawn proposal."""


def format_cell(text: str) -> str:
    """Format a text as one cell of a Markdown table, with all markup escaped."""
    return "".join(f"\\{c}" if c in "|\\`*_<>[]" else c for c in " ".join(text.split()))


def parse_person(answer: Mapping[str, Any] | None) -> str:
    """Return the Airflow user who answered as `airflow:<name>`; empty if no one did, or the task was only marked."""
    user = (answer or {}).get("responded_by_user") or {}
    names = (_strip_invisible(user.get(field)) for field in ("name", "id"))
    name = next(filter(None, names), "")
    return f"airflow:{name}" if name else ""


def _strip_invisible(text: object) -> str:
    """Remove control characters and surplus blanks of a name; a name that consists only of them becomes empty."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text or "")).split())


def parse_reason(answer: Mapping[str, Any] | None) -> str:
    """Return the reason that a person entered, or a default text."""
    return str(((answer or {}).get("params_input") or {}).get("why") or "").strip() or _NO_REASON
