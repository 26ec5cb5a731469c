"""Search for what a job computes: drafts, hypotheses and time zones that are tried, and what is kept and verified.

Spark groups by local times with `to_date(from_utc_timestamp(t, zone))`, with `window` over a shifted time, or with
`date_trunc` in a session that has a zone. The windows of a definition with a job are those of UTC, so such a job cannot
be followed or compared. The zone is found all the same, so that its owners learn why: one under which the log has the
rows of the table. A hypothesis shifts the event times of the records to local times. The starts in the table are such
local times, or the instants at which they begin, which are shifted then.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cutover.adoption.completion import (
    choose_match,
    choose_types,
    complete_draft,
    describe_decisions,
    drop_equivalent,
    list_variants,
    rank_measures,
)
from cutover.adoption.draft import Choose, JobDraft, MeasureChoice, Stated
from cutover.adoption.evidence import QueryShape, StreamTable
from cutover.adoption.hypotheses import (
    DraftCheck,
    Match,
    find_matches,
    list_likely_filters,
    match_fold,
    score_filter,
    verify,
)
from cutover.adoption.proposal import list_event_times
from cutover.adoption.sample import RecordSample
from cutover.adoption.trial import Fold, JobReading, Trial, evaluate_draft, is_tested, omit_foreign_times
from cutover.counts import count_noun
from cutover.definition.model.pipeline import OutputMode
from cutover.definition.model.topic import ParseForm
from cutover.definition.windows.kinds import Sessions, SlidingWindows, is_zone
from cutover.errors import DefinitionError
from cutover.timestamps import MICROSECONDS, format_duration, from_micros, to_micros_of

_DAY, _HOUR = MICROSECONDS["day"], MICROSECONDS["hour"]
_MICROSECOND = timedelta(microseconds=1)
_USUAL = ("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Chicago", "America/Los_Angeles")
_REGIONS = ("Europe/", "America/", "Asia/", "Australia/", "Africa/", "Pacific/")
_NAMED = 3
"""Zones with the same local times that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWindows:
    """Windows of a zone's local times that reproduce a table, as far as they do."""

    zones: tuple[str, ...]  # which have the same local times at all records; the usual one first
    size: int  # microseconds
    cells: int
    equal_cells: int

    @property
    def is_exact(self) -> bool:
        """Return whether every cell is reproduced."""
        return 0 < self.cells == self.equal_cells

    def describe(self) -> str:
        """Describe the windows for people, such as `days of Europe/Berlin`."""
        unit = "days" if self.size == _DAY else "hours"
        alike = ", ".join(self.zones[1:_NAMED])
        others = len(self.zones) - _NAMED
        further = f" and {count_noun(others, 'further zone')}" if others > 0 else ""
        tie = f" (or {alike}{further}: they have the same local times at these records)" if alike else ""
        return f"{unit} of {self.zones[0]}{tie}"

    def describe_cells(self) -> str:
        """Describe how far they reproduce the table."""
        how_many = "all" if self.is_exact else "only"
        return f"{how_many} {self.equal_cells:,} of {count_noun(self.cells, 'cell')} of the table"


def find_local_windows(
    trials: Sequence[Trial],
    variants: Callable[[JobDraft], Sequence[Trial]],
    reading: JobReading,
    *,
    is_filtered: bool,
) -> LocalWindows | None:
    """Find the local windows that reproduce most cells of a table; None: those of no zone have its rows.

    Args:
        trials: Drafts of the job, evaluated.
        variants: Evaluates a draft with the measures that its columns may have.
        reading: What was read.
        is_filtered: The drafts have a filter already.
    """
    best: LocalWindows | None = None
    for trial in trials:
        filters = list_likely_filters(Fold(trial, reading), is_filtered=is_filtered)
        hypotheses = list(_list_hypotheses(trial, reading))
        scored = [
            (score_filter(fold, condition), zones, fold, condition)
            for zones, fold in hypotheses
            for condition in filters
        ]
        lowest = min((entry[0] for entry in scored), default=0)
        evaluated = variants(trial.draft) if scored else ()
        for score, zones, fold, condition in scored:
            if score == lowest and (best is None or not best.is_exact):
                found = _make_windows(zones, fold, match_fold(fold, evaluated, condition))
                best = found if best is None or found.equal_cells > best.equal_cells else best
    return best if best is not None and best.equal_cells else None


def _make_windows(zones: tuple[str, ...], fold: Fold, match: Match) -> LocalWindows:
    return LocalWindows(
        zones=zones,
        size=fold.trial.draft.window.reach or 0,
        cells=match.rows * len(match.equal),
        equal_cells=sum(match.equal.values()),
    )


def _list_hypotheses(trial: Trial, reading: JobReading) -> Iterator[tuple[tuple[str, ...], Fold]]:
    """Yield each set of zones with the same local times, and the records and rows as local times."""
    column = trial.draft.start_column
    starts = {row[column]: to_micros_of(row[column]) for row in reading.rows if row[column] is not None}
    events = [record.event for record in trial.records if record.event is not None]
    for zones in group_zones(events):
        zone = ZoneInfo(zones[0])
        local_records = [
            record if record.event is None else replace(record, event=to_local(record.event, zone))
            for record in trial.records
        ]
        instants = {value: to_local(start, zone) for value, start in starts.items()}
        labels = [starts] if zones[0] == "UTC" else [starts, instants]
        for local_starts in labels:
            size = _find_size(local_starts.values())
            window = None if size is None else SlidingWindows(size=size, every=size)
            is_tried = zones[0] == "UTC" and window == trial.draft.window
            if window is None or is_tried:
                continue
            draft = replace(trial.draft, window=window)
            rows = [_relabel(row, column, local_starts) for row in reading.rows]
            yield zones, Fold(replace(trial, draft=draft, records=local_records), _shift_reading(reading, rows))


def _relabel(row: Mapping[str, Any], column: str, local_starts: Mapping[Any, int]) -> dict[str, Any]:
    start = row[column]
    return {**row, column: None if start is None else from_micros(local_starts[start])}


def _shift_reading(reading: JobReading, rows: Sequence[Mapping[str, Any]]) -> JobReading:
    """Return a reading with other rows, whose windows are whole if those of every zone are."""
    plan = reading.plan
    whole_from = None if plan.whole_from is None else plan.whole_from + 2 * _DAY
    return replace(reading, rows=rows, plan=replace(plan, whole_from=whole_from))


def _find_size(starts: Iterable[int]) -> int | None:
    """Find the longest windows that start at these times; None: they are no hours."""
    listed = list(starts)
    return next((size for size in (_DAY, _HOUR) if all(start % size == 0 for start in listed)), None)


def to_local(micros: int, zone: ZoneInfo) -> int:
    """Convert an instant to the local time of a zone, both in microseconds."""
    offset = from_micros(micros).astimezone(zone).utcoffset()
    return micros + (offset or timedelta()) // _MICROSECOND


def group_zones(events: Iterable[int]) -> list[tuple[str, ...]]:
    """Group the zones by their local times at some instants; the usual name of each group comes first."""
    hours = sorted({event // _HOUR for event in events})
    groups: dict[tuple[timedelta | None, ...], list[str]] = {}
    instants = [from_micros(hour * _HOUR) for hour in hours]
    for name in _list_zones():
        zone = ZoneInfo(name)
        groups.setdefault(tuple(instant.astimezone(zone).utcoffset() for instant in instants), []).append(name)
    return [tuple(names) for names in groups.values()]


@cache
def _list_zones() -> tuple[str, ...]:
    """List the zones whose names Python and Java interpret alike, the usual ones first."""

    def rate(name: str) -> tuple[int, int, str]:
        usual = _USUAL.index(name) if name in _USUAL else len(_USUAL)
        return usual, next((place for place, region in enumerate(_REGIONS) if name.startswith(region)), 99), name

    return tuple(sorted(filter(is_zone, available_timezones()), key=rate))


_ORDER_NAME = re.compile("batch|epoch|version|updat|written|load")

MAX_EVENT_TIMES = 3
"""Fields that are tried as the event time."""

MAX_GAPS = 4
"""Gaps of sessions that are tried."""

_UTC_ONLY = (
    "\nHint: a definition with a job has windows of UTC alone, and the checkpoint does not show which records a job "
    "with other ones has dropped: docs/follow.md lists which jobs can be followed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is known of a streaming job, and what its owners state."""

    shape: QueryShape
    table: StreamTable
    sample: RecordSample
    stated: Stated
    choose: Choose


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexplainedColumn:
    """Column of the table that is left out, and the hypothesis that reproduces most of its cells."""

    nearest: MeasureChoice
    check: DraftCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Draft that reproduces most of the table."""

    draft: JobDraft
    tried: int  # hypotheses
    verification: DraftCheck
    unexplained: Mapping[str, UnexplainedColumn]


def search_definition(draft: JobDraft, job: Job, reading: JobReading) -> SearchResult:
    """Try hypotheses, complete the draft by the best one, and verify the result.

    Raises:
        DefinitionError: Something has to be stated, or the windows of the job are those of another zone than UTC.
    """
    matches, tried = list[Match](), 0
    forms: tuple[ParseForm, ...] = ("from_json", "strict") if draft.parse != "avro" else ("avro",)
    for parse in forms:
        trials = _list_trials(_use_form(draft, parse), job, reading)
        matches_of_form, count = find_matches(
            trials,
            lambda each: _list_variants(each, job, reading),
            reading,
            is_filtered=job.stated.where is not None,
        )
        tried += count
        if not matches or matches_of_form[0].share > matches[0].share:
            matches = matches_of_form
        if matches[0].share == 1:
            break
    if matches[0].share < 1:
        _check_zone(draft, job, reading)
    matches = drop_equivalent(matches)
    match = choose_match(matches, job.stated, job.choose)
    completed = complete_draft(match, job.shape, job.stated, job.choose)
    verification = verify(completed, reading)
    if verification.has_other_rows:
        msg = f"Table `{completed.table}`: expected rows of the query's windows and keys, "
        hint = (
            "\nHint: is it the table of this query? `--key COLUMN=FIELD` and `--window-start COLUMN` name its columns."
        )
        msg += f"{verification.describe_other_rows()}.{hint}"
        raise DefinitionError(msg)
    return SearchResult(
        draft=describe_decisions(completed, matches, verification, job.stated),
        tried=tried,
        verification=verification,
        unexplained=dict(_list_unexplained(match, completed, job.shape, reading)),
    )


def _use_form(draft: JobDraft, parse: ParseForm) -> JobDraft:
    """Use a form of parsing: the strict one reads no number from a text."""
    if parse != "strict":
        return replace(draft, parse=parse)
    texts = {name: "string" for name, others in draft.text_numbers.items() if others}
    types = {**draft.types, **texts, **draft.stated_types}
    return replace(draft, parse=parse, types=types, text_numbers={})


def _list_trials(draft: JobDraft, job: Job, reading: JobReading) -> list[Trial]:
    drafts = [
        replace(draft, event_time=name, record_id=record_id)
        for name in list_event_times(job.shape, job.sample, job.stated)[:MAX_EVENT_TIMES]
        for record_id in _list_record_ids(draft)
    ]
    in_modes = [
        replace(trial, draft=replace(trial.draft, output_mode=mode))
        for evaluated in (evaluate_draft(each, (), reading) for each in drafts)
        for trial in list_gaps(evaluated, job.stated, reading)
        for mode in _list_modes(draft, job)
    ]
    return [
        omit_foreign_times(
            replace(trial, draft=replace(trial.draft, single_watermark=single, latest_by=latest_by)),
            job.stated.measures,
            reading,
        )
        for trial in in_modes
        for single in ((False,) if trial.draft.keeps_late else (False, True))
        for latest_by in _list_orders(draft, reading)
    ]


def list_gaps(trial: Trial, stated: Stated, reading: JobReading) -> list[Trial]:
    """List a trial with each gap that its sessions may have: all of them end a gap after a record."""
    draft = trial.draft
    if not isinstance(draft.window, Sessions) or draft.end_column is None or stated.window is not None:
        return [trial]
    events = sorted({record.event for record in trial.records if record.event is not None})
    shared: set[int] | None = None
    for row in reading.rows:
        bounds = row[draft.start_column], row[draft.end_column]
        if None in bounds or not is_tested(draft, reading.plan, *map(to_micros_of, bounds)):
            continue
        start, end = map(to_micros_of, bounds)
        gaps = {end - event for event in events[bisect_left(events, start) : bisect_left(events, end)]}
        shared = gaps if shared is None else shared & gaps
    windows = [Sessions(gap=format_duration(gap)) for gap in sorted(shared or ())[:MAX_GAPS]]
    return [replace(trial, draft=replace(draft, window=window)) for window in windows or [draft.window]]


def _list_variants(draft: JobDraft, job: Job, reading: JobReading) -> list[Trial]:
    """Evaluate a draft with each type that its numbers may have, and all measures.

    Raises:
        DefinitionError: No definition can have any of the types.
    """
    trials, rejections = [], []
    for variant in list_variants(draft, job.shape):
        try:
            trials.append(evaluate_draft(replace(draft, types=variant.types), variant.choices, reading))
        except DefinitionError as error:
            rejections.append(error)
    if not trials and rejections:
        raise rejections[0]
    return trials


def _list_unexplained(
    match: Match, draft: JobDraft, shape: QueryShape, reading: JobReading
) -> Iterator[tuple[str, UnexplainedColumn]]:
    """Yield the columns that are left out, with the measure that reproduces most of their cells."""
    for column in (column for column in draft.omitted if column in match.equal and not draft.row_per_record):
        nearest = next(iter(rank_measures(match, column, shape)), None)
        if nearest is not None and match.equal[column]:
            alone = choose_types(replace(match.draft, measures={column: nearest}), match.equal)
            check = verify(replace(draft, measures=alone.measures, types=alone.types), reading)
            yield column, UnexplainedColumn(nearest=alone.measures[column], check=check)


def _check_zone(draft: JobDraft, job: Job, reading: JobReading) -> None:
    """Reject a job whose windows are those of another zone than UTC.

    Raises:
        DefinitionError: Such windows reproduce every cell of the table.
    """
    if draft.row_per_record or isinstance(draft.window, Sessions) or draft.window.size % MICROSECONDS["hour"]:
        return
    windows = find_local_windows(
        _list_trials(draft, job, reading)[:1],
        lambda each: _list_variants(each, job, reading),
        reading,
        is_filtered=job.stated.where is not None,
    )
    if windows is not None and windows.is_exact:
        msg = f"--stream: expected windows of UTC, those of the table are {windows.describe()}, which reproduce "
        msg += f"{windows.describe_cells()}.{_UTC_ONLY}"
        raise DefinitionError(msg)


def reject_days(draft: JobDraft, job: Job, reading: JobReading) -> DefinitionError:
    """Return the error of a job that groups by days without `window`, with the zone whose days they are."""
    drafts = [
        replace(draft, event_time=event_time, output_mode="complete")
        for event_time in list_event_times(job.shape, job.sample, job.stated)[:MAX_EVENT_TIMES]
    ]
    windows = find_local_windows(
        [omit_foreign_times(evaluate_draft(each, (), reading), job.stated.measures, reading) for each in drafts],
        lambda each: _list_variants(each, job, reading),
        reading,
        is_filtered=job.stated.where is not None,
    )
    text = "no days or hours of a zone reproduce a cell of the table"
    if windows is not None:
        verb = "which reproduce" if windows.is_exact else "which come closest and reproduce"
        text = f"they are {windows.describe()}, {verb} {windows.describe_cells()}"
    return DefinitionError(
        f"--checkpoint: expected a grouping by `window`, it groups by `{draft.start_column}`: {text}.{_UTC_ONLY}"
    )


def reject_untested_days(column: str, obstacle: str) -> DefinitionError:
    """Return the error of a job that groups by days without `window`, whose records cannot be read."""
    msg = (
        f"--checkpoint: expected a grouping by `window`, it groups by `{column}`; of which zone its days are cannot be "
    )
    return DefinitionError(f"{msg}tested: {obstacle}.{_UTC_ONLY}")


def _list_record_ids(draft: JobDraft) -> list[str | None]:
    """List the ids by which a record that was sent twice may count once: a job may merge by the id of its rows."""
    if draft.record_id is not None or not draft.row_per_record:
        return [draft.record_id]
    return [None, draft.key[0].field]


def _list_modes(draft: JobDraft, job: Job) -> Sequence[OutputMode]:
    if job.table.output_mode is not None or draft.row_per_record or not job.shape.drops_late:
        return [draft.output_mode]
    return ["append", "complete"] if draft.window.merges else ["update", "append", "complete"]


def _list_orders(draft: JobDraft, reading: JobReading) -> list[str | None]:
    """List the columns that may order the rows of a window and key, if it has several."""
    names = [draft.start_column, *(part.column for part in draft.key)]
    keys = [tuple(row[name] for name in names) for row in reading.rows]
    if draft.row_per_record or draft.window.merges or len(set(keys)) == len(keys):
        return [None]
    values: dict[str, set[object]] = {name: set() for name in draft.value_columns}
    for key, row in zip(keys, reading.rows, strict=True):
        for name, known in values.items():
            if row[name] is not None:
                known.add((key, row[name]))
    orders = [name for name, known in values.items() if len(known) == len(keys)]
    orders.sort(key=lambda name: _ORDER_NAME.search(name.lower()) is None)
    return list(orders[:1]) or [None]
