"""What a task that waits for a person's approval shows, and what it reads of the answer."""

from collections.abc import Mapping
from typing import Any

_NO_REASON = "approved in Airflow"

NOT_MADE = "withdrawn by Airflow: no task of the run has made it"
"""Why a proposal is withdrawn."""


def as_cell(text: str) -> str:
    """Return a text as one cell of a Markdown table in which nothing is markup."""
    return "".join(f"\\{c}" if c in "|\\`*_<>[]" else c for c in " ".join(text.split()))


def name_of_person(answer: Mapping[str, Any] | None) -> str:
    """Return who answered, by Airflow's own list of users; an empty text where nobody did, or the task was marked."""
    person = (answer or {}).get("responded_by_user") or {}
    names = (_read_visible(person.get(field)) for field in ("name", "id"))
    name = next(filter(None, names), "")
    return f"airflow:{name}" if name else ""


def _read_visible(text: object) -> str:
    """Return a name without what nobody sees of it: one of blanks and control characters is none."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text or "")).split())


def read_reason(answer: Mapping[str, Any] | None) -> str:
    """Return the reason that a person gave, or that none was given."""
    return str(((answer or {}).get("params_input") or {}).get("why") or "").strip() or _NO_REASON
