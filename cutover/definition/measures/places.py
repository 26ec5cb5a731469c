"""First and last by event time; of equal times the position in the log decides, so that the order is total."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from cutover.definition.measures.states import Finish, StateColumn


@dataclass(frozen=True, slots=True)
class First:
    """Value of the earliest record whose value is not null; of equal event times that at the lowest log position."""

    expression: str
    function: ClassVar[Literal["min", "max"]] = "min"

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__at`: event time, partition and offset of the record, and its value."""
        create = f"{self.function}({value_with_place(self.expression)})"
        kind = f"struct<{PLACE},value:{value_type}>"
        return (StateColumn(column=f"{name}__at", type=kind, create=create, merge=self.function),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Drop the place that came with the value."""
        return Finish(sql=f"struct_extract({name}__at, 'value')", type=value_type or "string")

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """None: compared as its type is."""
        return None


@dataclass(frozen=True, slots=True)
class Last(First):
    """Value of the latest record whose value is not null; of equal event times that at the highest log position."""

    function: ClassVar[Literal["min", "max"]] = "max"


PLACE = "event_time:timestamp,partition:int,offset:bigint"


def value_with_place(expression: str) -> str:
    """Return Spark SQL for a value behind the place of its record; null where the value is."""
    place = "'event_time', _event_time, 'partition', _partition, 'offset', _offset"
    return f"IF(({expression}) IS NULL, NULL, named_struct({place}, 'value', {expression}))"
