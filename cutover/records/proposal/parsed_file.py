"""Records of a file as the parser of a proposed topic reads them: which it rejects, and the times of the others.

From their rate and disorder `cutover init` proposes lateness, window and epochs.
"""

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutover.counts import count_clause, count_noun
from cutover.definition.model.times import parse_iso_micros
from cutover.definition.model.topic import Topic, list_column_types
from cutover.records.csv_files import CHUNK, DecimalMark, convert_cell, find_marks, name_fields, read_csv
from cutover.records.parsing.parsed_record import InvalidValueError, JsonObject
from cutover.records.proposal.columns import USUAL_FORMS, USUAL_TIME
from cutover.records.record_files import JsonValue, is_json
from cutover.records.reference.scalars import parse_value
from cutover.records.sending.rows import (
    CheckedRecord,
    FileContent,
    check_record,
    encode_cells,
    read_checked_records,
)
from cutover.timestamps import LONGEST_DAYS, describe_length, parse_duration

Micros = NDArray[np.int64]
SECOND = 1_000_000
DAY = 86_400 * SECOND
ROUND_DURATIONS = (
    (1, "1 second"),
    (5, "5 seconds"),
    (10, "10 seconds"),
    (30, "30 seconds"),
    (60, "1 minute"),
    (300, "5 minutes"),
    (600, "10 minutes"),
    (1_800, "30 minutes"),
    (3_600, "1 hour"),
    (3 * 3_600, "3 hours"),
    (6 * 3_600, "6 hours"),
    (12 * 3_600, "12 hours"),
    (86_400, "1 day"),
    (2 * 86_400, "2 days"),
    (7 * 86_400, "7 days"),
    (30 * 86_400, "30 days"),
)
WINDOWS = ((60, "minutes=1"), (300, "minutes=5"), (900, "minutes=15"), (3_600, "hours=1"), (86_400, "days=1"))
USUAL_SHARE, ALLOWED_SHARE = 0.99, 0.999
"""Shares of the records within `out_of_orderness`, and within `out_of_orderness + allowed` and within `max_ahead`.

Durations that cover every record of a heavy tail would keep windows open for years.
"""

ORDERED_SHARE, MAX_DELAY_SHARE = 0.9, 0.25
"""A file is in the order of arrival if this share of its records is behind the newest before it by at most this share
of the time that all records span."""

MAX_KEYS = 100_000
"""Maximum number of distinct keys counted; for more, even the longest proposed window, a day, would be too short."""

MIN_MAX_AHEAD = 3_600 * SECOND
"""Shortest proposed `max_ahead`."""

OUTLIERS = 100
"""1 / share of the records that is ignored at either end of event time when the rate is measured (wrong clocks)."""

MIN_RECORDS_PER_KEY = 10  # minimum records of a key in the proposed window
EPOCHS_PER_WINDOW = 20
MIN_EPOCH_ROWS, MAX_EPOCH_ROWS = 1_000, 50_000


@dataclass(slots=True)
class RecordTimes:
    """Event and log times of records, in the order of the source; microseconds since 1970."""

    is_logged: bool  # there is a log-time column
    events: "array[int]" = field(default_factory=lambda: array("q"))
    logged: "array[int]" = field(default_factory=lambda: array("q"))  # empty without a log-time column
    partitions: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, event: int, logged: int | None, partition: int) -> None:
        """Add the times of one record; `logged` is None only without a log-time column."""
        self.events.append(event)
        self.partitions.append(partition)
        if logged is not None:
            self.logged.append(logged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Proposed lateness, window and epochs with their evidence; durations as in a definition."""

    out_of_orderness: str = "10 minutes"
    allowed: str = "1 hour"
    max_ahead: str = "1 hour"
    window: str = "hours=1"  # of `Fixed`
    epoch_rows: int = MAX_EPOCH_ROWS
    lateness_evidence: tuple[str, ...] = ()  # measurements, for comments; empty: none were possible
    window_evidence: tuple[str, ...] = ()
    is_unordered: bool = False  # the order of the file is not one of arrival


def measure_pace(times: RecordTimes, key_count: int | None, *, is_file: bool = False) -> Pace:
    """Propose lateness, window and epochs; defaults if fewer than two records have times.

    Args:
        times: Times of all records. Disorder is measured within each partition, since the watermark is the minimum over
            the partitions.
        key_count: Number of distinct keys; a lower bound if it is MAX_KEYS. None: all records are one series.
        is_file: The records are those of a file, which may be sorted in another way than by arrival.
    """
    count = len(times.events)
    if count < 2:  # noqa: PLR2004 -- one record has no distance to another
        return Pace()
    events, partitions = (np.frombuffer(values, np.int64) for values in (times.events, times.partitions))
    logged = np.frombuffer(times.logged, np.int64) if times.is_logged else None
    if logged is None:
        ahead, max_ahead = _measure_lead(events), round_up_duration(MIN_MAX_AHEAD)
        is_future = ahead > 0
    else:
        ahead = events - logged
        max_ahead = round_up_duration(max(MIN_MAX_AHEAD, _quantile(np.sort(ahead), ALLOWED_SHARE)))
        is_future = ahead > parse_duration(max_ahead, of="max_ahead")
    order = np.arange(count) if logged is None else np.argsort(logged, kind="stable")
    order = order[~is_future[order]]  # future records do not advance the watermark
    sorted_delays = np.sort(_measure_delays(events[order], partitions[order]))
    sorted_events = np.sort(events[~is_future])
    window, rows, windows_seen = _propose_window(sorted_events, key_count)
    if is_file and logged is None and _is_unordered(sorted_delays, sorted_events):
        return Pace(
            window=window,
            epoch_rows=rows,
            lateness_evidence=(_describe_file_order(events), *_describe_future(ahead[is_future], "the others by far")),
            window_evidence=(windows_seen,),
            is_unordered=True,
        )
    usual_delay, long_delay = (_quantile(sorted_delays, share) for share in (USUAL_SHARE, ALLOWED_SHARE))
    return Pace(
        out_of_orderness=round_up_duration(usual_delay),
        allowed=round_up_duration(long_delay - usual_delay),
        max_ahead=max_ahead,
        window=window,
        epoch_rows=rows,
        lateness_evidence=(
            *_describe_order(
                sorted_delays, usual_delay, long_delay, delays=None if logged is None else -ahead[~is_future]
            ),
            *_describe_future(ahead[is_future], "`max_ahead`" if logged is not None else "the others by far"),
        ),
        window_evidence=(windows_seen,),
    )


def round_up_duration(micros: int) -> str:
    """Round up to the next duration of `ROUND_DURATIONS` or to whole days, at most `LONGEST_DAYS`."""
    days = min(-(-micros // DAY), LONGEST_DAYS)
    return next((text for seconds, text in ROUND_DURATIONS if micros <= seconds * SECOND), f"{days} days")


def _quantile(ordered: Micros, share: float) -> int:
    """Return the quantile of ascending values: the smallest one that the given share of them does not exceed."""
    return int(ordered[max(math.ceil(share * len(ordered) - 1e-9), 1) - 1])


def _measure_delays(events: Micros, partitions: Micros) -> Micros:
    """Measure how far each event is behind the latest event that arrived before it in its partition."""
    delays = np.empty_like(events)
    for partition in np.unique(partitions):
        in_partition = partitions == partition
        delays[in_partition] = np.maximum.accumulate(events[in_partition]) - events[in_partition]
    return delays


def _cut_outliers(events: Micros) -> Micros:
    """Drop one percent of ascending event times at either end."""
    cut = len(events) // OUTLIERS
    return events[cut : len(events) - cut]


def _measure_lead(events: Micros) -> Micros:
    """Measure how far each event is beyond the plausible range of event times; positive only for wrong clocks.

    Used for sources without log times. The plausible range ends after the events without outliers, by the time span of
    these events or a day, whichever is longer.
    """
    inner = _cut_outliers(np.sort(events))
    return events - int(inner[-1]) - max(int(inner[-1] - inner[0]), DAY)


def _is_unordered(delays: Micros, events: Micros) -> bool:
    """Return whether records are so far behind earlier ones that their order cannot be the one of arrival.

    Args:
        delays: Of each record behind the newest before it, ascending.
        events: Event times, ascending.
    """
    inner = _cut_outliers(events)
    span = int(inner[-1] - inner[0])
    return span > 0 and _quantile(delays, ORDERED_SHARE) > span * MAX_DELAY_SHARE


def _describe_file_order(events: Micros) -> str:
    is_descending = bool(np.all(np.diff(events) <= 0))
    order = "the newest one first" if is_descending else "not in the order of time"
    return f"the records of the file are {order}, which does not show how late records arrive: usual values"


def _count_keys(count: int | None) -> str:
    if count is None:
        return "one series"
    return f"{count_noun(count, 'key')}{' and more' if count >= MAX_KEYS else ''}"


def _propose_window(events: Micros, key_count: int | None) -> tuple[str, int, str]:
    """Propose the shortest window with enough records per key, and the records of an epoch; also return the evidence.

    Args:
        events: Event times, ascending.
        key_count: As for `measure_pace`.
    """
    inner = _cut_outliers(events)
    cut = (len(events) - len(inner)) // 2
    span = max(1, int(inner[-1] - inner[0]))
    shortest = DAY if not np.any(events % DAY) else 0  # of dates
    records_per_window = {
        text: len(inner) * seconds * SECOND / span for seconds, text in WINDOWS if seconds * SECOND >= shortest
    }
    window = next(
        (
            text
            for text, records in records_per_window.items()
            if records >= MIN_RECORDS_PER_KEY * max(1, key_count or 1)
        ),
        WINDOWS[-1][1],
    )
    rows = round(records_per_window[window] / EPOCHS_PER_WINDOW, -3)
    omitted = f", all but the first and the last {cut:,}," if cut else ""
    evidence = f"{count_noun(len(events), 'record')} of {_count_keys(key_count)}{omitted} within {_format_span(span)}"
    return window, int(min(MAX_EPOCH_ROWS, max(MIN_EPOCH_ROWS, rows))), evidence


def _describe_order(micros: Micros, usual: int, nearly: int, *, delays: Micros | None) -> tuple[str, ...]:
    order = "in the order of the source"
    if delays is not None:
        waits = f"{_format_span(int(delays.min()))} to {_format_span(int(delays.max()))}"
        order = f"in the order in which they arrive, {waits} after they happened"
    usual_share = f"{USUAL_SHARE * 100:g} % of them are at most {_format_span(usual)} behind the newest before them"
    allowed_share = f"{ALLOWED_SHARE * 100:g} % at most {_format_span(nearly)}"
    return (
        f"{count_noun(len(micros), 'record')} {order}",
        f"{usual_share}, {allowed_share}, the worst {_format_span(int(micros[-1]))}",
    )


def _describe_future(ahead: Micros, limit: str) -> tuple[str, ...]:
    if not len(ahead):
        return ()
    are = count_clause(len(ahead), "more record", "is", "are")
    return (f"{are} dated further ahead than {limit}, up to {_format_span(int(ahead.max()))}: left out above",)


def _format_span(micros: int) -> str:
    return describe_length(micros / SECOND)


MAX_EXAMPLES = 5

_INVALID = object()
_SECONDS = len("2026-03-02T00:00:00")
_MOST_BYTES = 6
"""Bytes of a character in JSON at most: `\\u0000`."""


@dataclass(slots=True)
class ParsedFile:
    """Result of reading all records of a file by the parser of a topic."""

    times: RecordTimes
    records: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of malformed records
    examples: list[str] = field(default_factory=list)  # of the first ones: line and reason
    keys: set[str] = field(default_factory=set)  # at most MAX_KEYS

    @property
    def malformed(self) -> int:
        """Number of records that both paths will classify as malformed."""
        return self.reasons.total()

    def describe(self) -> list[str]:
        """Describe how many records are accepted, and why the others are not."""
        if not self.malformed:
            return [f"Parser: {count_clause(self.records, 'record', 'is', 'are')} accepted, none is malformed."]
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        accepted = f"{self.records - self.malformed:,} of {count_noun(self.records, 'record')} are accepted"
        more = self.malformed - len(self.examples)
        return [
            f"Parser: {accepted}, {self.malformed:,} will be malformed ({reasons}):",
            *(f"  {example}" for example in self.examples),
            *([f"  ... and {more:,} more"] if more else []),
        ]

    def add_malformed(self, record: CheckedRecord) -> None:
        """Count a record if it is malformed."""
        if record.malformed is not None:
            self.reasons[record.malformed.reason.value] += 1
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(f"line {record.line}, {record.malformed.example}")


def parse_all_records(
    path: Path, topic: Topic, key: str | None, marks: Mapping[str, DecimalMark] | None = None
) -> ParsedFile:
    """Read all records of a file by the parser of a topic.

    Args:
        path: The file.
        topic: The topic.
        key: Column whose distinct values are counted.
        marks: Decimal marks of columns of CSV, as `find_marks` finds them; None: they are not known yet.

    Raises:
        DefinitionError: The file cannot be read, or a line is not a record.
    """
    parsed_file = ParsedFile(times=RecordTimes(is_logged=topic.log_time is not None))
    if topic.parse == "strict" and not is_json(path):
        _parse_cells(path, topic, key, parsed_file, marks)
        return parsed_file
    for record in read_checked_records(path, topic, FileContent(is_hashed=False)):
        parsed_file.records += 1
        parsed_file.add_malformed(record)
        values = record.parsed.values
        _add_times(parsed_file.times, [values.get(topic.event_time)], [values.get(topic.log_time or "")])
        if key is not None and len(parsed_file.keys) < MAX_KEYS:
            parsed_file.keys.add(str(values.get(key)))
    return parsed_file


def _add_times(times: RecordTimes, events: Sequence[Any], logged: Sequence[Any]) -> None:
    for event, log in zip(events, logged, strict=True):
        if isinstance(event, int) and (not times.is_logged or isinstance(log, int)):
            times.add(event, log if times.is_logged else None, 0)


@dataclass(slots=True)
class _CellParser:
    """Parser of CSV column by column: a record is accepted if each of its cells is valid for its column."""

    topic: Topic
    types: Mapping[str, str]
    places: Mapping[str, int]
    marks: Mapping[str, DecimalMark]
    midnights: dict[str, int] = field(default_factory=dict)  # text of a day -> microseconds

    def parse(self, columns: Sequence[Sequence[str]]) -> tuple[set[int], dict[str, list[Any]]]:
        """Return the rows that may be malformed, and the values of the time columns."""
        suspects: set[int] = self._find_long_rows(columns)
        times: dict[str, list[Any]] = {}
        for name, kind in self.types.items():
            if kind == "string":
                continue
            cells = columns[self.places[name]]
            read = {cell: self._read(cell, name) for cell in set(cells)}
            is_required = name == self.topic.event_time
            invalid = {cell for cell, value in read.items() if value is _INVALID or (is_required and value is None)}
            if invalid:
                suspects.update(row for row, cell in enumerate(cells) if cell in invalid)
            if name in {self.topic.event_time, self.topic.log_time}:
                times[name] = [read[cell] for cell in cells]
        return suspects, times

    def check(self, line: int, cells: Sequence[str]) -> CheckedRecord:
        """Parse one record whole."""
        values = {name: self._convert(cells[self.places[name]], name) for name in self.types}
        return check_record(line, JsonObject(tuple(values.items())), encode_cells(values), self.topic)

    def _read_usual_time(self, cell: str) -> int:
        """Convert a time of ISO 8601 to microseconds, in a quarter of the time; days are converted once."""
        midnight = self.midnights.get(cell[:10])
        if midnight is None:
            midnight = self.midnights[cell[:10]] = parse_iso_micros(cell[:10])
        rest = cell[19:]
        if len(cell) < _SECONDS or (rest and (rest[0] != "." or not rest[1:].rstrip("Z").isdigit()) and rest != "Z"):
            return parse_iso_micros(cell)  # without a time, or with an offset
        fraction = int(f"{rest[1:].rstrip('Z'):0<6}"[:6]) if rest[:1] == "." else 0
        return midnight + (int(cell[11:13]) * 3_600 + int(cell[14:16]) * 60 + int(cell[17:19])) * 1_000_000 + fraction

    def _find_long_rows(self, columns: Sequence[Sequence[str]]) -> set[int]:
        """Find the rows whose message may be too large."""
        limit = self.topic.max_value_bytes // _MOST_BYTES - sum(len(name) + 8 for name in self.types)
        if sum(max(map(len, cells)) for cells in columns) <= limit:
            return set()
        return {row for row, cells in enumerate(zip(*columns, strict=True)) if sum(map(len, cells)) > limit}

    def _convert(self, cell: str, name: str) -> JsonValue:
        return convert_cell(cell, self.types[name], self.topic.time_format, self.marks.get(name, "."))

    def _read(self, cell: str, name: str) -> Any:
        """Return the value of a cell, or `_INVALID`; the cell itself if it is certainly valid and no time."""
        if self.topic.time_format == "iso" and self.types[name] == "timestamp" and USUAL_TIME.fullmatch(cell):
            return self._read_usual_time(cell)
        usual_form = USUAL_FORMS.get(self.types[name])
        if usual_form is not None and usual_form.fullmatch(cell):
            return cell
        try:
            return parse_value(self._convert(cell, name), self.types[name], self.topic.time_format)
        except InvalidValueError:
            return _INVALID


def _parse_cells(
    path: Path, topic: Topic, key: str | None, parsed_file: ParsedFile, marks: Mapping[str, DecimalMark] | None
) -> None:
    records = read_csv(path)
    names = name_fields(next(records, (1, []))[1])
    types = list_column_types(topic)
    known_marks = find_marks(path, types) if marks is None else marks
    parser = _CellParser(topic, types, {name: names.index(name) for name in types}, known_marks)
    while chunk := list(islice(records, CHUNK)):
        columns = list(zip(*(cells for _, cells in chunk), strict=True))
        parsed_file.records += len(chunk)
        suspects, times = parser.parse(columns)
        events = times[topic.event_time]
        _add_times(parsed_file.times, events, events if topic.log_time is None else times[topic.log_time])
        if key is not None and len(parsed_file.keys) < MAX_KEYS:
            parsed_file.keys.update(columns[parser.places[key]])
        for row in sorted(suspects):
            parsed_file.add_malformed(parser.check(*chunk[row]))
