"""Hypotheses about what a job computes, each computed over the log in plain Python and compared with its table.

A hypothesis is a draft with one choice of what cannot be read anywhere: the event time, the form of parsing, the output
mode, the id, the filter. The measure of each column is found separately: the one that reproduces most of its cells.
What is chosen is computed again as a whole, and its figures alone are reported. Windows that may have records outside
the range that was read are not compared.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeVar

from cutover.adoption.draft import JobDraft, MeasureChoice
from cutover.adoption.evidence import ReadPlan, drop_zone
from cutover.adoption.filters import (
    NO_FILTER,
    Filter,
    Values,
    combine_filters,
    list_filters,
    list_number_values,
    make_lower_bound,
    make_upper_bound,
)
from cutover.adoption.trial import IndexedRows, JobReading, RowKey, Trial, find_noise, index_rows, is_equal, is_whole
from cutover.definition.measures.kinds import Count
from cutover.records.reference.lookups import no_dimensions
from cutover.records.reference.run import (
    CountedRow,
    Group,
    compute_measures,
    evaluate_records,
    group_records,
)

MAX_MATCHED = 12
"""Number of equally good filters up to which all are matched by their measures."""

MAX_REFINED = 6
"""Number of equally good filters up to which each is tried together with every other one."""

MAX_PAIRED = 25
"""Number of filters of which each pair is tried."""

MAX_BOUNDED = 4
"""Number of filters with which bounds of numbers are tried."""

MAX_CONDITIONS = 2
"""Conditions that are added to a filter."""

WHOLE_TYPES = frozenset({"INTEGER", "BIGINT"})
"""Types of columns that may count records."""

EXAMPLES = 5
"""Differing cells that are named."""

Item = TypeVar("Item")
Groups = Mapping[Group, Sequence[CountedRow]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How well one hypothesis reproduces the table."""

    draft: JobDraft
    rows: int  # of the table or of the hypothesis
    measures: Mapping[str, tuple[MeasureChoice, ...]]  # column -> those that reproduce most of its cells, all equal
    equal: Mapping[str, int]  # column -> cells that its best measures reproduce
    condition: Filter = NO_FILTER
    base: Trial | None = None  # the draft with the types that its records show, by which conditions are evaluated
    trials: tuple[Trial, ...] = ()  # the draft with each type of its numbers

    @property
    def trial(self) -> Trial:
        """The draft, evaluated with the types that its records show."""
        if self.base is None:
            msg = "expected a match of a trial"
            raise LookupError(msg)
        return self.base

    @property
    def share(self) -> float:
        """Share of the cells that are equal."""
        return sum(self.equal.values()) / (self.rows * len(self.equal)) if self.rows and self.equal else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDifference:
    """Cell that speaks against a definition."""

    window_start: int  # microseconds
    key: tuple[Any, ...]
    column: str
    expected: Any  # by the definition; None also if it has no such row
    actual: Any  # of the table; None also if it has no such row


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCheck:
    """Comparison of a whole definition with the table of the job."""

    cells: int
    equal_cells: int
    windows: int  # distinct starts
    records: int
    batches: int
    differences: tuple[CellDifference, ...]  # at most `EXAMPLES`

    @property
    def is_exact(self) -> bool:
        """Return whether every cell is reproduced."""
        return 0 < self.cells == self.equal_cells


def evaluate_draft(draft: JobDraft, choices: Sequence[MeasureChoice], reading: JobReading) -> Trial:
    """Parse and evaluate all records for a draft; its filter is one that the caller states."""
    named = {f"m{number}": choice for number, choice in enumerate(choices)}
    measures = {name: choice.make() for name, choice in named.items()} or {"m0": Count()}
    pipeline = draft.make_pipeline(measures)
    records = [record for batch in reading.records for record in batch]
    evaluated = iter(evaluate_records(pipeline, records, no_dimensions))
    return Trial(draft=draft, choices=named, batches=[[next(evaluated) for _ in batch] for batch in reading.records])


def find_matches(
    trials: Sequence[Trial], variants: Callable[[JobDraft], Sequence[Trial]], reading: JobReading, *, is_filtered: bool
) -> tuple[list[Match], int]:
    """Try all drafts with all filters; return those that reproduce most of the table, and how many were tried.

    First by the rows that a filter leaves and by their number, then the best ones by all measures. If none leaves the
    rows of the table, the best filters are tried again, each together with every other one.

    Args:
        trials: The drafts, evaluated.
        variants: Evaluates a draft with each type that its numbers may have, and all measures.
        reading: What was read.
        is_filtered: The drafts have a filter already, which the caller states.
    """
    scored = [
        (score, trial, condition)
        for trial in trials
        for score, condition in _score_filters(trial, reading, is_filtered=is_filtered)
    ]
    closest = _keep_best(scored, lambda entry: -entry[0])
    closest.sort(key=lambda entry: (entry[2].sql is not None, len(entry[2].sql or "")))
    matches = []
    evaluated: dict[tuple[str, str | None], Sequence[Trial]] = {}
    for _, trial, condition in closest[:MAX_MATCHED]:
        name = trial.draft.event_time, trial.draft.record_id
        evaluated[name] = evaluated.get(name) or variants(trial.draft)
        matches.append(_match(trial, evaluated[name], condition, reading))
    best_matches = _keep_best(matches, lambda match: match.share)
    if best_matches and best_matches[0].share < 1 and not is_filtered:
        best_matches, count = _refine(best_matches, reading)
        return best_matches, len(scored) + count
    return best_matches, len(scored)


def _score_filters(trial: Trial, reading: JobReading, *, is_filtered: bool) -> list[tuple[int, Filter]]:
    """Score the filters of a trial; each pair of them, and bounds with the best ones, only if none leaves the rows."""
    table = index_rows(trial, reading)

    def score(filters: Iterable[Filter]) -> list[tuple[int, Filter]]:
        return [(_score(trial, condition, table, reading.plan), condition) for condition in filters]

    if is_filtered:
        return score([NO_FILTER])
    records = [record.parsed.values for batch in trial.batches for record in batch if record.reason is None]
    plain = score([NO_FILTER, *list_filters(trial.draft, records)])
    plain += score(_list_thresholds(trial, NO_FILTER, records, reading))
    if min(differing for differing, _ in plain) == 0:
        return plain
    ranked = [condition for _, condition in sorted(plain, key=lambda entry: entry[0])]
    pairs = [combine_filters(first, second) for first, second in combinations(ranked[:MAX_PAIRED], 2)]
    for base in ranked[:MAX_BOUNDED]:
        pairs += [combine_filters(base, bound) for bound in _list_thresholds(trial, base, records, reading)]
    return plain + score({pair.sql: pair for pair in pairs}.values())


def _refine(matches: list[Match], reading: JobReading) -> tuple[list[Match], int]:
    """Try further conditions with the best filters, by their measures, until none reproduces more cells."""
    best, tried = matches, 0
    for _ in range(MAX_CONDITIONS):
        closer = list[Match]()
        for match in best[:MAX_REFINED]:
            conditions = list(_list_further(match, reading))
            quick = [_match(match.trial, _restrict(match), condition, reading) for condition in conditions]
            closer += [replace(each, trials=match.trials) for each in quick if each.share > match.share]
            tried += len(conditions)
        closest = _keep_best(closer, lambda match: match.share)[:MAX_REFINED]
        if not closest:
            break
        full = [_match(match.trial, match.trials, match.condition, reading) for match in closest]
        best = _keep_best(full, lambda match: match.share)
        if best[0].share == 1:
            break
    return sorted(best, key=lambda match: len(match.condition.sql or "")), tried


def _restrict(match: Match) -> list[Trial]:
    """Return the variants of a match with one measure for each column."""
    first = {choices[0] for choices in match.measures.values() if choices}
    trials = [
        replace(trial, choices={name: choice for name, choice in trial.choices.items() if choice in first})
        for trial in match.trials
    ]
    return [trial for trial in trials if trial.choices] or trials[:1]


def _list_further(match: Match, reading: JobReading) -> Iterator[Filter]:
    """Yield further conditions, each together with the filter of a match."""
    trial = match.trial
    records = [record.parsed.values for batch in trial.batches for record in batch if record.reason is None]
    further = [*list_filters(trial.draft, records), *_list_thresholds(trial, match.condition, records, reading)]
    return (combine_filters(match.condition, condition) for condition in further)


def _list_thresholds(trial: Trial, base: Filter, records: Sequence[Values], reading: JobReading) -> Iterator[Filter]:
    """Yield bounds of numbers that, with another filter, leave as many records as a column of the table counts."""
    rows = index_rows(trial, reading).rows.values()
    whole = [column for column, kind in trial.draft.value_columns.items() if kind in WHOLE_TYPES]
    totals = {sum(row[column] or 0 for row in rows) for column in whole}

    def count(condition: Filter) -> int:
        groups = _group(trial, trial, combine_filters(base, condition), reading.plan)
        return sum(map(len, groups.values()))

    for name, values in list_number_values(trial.draft, records):
        for make in (make_lower_bound, make_upper_bound):
            bounds = [make(name, values, place) for place in range(len(values))]
            for total in totals:
                place = bisect_left(bounds, total, key=count)  # each leaves more records than the one before
                if place < len(bounds) and count(bounds[place]) == total:
                    yield bounds[place]


def _keep_best(items: Sequence[Item], rate: Callable[[Item], float]) -> list[Item]:
    highest = max(map(rate, items), default=0.0)
    return [item for item in items if rate(item) == highest]


def _is_written(draft: JobDraft, plan: ReadPlan, end: int) -> bool:
    """Return whether the job has written a window: in append mode once it is closed, and not before."""
    return draft.output_mode != "append" or draft.row_per_record or end <= plan.closed_until


def _group(trial: Trial, variant: Trial, condition: Filter, plan: ReadPlan) -> Groups:
    """Group the records that pass a filter, of the windows that are tested, as the job would.

    Args:
        trial: Its rules hold, and conditions are evaluated by its values.
        variant: The same records, with other types of numbers, whose values are grouped.
        condition: The filter.
        plan: The batches.
    """
    draft = trial.draft
    epochs = (
        (
            [
                record
                for record, base in zip(records, base_records, strict=True)
                if record.reason is None and base.reason is None and condition.passes(base.parsed.values)
            ],
            None if draft.keeps_late else batch.watermark if draft.single_watermark else batch.judged_by,
        )
        for batch, records, base_records in zip(plan.batches, variant.batches, trial.batches, strict=True)
    )
    groups = group_records(draft.make_pipeline({"rows": Count()}), epochs)
    return {
        group: rows for group, rows in groups.items() if is_whole(plan, group[0]) and _is_written(draft, plan, group[1])
    }


def _index_groups(groups: Groups) -> dict[RowKey, Group]:
    return {(start, tuple(map(drop_zone, key))): (start, end, key) for start, end, key in groups}


def _score(trial: Trial, condition: Filter, table: IndexedRows, plan: ReadPlan) -> int:
    """Count the rows that only one side has, and those whose number of records no column of the table has."""
    draft, groups = trial.draft, _group(trial, trial, condition, plan)
    index = _index_groups(groups)
    columns = [name for name, kind in draft.value_columns.items() if kind in WHOLE_TYPES and not draft.row_per_record]
    columns += [name for name, choice in draft.measures.items() if choice.expression is None]
    differing = [
        sum(table.rows[key][column] != len(groups[index[key]]) for key in index.keys() & table.rows.keys())
        for column in columns
    ]
    return len(index.keys() ^ table.rows.keys()) + table.copies + min(differing, default=0)


def _match(base: Trial, variants: Sequence[Trial], condition: Filter, reading: JobReading) -> Match:
    """Count for each column the cells that each measure reproduces, with each type that numbers may have."""
    draft, table = base.draft, index_rows(base, reading)
    columns = list(draft.measures if draft.row_per_record else draft.value_columns)
    noise = {column: find_noise(row[column] for row in table.rows.values()) for column in columns}
    counts: dict[str, dict[MeasureChoice, int]] = {column: {} for column in columns}
    rows = 0
    for trial in variants:
        groups = _group(base, trial, condition, reading.plan)
        index = _index_groups(groups)
        pipeline = trial.draft.make_pipeline({name: choice.make() for name, choice in trial.choices.items()})
        computed = compute_measures(pipeline, groups)
        shared = index.keys() & table.rows.keys()
        rows = len(index.keys() | table.rows.keys()) + table.copies
        for column in columns:
            for name, choice in trial.choices.items():
                if draft.measures.get(column, choice) == choice:
                    equal = (is_equal(computed[index[k]][name], table.rows[k][column], noise[column]) for k in shared)
                    counts[column][choice] = sum(equal)
    most = {column: max(counts[column].values(), default=0) for column in columns}
    return Match(
        draft=draft if condition.sql is None else replace(draft, where=condition.sql),
        rows=rows,
        measures={
            column: tuple(choice for choice, count in counts[column].items() if count == most[column])
            for column in columns
        },
        equal=most,
        condition=condition,
        base=base,
        trials=tuple(variants),
    )


def verify(draft: JobDraft, reading: JobReading) -> DraftCheck:
    """Compute a whole definition over the records that were read, and compare each cell with the table."""
    pipeline = draft.make_pipeline()
    records = [record for batch in reading.records for record in batch]
    evaluated = iter(evaluate_records(pipeline, records, no_dimensions))
    batches = [[next(evaluated) for _ in batch] for batch in reading.records]
    trial = Trial(draft=draft, choices={}, batches=batches)
    passing = replace(
        trial, batches=[[r for r in batch if r.evaluated is not None and r.evaluated.passes] for batch in batches]
    )
    table, groups = index_rows(trial, reading), _group(passing, passing, NO_FILTER, reading.plan)
    index, computed = _index_groups(groups), compute_measures(pipeline, groups)
    differences = list(_list_differences(draft, table, index, computed))
    rows = index.keys() | table.rows.keys()
    cells = (len(rows) + table.copies) * len(draft.measures)
    shown = sorted(differences, key=lambda cell: (cell.window_start, str(cell.key), cell.column))
    return DraftCheck(
        cells=cells,
        equal_cells=cells - len(differences) - table.copies * len(draft.measures),
        windows=len({start for start, _ in rows}),
        records=len(records),
        batches=len(batches),
        differences=tuple(shown[:EXAMPLES]),
    )


def _list_differences(
    draft: JobDraft, table: IndexedRows, index: Mapping[RowKey, Group], computed: Mapping[Group, Values]
) -> Iterator[CellDifference]:
    for column in draft.measures:
        name = draft.name_measure(column)
        noise = find_noise(row[column] for row in table.rows.values())
        for key in index.keys() | table.rows.keys():
            expected = computed[index[key]][name] if key in index else None
            actual = table.rows[key][column] if key in table.rows else None
            if key in index and key in table.rows and is_equal(expected, actual, noise):
                continue
            start, parts = key
            value = drop_zone(expected)
            yield CellDifference(window_start=start, key=parts, column=column, expected=value, actual=actual)
