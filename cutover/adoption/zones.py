"""Time zones of the days or hours by which a job may group: those under which the log has the rows of its table.

Spark groups by local times with `to_date(from_utc_timestamp(t, zone))`, with `window` over a shifted time, or with
`date_trunc` in a session that has a zone. The windows of a definition with a job are those of UTC, so such a job cannot
be followed or compared. The zone is found all the same, so that its owners learn why.

A hypothesis shifts the event times of the records to local times. The starts in the table are such local times, or the
instants at which they begin, which are shifted then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cutover.adoption.draft import JobDraft
from cutover.adoption.evidence import to_micros_of
from cutover.adoption.hypotheses import Match, list_likely_filters, match_fold, score_filter
from cutover.adoption.trial import Fold, JobReading, Trial
from cutover.counts import count_noun
from cutover.definition.windows.kinds import SlidingWindows, is_zone
from cutover.durations import MICROSECONDS
from cutover.timestamps import from_micros

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
