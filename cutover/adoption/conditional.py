"""Conditional measures: sums, counts and extremes of the records that a condition selects, such as `count_if(...)`.

They are tried for columns that no measure of all records reproduces. The records are grouped once; for each condition
only the values of the records that it selects are merged, and a hypothesis is given up as soon as more cells differ
than for the best one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from cutover.adoption.draft import MeasureChoice
from cutover.adoption.filters import Filter, list_filters
from cutover.adoption.trial import Fold, RowKey, Trial, find_noise, is_equal
from cutover.records.reference.measures import finish_measure, merge_measure
from cutover.records.reference.run import make_counted_row

MAX_CONDITIONS = 60
"""Conditions that are tried."""

HOPELESS = 20
"""Cells after which a measure that has reproduced none of them is given up."""

_ONE = MeasureChoice("Sum", "1")


@dataclass(slots=True)
class _Column:
    """Column whose measure is searched for."""

    cells: Mapping[RowKey, Any]
    noise: float
    equal: int  # cells that the best measures reproduce
    choices: tuple[MeasureChoice, ...] = ()
    tried: int = 0

    def try_measure(self, choice: MeasureChoice, compute: Callable[[RowKey], Any]) -> None:
        """Keep a measure if it reproduces more cells than those before, or as many as one with a condition."""
        self.tried += 1
        equal, remaining = 0, len(self.cells)
        for place, (key, actual) in enumerate(self.cells.items()):
            if equal + remaining < max(self.equal, 1) or (place == HOPELESS and not equal):
                return
            remaining -= 1
            equal += is_equal(compute(key), actual, self.noise)
        if equal > self.equal:
            self.equal, self.choices = equal, (choice,)
        elif equal == self.equal and self.choices:
            self.choices = (*self.choices, choice)


def find_conditional(
    fold: Fold, trials: Sequence[Trial], where: Filter, equal: Mapping[str, int]
) -> dict[str, tuple[tuple[MeasureChoice, ...], int, int]]:
    """Find conditional measures of the columns that no other measure reproduces.

    Args:
        fold: Records and rows of the table.
        trials: The records with each type that numbers may have.
        where: Filter of the job.
        equal: Column -> cells that its best measures reproduce.

    Returns:
        Column -> its best conditional measures, empty if none is better; the cells that they reproduce; and how many
        were tried.
    """
    groups = fold.group(where)
    shared = sorted(groups.keys() & fold.table.rows.keys(), key=str)
    columns = {
        column: _Column(
            cells={key: fold.table.rows[key][column] for key in shared},
            noise=find_noise(row[column] for row in fold.table.rows.values()),
            equal=count,
        )
        for column, count in equal.items()
        if count < len(shared)
    }
    if columns:
        values = [record.values for record in fold.select(where)]
        for condition in list(list_filters(fold.trial.draft, values))[:MAX_CONDITIONS]:
            for choice, compute in _list_measures(fold, trials, condition, groups):
                for column in columns.values():
                    column.try_measure(choice, compute)
    return {name: (column.choices, column.equal, column.tried) for name, column in columns.items()}


def _list_measures(
    fold: Fold, trials: Sequence[Trial], condition: Filter, groups: Mapping[RowKey, Sequence[int]]
) -> Iterator[tuple[MeasureChoice, Callable[[RowKey], Any]]]:
    """Yield each measure of the records that a condition selects, with the function that computes it for a row."""

    @cache
    def select(key: RowKey) -> list[int]:
        return [place for place in groups[key] if condition.passes(fold.trial.records[place].parsed.values)]

    yield replace(_ONE, condition=condition.sql, has_zero=True), lambda key: len(select(key))
    yield replace(_ONE, condition=condition.sql), lambda key: len(select(key)) or None
    for trial in trials:
        for name, choice in trial.choices.items():
            if choice.expression is None:
                continue
            compute = _make_compute(trial, name, choice, select)
            yield replace(choice, condition=condition.sql), compute
            if choice.kind == "Sum":
                zero = _make_zero(compute, lambda key: len(select(key)) < len(groups[key]))
                yield replace(choice, condition=condition.sql, has_zero=True), zero


def _make_compute(
    trial: Trial, name: str, choice: MeasureChoice, select: Callable[[RowKey], Sequence[int]]
) -> Callable[[RowKey], Any]:
    measure = choice.make()

    @cache
    def compute(key: RowKey) -> Any:
        records = [trial.records[place] for place in select(key)]
        counted = [make_counted_row(record, record.evaluated) for record in records if record.evaluated is not None]
        values = [row[name] for row, _ in counted]
        return finish_measure(measure, merge_measure(measure, values, [position for _, position in counted]))

    return compute


def _make_zero(compute: Callable[[RowKey], Any], has_others: Callable[[RowKey], bool]) -> Callable[[RowKey], Any]:
    """Return the sum to which each other record adds a zero."""

    def compute_with_zero(key: RowKey) -> Any:
        value = compute(key)
        return 0 if value is None and has_others(key) else value

    return compute_with_zero
