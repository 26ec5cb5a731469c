"""Filters that are tried: conditions on one field whose values in the records suggest them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from itertools import combinations
from typing import Any

from cutover.adoption.draft import JobDraft, quote_name
from cutover.quoting import spark_literal

MAX_VALUES = 8
"""Distinct values of a field up to which filters by its values are tried."""

MAX_SUBSET_VALUES = 5
"""Distinct values of a field up to which filters by several of its values are tried."""

Values = Mapping[str, Any]
Passes = Callable[[Values], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Condition on the fields of a record."""

    sql: str | None  # None: all records pass
    passes: Passes = field(compare=False)


NO_FILTER = Filter(sql=None, passes=lambda _: True)


def combine_filters(first: Filter, second: Filter) -> Filter:
    """Make the conjunction of two filters."""
    if first.sql is None or second.sql is None or first.sql == second.sql:
        return second if first.sql is None else first
    return Filter(
        sql=f"{first.sql} AND {second.sql}", passes=lambda values: first.passes(values) and second.passes(values)
    )


def list_filters(draft: JobDraft, records: Sequence[Values]) -> Iterator[Filter]:
    """Yield the filters that the values of the records suggest: by few values, by nulls, and by the sign of numbers."""
    keys = {part.field for part in draft.key}
    for name, kind in draft.types.items():
        if name == draft.event_time:
            continue
        values = {record[name] for record in records}
        present = values - {None}
        if None in values and present:
            yield _filter(name, "IS NOT NULL", lambda value: value is not None)
        has_few = 1 < len(values) <= MAX_VALUES
        if name not in keys and has_few and kind in {"string", "boolean", "int", "bigint"}:
            yield from _list_value_filters(name, sorted(present))
        if kind not in {"string", "boolean", "timestamp", "date"} and len(present) > MAX_VALUES:
            yield from _list_sign_filters(name, present)


def _filter(name: str, condition: str, passes: Callable[[Any], bool]) -> Filter:
    return Filter(sql=f"{quote_name(name)} {condition}", passes=lambda values: passes(values[name]))


def _list_value_filters(name: str, values: Sequence[Any]) -> Iterator[Filter]:
    """Yield `=`, `<>`, and `IN` for each set of values."""
    for value in values:
        yield _filter(name, f"= {_literal(value)}", lambda actual, value=value: actual == value)  # type: ignore[misc]  # bound per filter
        yield _filter(
            name,
            f"<> {_literal(value)}",
            lambda actual, value=value: actual is not None and actual != value,  # type: ignore[misc]  # bound per filter
        )
    for size in range(2, len(values) - 1 if len(values) <= MAX_SUBSET_VALUES else 0):
        for subset in combinations(values, size):
            listed = ", ".join(map(_literal, subset))
            yield _filter(name, f"IN ({listed})", lambda actual, subset=subset: actual in subset)  # type: ignore[misc]  # bound per filter


def _list_sign_filters(name: str, values: set[Any]) -> Iterator[Filter]:
    if any(value <= 0 for value in values):
        yield _filter(name, "> 0", lambda actual: actual is not None and actual > 0)
        yield _filter(name, "<> 0", lambda actual: actual is not None and actual != 0)
    if any(value < 0 for value in values):
        yield _filter(name, ">= 0", lambda actual: actual is not None and actual >= 0)
        yield _filter(name, "< 0", lambda actual: actual is not None and actual < 0)


def _literal(value: Any) -> str:
    return spark_literal(value) if isinstance(value, str) else str(value).lower()


def list_number_values(draft: JobDraft, records: Sequence[Values]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the fields with many numbers, with their distinct values, ascending."""
    for name, kind in draft.types.items():
        values = {record[name] for record in records} - {None}
        if (kind in {"int", "bigint", "double"} or kind.startswith("decimal")) and len(values) > MAX_VALUES:
            yield name, sorted(values)


def make_lower_bound(name: str, values: Sequence[Any], place: int) -> Filter:
    """Make the condition that the largest `place + 1` values pass."""
    last, below = values[-place - 1], values[-place - 2] if place + 1 < len(values) else None
    bound = _round_between(below, last)
    return _filter(name, f">= {bound}", lambda actual: actual is not None and actual >= last)


def make_upper_bound(name: str, values: Sequence[Any], place: int) -> Filter:
    """Make the condition that the smallest `place + 1` values pass."""
    last, above = values[place], values[place + 1] if place + 1 < len(values) else None
    bound = -_round_between(None if above is None else -above, -last)
    return _filter(name, f"<= {bound}", lambda actual: actual is not None and actual <= last)


def _round_between(below: Any, last: Any) -> Decimal:
    """Return the number with the fewest digits that is larger than a value, and not larger than another one."""
    exact = Decimal(str(last))
    for digits in range(-6, 7):
        rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)
        if below is None or rounded > Decimal(str(below)):
            return rounded if digits > 0 else Decimal(int(rounded))
    return exact
