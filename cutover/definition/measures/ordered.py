"""Measures that depend on the order of records: by event time, then by log position, so that the order is total."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from cutover.definition.measures.states import Finish, StateColumn

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
