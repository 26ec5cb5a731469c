"""Filters that are tried: conditions on one field whose values in the records suggest them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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


def combine_filters(first: Filter, filters: Iterable[Filter]) -> Iterator[Filter]:
    """Yield the conjunction of a filter with each other one."""
    for second in filters:
        if first.sql is not None and second.sql is not None and first.sql != second.sql:
            yield Filter(sql=f"{first.sql} AND {second.sql}", passes=_make_both(first.passes, second.passes))


def _make_both(first: Passes, second: Passes) -> Passes:
    return lambda values: first(values) and second(values)


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


def _literal(value: Any) -> str:
    return spark_literal(value) if isinstance(value, str) else str(value).lower()
