"""What the reference holds of the rows of a window: enough for every measure of a scenario, and of no size.

So a pane costs the same whether a window has ten rows or a million. `cutover.panes.batch` measures all rows of a window
at once, and so can be compared with it.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.errors import DefinitionError
from cutover.panes.model import InputRow
from cutover.records.reference.measures import EXACT, finish

Number = int | Decimal


class Tally(NamedTuple):
    """Rows, and of those whose value is not null the number, the sum, and both ends."""

    rows: int = 0
    values: int = 0
    total: Decimal = Decimal(0)
    least: Number | None = None
    most: Number | None = None


NOTHING = Tally()


def of_row(measure: Measure, row: InputRow) -> tuple[Tally, ...]:
    """One tally, of one row; a null counts as a row without a value."""
    value = None if measure.expression is None else row.columns[measure.expression]
    if value is None:
        return (Tally(rows=1),)
    return (Tally(rows=1, values=1, total=Decimal(value), least=value, most=value),)


def merge_tallies(tallies: Sequence[Tally], other: Sequence[Tally]) -> tuple[Tally, ...]:
    """Return the contents of both; empty contents are those of no rows."""
    if not tallies or not other:
        return (*tallies, *other)
    (a,), (b,) = tallies, other
    return (
        Tally(
            rows=a.rows + b.rows,
            values=a.values + b.values,
            total=EXACT.add(a.total, b.total),
            least=b.least if a.least is None or (b.least is not None and b.least < a.least) else a.least,
            most=b.most if a.most is None or (b.most is not None and b.most > a.most) else a.most,
        ),
    )


def finish_measure(measure: Measure, contents: Sequence[Tally]) -> object:
    """Return a measure of contents; of nothing but nulls, and of no rows, a number of rows is 0 and all else None.

    Raises:
        DefinitionError: It is none that scenarios have.
    """
    (found,) = contents or (NOTHING,)
    return finish(measure, _value(measure, found))


def _value(measure: Measure, tally: Tally) -> Any:
    match measure:
        case Count():
            return tally.rows
        case Avg():
            return (tally.total, tally.values)
        case Sum():
            return tally.total if tally.values else None
        case Max():
            return tally.most
        case Min():
            return tally.least
        case other:
            msg = f"Scenario: expected a sum, minimum, maximum, average or count, got {other!r}."
            raise DefinitionError(msg)
