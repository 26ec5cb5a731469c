"""The simple measures, those that depend on the order of records, and the union of all measures.

A measure is a few state columns, each with a Spark aggregate that computes it and a merge that DuckDB supports
(`states`). A measure that cannot be expressed so does not merge, and is not supported. Records are ordered by event
time, then by log position, so that the order is total.

`states` and `finish` take the measure's name and the type of its expression. `tolerance` returns the relative tolerance
of the result between two paths, which may run the same definition (`same_definition`; their states are compared, too).
None means that the type alone decides: exact for the same definition; for a team's SQL, doubles are compared
approximately.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from cutover.definition.measures import doubles
from cutover.definition.measures.doubles import Stddev, Variance
from cutover.definition.measures.states import Finish, Merge, StateColumn, compute_sum_type, is_float_type
from cutover.definition.measures.value_counts import ApproxDistinct, Quantile, TopK

POSITION_FIELDS = "event_time:timestamp,partition:int,offset:bigint"


def positioned_value_sql(expression: str) -> str:
    """Return Spark SQL for a struct of a record's position and its value; null if the value is null."""
    position = "'event_time', _event_time, 'partition', _partition, 'offset', _offset"
    return f"IF(({expression}) IS NULL, NULL, named_struct({position}, 'value', {expression}))"


@dataclass(frozen=True, slots=True)
class First:
    """Value of the earliest record whose value is not null; for equal event times, of the lowest log position."""

    expression: str
    function: ClassVar[Literal["min", "max"]] = "min"

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__at`: event time, partition and offset of the selected record, and its value."""
        create = f"{self.function}({positioned_value_sql(self.expression)})"
        kind = f"struct<{POSITION_FIELDS},value:{value_type}>"
        return (StateColumn(column=f"{name}__at", type=kind, create=create, merge=self.function),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Extract the value of the selected record from the struct."""
        return Finish(sql=f"struct_extract({name}__at, 'value')", type=value_type or "string")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Last(First):
    """Value of the latest record whose value is not null; for equal event times, of the highest log position."""

    function: ClassVar[Literal["min", "max"]] = "max"


@dataclass(frozen=True, slots=True)
class Bag:
    """List of the earliest values without nulls, at most `most` of them, by event time and log position. Exact."""

    expression: str
    most: int = 1000

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__rows`: event time, partition, offset and value of each record, in order."""
        create = f"slice(sort_array(collect_list({positioned_value_sql(self.expression)})), 1, {self.most})"
        kind = f"array<struct<{POSITION_FIELDS},value:{value_type}>>"
        return (StateColumn(column=f"{name}__rows", type=kind, create=create, merge="earliest", max_entries=self.most),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Return the list of values, with repetitions; null if there are none."""
        values = f"list_transform({name}__rows, lambda __x: __x['value'])"
        return Finish(sql=f"CASE WHEN len({name}__rows) > 0 THEN {values} END", type=f"array<{value_type}>")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: bags are compared exactly."""
        return None


@dataclass(frozen=True, slots=True)
class Count:
    """Number of records. Exact."""

    @property
    def expression(self) -> None:
        """Return None: a count reads no column."""

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:  # noqa: ARG002 -- every measure's signature
        """Return one bigint column, named like the measure."""
        return (StateColumn(column=name, type="bigint", create="count(1)", merge="sum"),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of an expression without nulls; null if all values are null. Exact; for doubles the nearest double."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return one column: decimal(38,0) for integers, decimal(38,s) for decimal(p,s), digits for doubles."""
        return (_make_sum_state(name, f"{name}__digits", self.expression, value_type),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:
        """Return None, since the state is the result; for doubles, the total of the digits."""
        return Finish(sql=doubles.total_sql(f"{name}__digits"), type="double") if is_float_type(value_type) else None

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Min:
    """Smallest value of an expression without nulls. Exact."""

    expression: str
    function: ClassVar[Merge] = "min"

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return one column of the expression's own type."""
        create = f"{self.function}({self.expression})"
        return (StateColumn(column=name, type=value_type or "string", create=create, merge=self.function),)

    def finish(self, name: str, value_type: str | None) -> Finish | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the state is the result."""
        return None

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared according to its type."""
        return None


@dataclass(frozen=True, slots=True)
class Max(Min):
    """Largest value of an expression without nulls. Exact."""

    function: ClassVar[Merge] = "max"


@dataclass(frozen=True, slots=True)
class Avg:
    """Mean of an expression, from sum and count: the state is exact, the result a double."""

    expression: str

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__sum` (typed as in `Sum`; for doubles `<name>__digits`) and `<name>__count` (bigint)."""
        count = StateColumn(column=f"{name}__count", type="bigint", create=f"count({self.expression})", merge="sum")
        return (_make_sum_state(f"{name}__sum", f"{name}__digits", self.expression, value_type), count)

    def finish(self, name: str, value_type: str | None) -> Finish | None:
        """Return sum divided by count; null if the count is 0."""
        total = doubles.total_sql(f"{name}__digits") if is_float_type(value_type) else f"cast({name}__sum as double)"
        return Finish(sql=f"({total}) / nullif({name}__count, 0)", type="double")

    def tolerance(self, value_type: str | None, *, same_definition: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """Return None: the result is compared as a double."""
        return None


def _make_sum_state(exact_column: str, digits_column: str, expression: str, value_type: str | None) -> StateColumn:
    """Make the state of a sum: digits for doubles, a decimal for exact numbers."""
    if is_float_type(value_type):
        return doubles.make_state(digits_column, expression)
    kind = compute_sum_type(value_type)
    return StateColumn(column=exact_column, type=kind, create=f"sum(cast({expression} as {kind}))", merge="sum")


Measure = Count | Sum | Min | Max | Avg | Variance | Stddev | First | Last | TopK | Quantile | ApproxDistinct | Bag

MEASURE_NAMES = ", ".join(kind.__name__ for kind in get_args(Measure))
