"""The values of a window and key themselves, by event time and log position, up to a bound."""

from dataclasses import dataclass

from cutover.definition.measures.places import PLACE, value_with_place
from cutover.definition.measures.states import Finish, StateColumn


@dataclass(frozen=True, slots=True)
class Bag:
    """The earliest values, nulls left out, at most so many; of equal event times by log position. Exact."""

    expression: str
    most: int = 1000

    def states(self, name: str, value_type: str | None) -> tuple[StateColumn, ...]:
        """Return `<name>__rows`: event time, partition, offset and value of each record, in order."""
        create = f"slice(sort_array(collect_list({value_with_place(self.expression)})), 1, {self.most})"
        kind = f"array<struct<{PLACE},value:{value_type}>>"
        return (StateColumn(column=f"{name}__rows", type=kind, create=create, merge="earliest", most=self.most),)

    def finish(self, name: str, value_type: str | None) -> Finish:
        """Collect the values in a list, each as often as it came; null without any."""
        values = f"list_transform({name}__rows, lambda __x: __x['value'])"
        return Finish(sql=f"CASE WHEN len({name}__rows) > 0 THEN {values} END", type=f"array<{value_type}>")

    def tolerance(self, value_type: str | None, *, same: bool) -> float | None:  # noqa: ARG002 -- every measure's signature
        """None: bags are compared exactly."""
        return None
