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
class FieldCondition:
    """FieldCondition on one field, which a null never passes."""

    field: str
    operator: str  # `=`, `<>`, `IN`, `>`, `>=`, `<`, `<=` or `IS NOT NULL`
    values: tuple[Any, ...] = ()

    def implies(self, other: "FieldCondition") -> bool:
        """Return whether each value of the field that passes this condition also passes another one, by their form."""
        if self.field != other.field:
            return False
        if other.operator == "IS NOT NULL" or self == other:
            return True
        if self.operator in {"=", "IN"}:
            return all(map(other.passes_value, self.values))
        is_bound = self.operator in {">", ">=", "<", "<="}
        if is_bound and other.operator == "<>":
            return not self.passes_value(other.values[0])
        if not is_bound or other.operator[0] != self.operator[0]:
            return False
        return other.passes_value(self.values[0])

    def passes_value(self, value: Any) -> bool:
        """Return whether a value passes that is not null."""
        if self.operator == "IS NOT NULL":
            return True
        if self.operator in {"=", "IN"}:
            return value in self.values
        bound = self.values[0]
        if self.operator == "<>":
            return bool(value != bound)
        is_beyond = value > bound if self.operator[0] == ">" else value < bound
        return bool(is_beyond or ("=" in self.operator and value == bound))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """FieldCondition on the fields of a record."""

    sql: str | None  # None: all records pass
    passes: Passes = field(compare=False)
    conditions: tuple[FieldCondition, ...] = field(default=(), compare=False)  # that all have to pass

    @property
    def may_pass(self) -> bool:
        """Return whether some record may pass: no field has to be equal to values that another condition excludes."""
        return all(
            any(
                all(other.passes_value(value) for other in self.conditions if other.field == one.field)
                for value in one.values
            )
            for one in self.conditions
            if one.operator in {"=", "IN"}
        )

    def is_equivalent(self, other: "Filter") -> bool:
        """Return whether two filters pass the same records, whatever the records are, as far as their form shows it."""
        return _imply(self.conditions, other.conditions) and _imply(other.conditions, self.conditions)


def _imply(conditions: Sequence[FieldCondition], others: Sequence[FieldCondition]) -> bool:
    return all(any(condition.implies(other) for condition in conditions) for other in others)


NO_FILTER = Filter(sql=None, passes=lambda _: True)


def combine_filters(first: Filter, second: Filter) -> Filter:
    """Make the conjunction of two filters."""
    if first.sql is None or second.sql is None or first.sql == second.sql:
        return second if first.sql is None else first
    return Filter(
        sql=f"{first.sql} AND {second.sql}",
        passes=lambda values: first.passes(values) and second.passes(values),
        conditions=(*first.conditions, *second.conditions),
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
            yield _filter(name, "IS NOT NULL")
        has_few = 1 < len(values) <= MAX_VALUES
        if name not in keys and has_few and kind in {"string", "boolean", "int", "bigint"}:
            yield from _list_value_filters(name, sorted(present))
        if kind not in {"string", "boolean", "timestamp", "date"} and len(present) > MAX_VALUES:
            yield from _list_sign_filters(name, present)


def _filter(name: str, operator: str, *values: Any, text: str | None = None) -> Filter:
    condition = FieldCondition(field=name, operator=operator, values=values)
    listed = text or ", ".join(map(_literal, values))
    operand = f" ({listed})" if operator == "IN" else f" {listed}" if values else ""

    def passes(record: Values) -> bool:
        return record[name] is not None and condition.passes_value(record[name])

    return Filter(sql=f"{quote_name(name)} {operator}{operand}", passes=passes, conditions=(condition,))


def _list_value_filters(name: str, values: Sequence[Any]) -> Iterator[Filter]:
    """Yield `=`, `<>`, and `IN` for each set of values; of booleans `=` alone, since the others are the same."""
    for value in values:
        yield _filter(name, "=", value)
        if not isinstance(value, bool):
            yield _filter(name, "<>", value)
    for size in range(2, len(values) - 1 if len(values) <= MAX_SUBSET_VALUES else 0):
        for subset in combinations(values, size):
            yield _filter(name, "IN", *subset)


def _list_sign_filters(name: str, values: set[Any]) -> Iterator[Filter]:
    if any(value <= 0 for value in values):
        yield _filter(name, ">", 0)
        yield _filter(name, "<>", 0)
    if any(value < 0 for value in values):
        yield _filter(name, ">=", 0)
        yield _filter(name, "<", 0)


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
    return _filter(name, ">=", type(last)(bound), text=str(bound))


def make_upper_bound(name: str, values: Sequence[Any], place: int) -> Filter:
    """Make the condition that the smallest `place + 1` values pass."""
    last, above = values[place], values[place + 1] if place + 1 < len(values) else None
    bound = -_round_between(None if above is None else -above, -last)
    return _filter(name, "<=", type(last)(bound), text=str(bound))


def _round_between(below: Any, last: Any) -> Decimal:
    """Return the number with the fewest digits that is larger than a value, and not larger than another one."""
    exact = Decimal(str(last))
    for digits in range(-6, 7):
        rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)
        if below is None or rounded > Decimal(str(below)):
            return rounded if digits > 0 else Decimal(int(rounded))
    return exact
