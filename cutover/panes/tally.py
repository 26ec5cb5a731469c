"""Constant-size state of a window in the reference runner, sufficient for every measure of a scenario.

A pane costs the same whether its window has ten rows or a million. `cutover.panes.batch` measures all rows of a window
at once, so the two can be compared.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.errors import DefinitionError
from cutover.panes.model import InputRow
from cutover.records.reference.measures import EXACT, finish_measure

Number = int | Decimal


class Tally(NamedTuple):
    """Number of rows; number, sum, minimum and maximum of the values that are not null."""

    rows: int = 0
    values: int = 0
    total: Decimal = Decimal(0)
    minimum: Number | None = None
    maximum: Number | None = None


NOTHING = Tally()


def count_row(measure: Measure, row: InputRow) -> tuple[Tally, ...]:
    """Return the tally of one row; null counts as a row without a value."""
    value = None if measure.expression is None else row.columns[measure.expression]
    if value is None:
        return (Tally(rows=1),)
    return (Tally(rows=1, values=1, total=Decimal(value), minimum=value, maximum=value),)


def merge_tallies(tallies: Sequence[Tally], other: Sequence[Tally]) -> tuple[Tally, ...]:
    """Merge the contents of two states; empty contents mean no rows."""
    if not tallies or not other:
        return (*tallies, *other)
    (a,), (b,) = tallies, other
    return (
        Tally(
            rows=a.rows + b.rows,
            values=a.values + b.values,
            total=EXACT.add(a.total, b.total),
            minimum=b.minimum if a.minimum is None or (b.minimum is not None and b.minimum < a.minimum) else a.minimum,
            maximum=b.maximum if a.maximum is None or (b.maximum is not None and b.maximum > a.maximum) else a.maximum,
        ),
    )


def finish_tally(measure: Measure, contents: Sequence[Tally]) -> object:
    """Compute a measure of contents.

    A count is the number of rows, nulls included: 0 without rows. Every other measure is None if all values are null.

    Raises:
        DefinitionError: Scenarios do not support the measure.
    """
    (tally,) = contents or (NOTHING,)
    return finish_measure(measure, _value(measure, tally))


def _value(measure: Measure, tally: Tally) -> Any:
    match measure:
        case Count():
            return tally.rows
        case Avg():
            return (tally.total, tally.values)
        case Sum():
            return tally.total if tally.values else None
        case Max():
            return tally.maximum
        case Min():
            return tally.minimum
        case other:
            msg = f"Scenario: expected a sum, minimum, maximum, average or count, got {other!r}."
            raise DefinitionError(msg)
