"""Hypotheses about what a job computes, each computed over the log in plain Python and compared with its table.

A hypothesis is a draft with one choice of what cannot be read anywhere: the event time, the form of parsing, the output
mode, the id, the filter. The measure of each column is found separately: the one that reproduces most of its cells.
What is chosen is computed again as a whole, and its figures alone are reported. Windows that may have records outside
the range that was read are not compared.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from typing import Any, TypeVar

from cutover.adoption.draft import (
    NO_FILTER,
    Filter,
    JobDraft,
    MeasureChoice,
    Values,
    combine_filters,
    list_filters,
    list_number_values,
    make_lower_bound,
    make_upper_bound,
)
from cutover.adoption.trial import (
    Fold,
    IndexedRows,
    JobReading,
    RowKey,
    Trial,
    compute_rows,
    find_conditional,
    find_noise,
    is_equal,
)
from cutover.counts import count_noun
from cutover.output.cells import visible
from cutover.timestamps import drop_zone, format_micros

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How well one hypothesis reproduces the table."""

    draft: JobDraft
    rows: int  # of the table or of the hypothesis
    measures: Mapping[str, tuple[MeasureChoice, ...]]  # column -> those that reproduce most of its cells, all equal
    equal: Mapping[str, int]  # column -> cells that its best measures reproduce
    condition: Filter = NO_FILTER
    fold: Fold | None = None  # the draft with the types that its records show, by which conditions are evaluated
    trials: tuple[Trial, ...] = ()  # the draft with each type of its numbers

    @property
    def evaluated(self) -> Fold:
        """The draft, evaluated with the types that its records show."""
        if self.fold is None:
            msg = "expected a match of a trial"
            raise LookupError(msg)
        return self.fold

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
    rows: int  # of either side
    table_rows: int
    shared_rows: int  # that both sides have
    windows: int  # distinct starts
    records: int
    batches: int
    is_partial: bool  # older batches were not read
    differences: tuple[CellDifference, ...]  # at most `EXAMPLES`

    @property
    def is_exact(self) -> bool:
        """Return whether every cell is reproduced."""
        return 0 < self.cells == self.equal_cells

    @property
    def has_other_rows(self) -> bool:
        """Return whether both sides have rows, and none of them in common."""
        return self.shared_rows == 0 and 0 < self.table_rows < self.rows

    def describe_other_rows(self) -> str:
        """Describe that both sides have other windows or keys."""
        computed = count_noun(self.rows - self.table_rows, "row")
        cell = self.differences[0]
        side = "the table" if cell.expected is None else "the definition"
        key = ", ".join(map(str, cell.key))
        return (
            f"none of its {count_noun(self.table_rows, 'row')} has a window and key of the {computed} that the "
            f"definition has; {side} begins with {format_micros(cell.window_start)} {visible(key)}"
        )


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
    folds = [Fold(trial, reading) for trial in trials]
    scored = [
        (score_filter(fold, each), fold, each)
        for fold in folds
        for each in _list_plain_filters(fold, is_filtered=is_filtered)
    ]
    if not is_filtered and min(score for score, _, _ in scored) > 0:
        scored += [(score_filter(fold, each), fold, each) for fold in folds for each in _list_pairs(fold, scored)]
    closest = keep_best(scored, lambda entry: -entry[0])
    closest.sort(key=lambda entry: (entry[2].sql is not None, len(entry[2].sql or "")))
    matches = []
    variants_of: dict[tuple[str, str | None], Sequence[Trial]] = {}
    for _, fold, condition in closest[:MAX_MATCHED]:
        name = _name_evaluation(fold)
        variants_of[name] = variants_of.get(name) or variants(fold.trial.draft)
        matches.append(match_fold(fold, variants_of[name], condition))
    best_matches = keep_best(matches, lambda match: match.share)
    if not best_matches or best_matches[0].share == 1 or best_matches[0].draft.row_per_record:
        return best_matches, len(scored)
    unfiltered = [
        match_fold(fold, variants_of[name], NO_FILTER)
        for name, fold in {_name_evaluation(fold): fold for fold in folds}.items()
        if name in variants_of
    ]
    conditional, tried = _add_conditions([*best_matches[:MAX_REFINED], *unfiltered])
    if is_filtered or (conditional and conditional[0].share == 1):
        return conditional or best_matches, len(scored) + tried
    refined, count = _refine(best_matches)
    tried += count
    if refined[0].share < 1:
        refined, count = _add_conditions(refined[:MAX_REFINED])
        tried += count
    return keep_best([*refined, *conditional], lambda match: match.share), len(scored) + tried


def _name_evaluation(fold: Fold) -> tuple[str, str | None]:
    return fold.trial.draft.event_time, fold.trial.draft.record_id


def _add_conditions(matches: Sequence[Match]) -> tuple[list[Match], int]:
    """Give columns that no measure reproduces measures of the records that a condition selects; keep the best."""
    tried, conditional = 0, list[Match]()
    for match in matches:
        columns = find_conditional(match.evaluated, match.trials, match.condition, match.equal)
        tried += sum(count for _, _, count in columns.values())
        better = {column: (choices, equal) for column, (choices, equal, _) in columns.items() if choices}
        measures = {**match.measures, **{column: choices for column, (choices, _) in better.items()}}
        equal = {**match.equal, **{column: equal for column, (_, equal) in better.items()}}
        conditional.append(replace(match, measures=measures, equal=equal))
    return keep_best(conditional, lambda match: match.share), tried


def _list_plain_filters(fold: Fold, *, is_filtered: bool) -> list[Filter]:
    """List the filters of one condition."""
    if is_filtered:
        return [NO_FILTER]
    return [NO_FILTER, *list_filters(fold.trial.draft, fold.trial.list_values()), *_list_thresholds(fold, NO_FILTER)]


def _list_pairs(fold: Fold, scored: Sequence[tuple[int, Fold, Filter]]) -> Iterable[Filter]:
    """List each pair of the best filters, and bounds of numbers with them."""
    own = sorted((entry for entry in scored if entry[1] is fold), key=lambda entry: entry[0])
    ranked = [condition for _, _, condition in own]
    pairs = [combine_filters(first, second) for first, second in combinations(ranked[:MAX_PAIRED], 2)]
    for base in ranked[:MAX_BOUNDED]:
        pairs += [combine_filters(base, bound) for bound in _list_thresholds(fold, base)]
    return {pair.sql: pair for pair in pairs if pair.may_pass}.values()


def _refine(matches: list[Match]) -> tuple[list[Match], int]:
    """Try further conditions with the best filters, by their measures, until none reproduces more cells."""
    best, tried = matches, 0
    for _ in range(MAX_CONDITIONS):
        closer = list[Match]()
        for match in best[:MAX_REFINED]:
            conditions = list(_list_further(match))
            score = score_filter(match.evaluated, match.condition)
            likely = (each for each in conditions if score_filter(match.evaluated, each) <= score)
            quick = [match_fold(match.evaluated, _restrict(match), condition) for condition in likely]
            closer += [replace(each, trials=match.trials) for each in quick if each.share > match.share]
            tried += len(conditions)
        closest = keep_best(closer, lambda match: match.share)[:MAX_REFINED]
        if not closest:
            break
        full = [match_fold(match.evaluated, match.trials, match.condition) for match in closest]
        best = keep_best(full, lambda match: match.share)
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


def _list_further(match: Match) -> Iterator[Filter]:
    """Yield further conditions, each together with the filter of a match."""
    fold = match.evaluated
    further = [*list_filters(fold.trial.draft, fold.trial.list_values()), *_list_thresholds(fold, match.condition)]
    combined = (combine_filters(match.condition, condition) for condition in further)
    return (each for each in combined if each.may_pass)


def list_likely_filters(fold: Fold, *, is_filtered: bool) -> list[Filter]:
    """List the filters that leave as many records as a column of the table counts, whatever the windows are."""
    if is_filtered:
        return [NO_FILTER]
    filters = _list_plain_filters(fold, is_filtered=False)
    totals = _count_records(fold)
    likely = [each for each in filters if sum(len(record.rows) for record in fold.select(each)) in totals]
    return likely or filters[:MAX_MATCHED]


def _count_records(fold: Fold) -> set[int]:
    """Count the records of the table by each column that may count them."""
    rows = fold.table.rows.values()
    return {sum(row[column] or 0 for row in rows) for column in _list_count_columns(fold.trial.draft)}


def _list_count_columns(draft: JobDraft) -> list[str]:
    """List the columns of the table that may count records."""
    return [column for column, kind in draft.value_columns.items() if draft.has_counts and kind in WHOLE_TYPES]


def _list_thresholds(fold: Fold, base: Filter) -> Iterator[Filter]:
    """Yield bounds of numbers that, with another filter, leave as many records as a column of the table counts."""
    draft, totals = fold.trial.draft, _count_records(fold)
    counted = [
        (record.values, sum(fold.is_tested(start, end) for start, end, _ in record.rows))
        for record in fold.select(base)
    ]
    for name, values in list_number_values(draft, [fields for fields, _ in counted]):
        counts = Counter[Any]()
        for fields, rows_of_record in counted:
            counts[fields[name]] += rows_of_record
        for make, ordered in ((make_lower_bound, values[::-1]), (make_upper_bound, values)):
            # Each bound leaves more than the one before; one that all numbers pass would say nothing.
            passing = accumulate(counts[value] for value in ordered[:-1])
            yield from (make(name, values, place) for place, count in enumerate(passing) if count in totals)


def keep_best(items: Sequence[Item], rate: Callable[[Item], float]) -> list[Item]:
    """Return those of the highest rate, in their order."""
    highest = max(map(rate, items), default=0.0)
    return [item for item in items if rate(item) == highest]


def score_filter(fold: Fold, condition: Filter) -> int:
    """Count the rows that only one side has, and those whose number of records no column of the table has."""
    draft, table, groups = fold.trial.draft, fold.table, fold.group(condition)
    columns = [] if draft.row_per_record else _list_count_columns(draft)
    columns += [name for name, choice in draft.measures.items() if choice.expression is None]
    shared = groups.keys() & table.rows.keys()
    differing = [sum(table.rows[key][column] != len(groups[key]) for key in shared) for column in columns]
    return len(groups.keys() ^ table.rows.keys()) + table.copies + min(differing, default=0)


def match_fold(fold: Fold, variants: Sequence[Trial], condition: Filter) -> Match:
    """Count for each column the cells that each measure reproduces, with each type that numbers may have."""
    draft, table, groups = fold.trial.draft, fold.table, fold.group(condition)
    columns = list(draft.measures if draft.row_per_record else draft.value_columns)
    noise = {column: find_noise(row[column] for row in table.rows.values()) for column in columns}
    counts: dict[str, dict[MeasureChoice, int]] = {column: {} for column in columns}
    rows = 0
    for trial in variants:
        pipeline = trial.draft.make_pipeline({name: choice.make() for name, choice in trial.choices.items()})
        computed = compute_rows(trial, groups, pipeline)
        shared = computed.keys() & table.rows.keys()
        rows = len(computed.keys() | table.rows.keys()) + table.copies
        for column in columns:
            for name, choice in trial.choices.items():
                if draft.measures.get(column, choice) == choice:
                    equal = (is_equal(computed[k][name], table.rows[k][column], noise[column]) for k in shared)
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
        fold=fold,
        trials=tuple(variants),
    )


def verify(draft: JobDraft, reading: JobReading) -> DraftCheck:
    """Compute a whole definition over the records that were read, and compare each cell with the table."""
    pipeline = draft.make_pipeline()
    fold = Fold(Trial(draft=draft, choices={}, records=reading.evaluate(pipeline)), reading)
    table, computed = fold.table, compute_rows(fold.trial, fold.group(NO_FILTER), pipeline)
    differences = list(_list_differences(draft, table, computed))
    rows = computed.keys() | table.rows.keys()
    cells = (len(rows) + table.copies) * len(draft.measures)
    return DraftCheck(
        cells=cells,
        equal_cells=cells - len(differences) - table.copies * len(draft.measures),
        rows=len(rows),
        table_rows=len(table.rows),
        shared_rows=len(computed.keys() & table.rows.keys()),
        windows=len({start for start, _ in rows}),
        records=sum(map(len, reading.records)),
        batches=len(reading.records),
        is_partial=reading.plan.is_partial,
        differences=tuple(_select_examples(differences)),
    )


def _select_examples(differences: Iterable[CellDifference]) -> list[CellDifference]:
    """Select the first cells that differ, among them one of each column, if there are not too many."""

    def order(cell: CellDifference) -> tuple[int, str, str]:
        return cell.window_start, str(cell.key), cell.column

    ordered = sorted(differences, key=order)
    first_of = {cell.column: cell for cell in reversed(ordered)}
    return sorted(sorted(ordered, key=lambda cell: cell is not first_of[cell.column])[:EXAMPLES], key=order)


def _list_differences(
    draft: JobDraft, table: IndexedRows, computed: Mapping[RowKey, Values]
) -> Iterator[CellDifference]:
    for column in draft.measures:
        name = draft.name_measure(column)
        noise = find_noise(row[column] for row in table.rows.values())
        for key in computed.keys() | table.rows.keys():
            expected = computed[key][name] if key in computed else None
            actual = table.rows[key][column] if key in table.rows else None
            if key in computed and key in table.rows and is_equal(expected, actual, noise):
                continue
            start, parts = key[0], key[1][: len(draft.key)]
            value = drop_zone(expected)
            yield CellDifference(window_start=start, key=parts, column=column, expected=value, actual=actual)
