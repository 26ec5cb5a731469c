"""Rows with a claimed cause, folded again from the log in plain Python, class by class.

For one row, or one component of sessions: the records that the stream's ledger does not list are folded alone, then
with those of each further class, in the order of the stages; finally those that batch counts. A record's class comes
from the stream's ledger at its position and window, everything else from the log.

Source:
    For twins: `cutover.reconcile.comparison.duplicates`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval
from cutover.reconcile.comparison.layout import same, to_plain
from cutover.records.classes import Class
from cutover.records.reference import ResultRow
from cutover.records.reference.run import Group, PlacedRecord, Twin, fold_records

Key = tuple[Any, ...]
Position = tuple[int, int, int]  # partition, offset, start of the window (for a session: of the record alone)
Rows = Mapping[Interval, ResultRow]


@dataclass(frozen=True, slots=True)
class Place:
    """Row that is compared, or the sessions that are compared together."""

    interval: Interval  # the window; for sessions the component
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedPlace:
    """Results that the log's records yield for one place."""

    stages: Sequence[Rows]  # of the records that the stream counted, then with each further class
    batch: Rows  # of the records that batch counts, from the log alone
    are_twins_sound: bool  # the stream counted at most one record per id, and dropped none without reason


@dataclass(slots=True)
class _Group:
    """Counts of the records with one id in one window."""

    accepted: int = 0
    late: int = 0
    duplicate: int = 0

    @property
    def is_sound(self) -> bool:
        return self.accepted <= 1 and (not self.duplicate or self.accepted + self.late > 0)


@dataclass(slots=True)
class _PlaceRecords:
    """Records of one place, by stage."""

    stages: list[list[PlacedRecord]]
    batch: list[PlacedRecord] = field(default_factory=list)
    is_sound: bool = True


def fold_places(
    pipeline: Pipeline,
    records: Iterable[PlacedRecord],
    ledger: Mapping[Position, str],
    places: Sequence[Place],
    classes: Sequence[str],
) -> dict[Place, FoldedPlace]:
    """Fold the records of some places from the log.

    Args:
        pipeline: The definition.
        records: All records of the places' windows, twins under other keys included; others are ignored.
        ledger: Classes of the records that the stream did not count.
        places: Places of one pipeline.
        classes: Classes that further stages merge, in order.
    """
    rows = [record for record in records if not record.is_future or ledger.get(_position(record)) == Class.FUTURE]
    later, groups = _find_later_twins(rows), _group_by_id(rows, ledger)
    finder = _PlaceFinder(pipeline, places)
    records_by_place = {place: _PlaceRecords(stages=[[] for _ in range(len(classes) + 1)]) for place in places}
    for record in rows:
        place = finder.find_place(record.group)
        if place is None:
            continue
        is_twin, class_name = _position(record)[:2] in later, ledger.get(_position(record), str(Class.ACCEPTED))
        place_records = records_by_place[place]
        place_records.is_sound &= record.twin is None or groups[record.group[0], record.twin].is_sound
        for n in range(len(classes) + 1):
            # Batch does not count a late record that it calls a duplicate, so the stream does not miss it.
            if class_name == Class.ACCEPTED or (
                class_name in classes[:n] and not (is_twin and class_name == Class.LATE)
            ):
                place_records.stages[n].append(record)
        if not is_twin and not record.is_future:
            place_records.batch.append(record)
    return _fold_records(pipeline, records_by_place)


def matches_log(expected: Rows, rows: Sequence[tuple[Interval, ResultRow]]) -> bool:
    """Return whether rows of a table equal those from the log: windows, number of records, every measure."""
    rows_by_window = dict(rows)
    if len(rows_by_window) != len(rows) or rows_by_window.keys() != expected.keys():
        return False
    return all(_is_equal(row, rows_by_window[window]) for window, row in expected.items())


def _is_equal(expected: ResultRow, row: ResultRow) -> bool:
    return expected.n == row.n and all(same(to_plain(v), row.measures[name]) for name, v in expected.measures.items())


def _position(record: PlacedRecord) -> Position:
    return (*record.position, record.group[0])


def _find_later_twins(rows: Iterable[PlacedRecord]) -> set[tuple[int, int]]:
    """Return the positions of records that have a twin (same id and event time) at a lower position in the log."""
    lowest: dict[Twin, tuple[int, int]] = {}
    for record in rows:
        if record.twin is not None and not record.is_future:
            lowest[record.twin] = min(lowest.get(record.twin, record.position), record.position)
    return {
        record.position
        for record in rows
        if record.twin is not None and record.position != lowest.get(record.twin, record.position)
    }


def _group_by_id(rows: Iterable[PlacedRecord], ledger: Mapping[Position, str]) -> dict[tuple[int, Twin], _Group]:
    groups: dict[tuple[int, Twin], _Group] = {}
    for record in rows:
        if record.twin is not None:
            group = groups.setdefault((record.group[0], record.twin), _Group())
            class_name = ledger.get(_position(record))
            group.accepted += class_name is None
            group.late += class_name == Class.LATE
            group.duplicate += class_name == Class.DUPLICATE
    return groups


class _PlaceFinder:
    """Index of places, to find the one that a record belongs to."""

    def __init__(self, pipeline: Pipeline, places: Sequence[Place]) -> None:
        self._sessions = pipeline.window.merges
        self._of_key: dict[Key, list[Place]] = {}
        self._exact = {(place.interval.start, place.key): place for place in places}
        for place in places:
            self._of_key.setdefault(place.key, []).append(place)

    def find_place(self, group: Group) -> Place | None:
        """Find the place with this window; for sessions the one that it overlaps."""
        start, end, key = group
        plain_key = tuple(map(to_plain, key))
        if not self._sessions:
            return self._exact.get((start, plain_key))
        touching = (
            place
            for place in self._of_key.get(plain_key, ())
            if start <= place.interval.end and place.interval.start <= end
        )
        return next(touching, None)


def _fold_records(pipeline: Pipeline, records_by_place: Mapping[Place, _PlaceRecords]) -> dict[Place, FoldedPlace]:
    """Fold the records of all places stage by stage, because one fold of all costs little more than one."""
    stages = len(next(iter(records_by_place.values())).stages) if records_by_place else 0
    rows_by_stage = [
        _fold_by_place(
            pipeline, records_by_place, [place_records.stages[n] for place_records in records_by_place.values()]
        )
        for n in range(stages)
    ]
    batch = _fold_by_place(
        pipeline, records_by_place, [place_records.batch for place_records in records_by_place.values()]
    )
    return {
        place: FoldedPlace(
            stages=[stage_rows[place] for stage_rows in rows_by_stage],
            batch=batch[place],
            are_twins_sound=place_records.is_sound,
        )
        for place, place_records in records_by_place.items()
    }


def _fold_by_place(
    pipeline: Pipeline, places: Iterable[Place], records: Sequence[Sequence[PlacedRecord]]
) -> dict[Place, dict[Interval, ResultRow]]:
    rows = fold_records(pipeline, [record for place_records in records for record in place_records])
    rows_by_place: dict[Place, dict[Interval, ResultRow]] = {place: {} for place in places}
    finder = _PlaceFinder(pipeline, list(rows_by_place))
    for group, row in rows.items():
        place = finder.find_place(group)
        if place is not None:
            rows_by_place[place][Interval(*group[:2])] = row
    return rows_by_place
