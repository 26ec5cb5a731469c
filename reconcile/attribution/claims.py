"""What the log says of the rows that a cause is claimed for: each is folded anew, in plain Python, class by class.

Of one row, or of sessions one component: the records that the stream's ledger does not list are folded alone, then with
those of each further class, as the stages have them; last those that batch counts. A record's class is what the
stream's ledger says at its position and window, everything else is what the log says.

Source:
    Of twins: `cutover.reconcile.comparison.duplicates`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import Interval
from cutover.reconcile.comparison.equal import plain, same
from cutover.records.classes import Class
from cutover.records.reference import ResultRow
from cutover.records.reference.place import Placed, fold_records
from cutover.records.reference.run import Group, Twin

Key = tuple[Any, ...]
Position = tuple[int, int, int]  # partition, offset, start of the window (of a session that of the record alone)
Rows = Mapping[Interval, ResultRow]


@dataclass(frozen=True, slots=True)
class Place:
    """A row that is judged, or the sessions that are judged together."""

    one: Interval
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the log says of one place."""

    stages: Sequence[Rows]  # what the stream counted, then with each further class
    batch: Rows  # what batch counts, by the log alone
    are_twins_sound: bool  # of records with one id the stream counted one at most, and none was left out for nothing


@dataclass(slots=True)
class _Group:
    """Records of one id in one window."""

    counted: int = 0
    late: int = 0
    duplicate: int = 0

    @property
    def is_sound(self) -> bool:
        return self.counted <= 1 and (not self.duplicate or self.counted + self.late > 0)


@dataclass(slots=True)
class _Found:
    """The records of one place."""

    stages: list[list[Placed]]
    batch: list[Placed] = field(default_factory=list)
    is_sound: bool = True


def tell(
    pipeline: Pipeline,
    records: Iterable[Placed],
    ledger: Mapping[Position, str],
    places: Sequence[Place],
    classes: Sequence[str],
) -> dict[Place, Told]:
    """Return what the log says of some places.

    Args:
        pipeline: The definition.
        records: All records of the places' windows, twins under other keys included; others are left aside.
        ledger: What the stream says of records that it did not count.
        places: Of one pipeline.
        classes: What further stages merge, in order.
    """
    rows = [record for record in records if not record.is_future or ledger.get(_position(record)) == Class.FUTURE]
    later, groups = _find_later_twins(rows), _groups(rows, ledger)
    at = _Finder(pipeline, places)
    found = {place: _Found(stages=[[] for _ in range(len(classes) + 1)]) for place in places}
    for row in rows:
        place = at.place_of(row.group)
        if place is None:
            continue
        is_twin, name = _position(row)[:2] in later, ledger.get(_position(row), str(Class.ACCEPTED))
        mine = found[place]
        mine.is_sound &= row.twin is None or groups[row.group[0], row.twin].is_sound
        for n in range(len(classes) + 1):
            # Of a late record that batch calls a duplicate nothing is missing.
            if name == Class.ACCEPTED or (name in classes[:n] and not (is_twin and name == Class.LATE)):
                mine.stages[n].append(row)
        if not is_twin and not row.is_future:
            mine.batch.append(row)
    return _fold_records(pipeline, found)


def equal(expected: Rows, found: Sequence[tuple[Interval, ResultRow]]) -> bool:
    """Return whether rows of a table are what the log says: windows, number of records, every measure."""
    there = dict(found)
    if len(there) != len(found) or there.keys() != expected.keys():
        return False
    return all(_is_equal(row, there[window]) for window, row in expected.items())


def _is_equal(expected: ResultRow, result_row: ResultRow) -> bool:
    return expected.n == result_row.n and all(
        same(plain(v), result_row.measures[name]) for name, v in expected.measures.items()
    )


def _position(one: Placed) -> Position:
    return (*one.position, one.group[0])


def _find_later_twins(rows: Iterable[Placed]) -> set[tuple[int, int]]:
    """Return the positions of records of which one with the same id and event time lies lower in the log."""
    lowest: dict[Twin, tuple[int, int]] = {}
    for row in rows:
        if row.twin is not None and not row.is_future:
            lowest[row.twin] = min(lowest.get(row.twin, row.position), row.position)
    return {row.position for row in rows if row.twin is not None and row.position != lowest.get(row.twin, row.position)}


def _groups(rows: Iterable[Placed], ledger: Mapping[Position, str]) -> dict[tuple[int, Twin], _Group]:
    groups: dict[tuple[int, Twin], _Group] = {}
    for row in rows:
        if row.twin is not None:
            group, name = groups.setdefault((row.group[0], row.twin), _Group()), ledger.get(_position(row))
            group.counted += name is None
            group.late += name == Class.LATE
            group.duplicate += name == Class.DUPLICATE
    return groups


class _Finder:
    """Finds the place that a record belongs to."""

    def __init__(self, pipeline: Pipeline, places: Sequence[Place]) -> None:
        self._sessions = pipeline.window.merges
        self._of_key: dict[Key, list[Place]] = {}
        self._exact = {(place.one.start, place.key): place for place in places}
        for place in places:
            self._of_key.setdefault(place.key, []).append(place)

    def place_of(self, group: Group) -> Place | None:
        """Return the place whose window it is; of sessions the one that it touches."""
        start, end, key = group
        told = tuple(map(plain, key))
        if not self._sessions:
            return self._exact.get((start, told))
        touching = (p for p in self._of_key.get(told, ()) if start <= p.one.end and p.one.start <= end)
        return next(touching, None)


def _fold_records(pipeline: Pipeline, found: Mapping[Place, _Found]) -> dict[Place, Told]:
    """Fold the records of all places stage by stage; one fold of all costs hardly more than one of one place."""
    stages = len(next(iter(found.values())).stages) if found else 0
    whole = [_by_place(pipeline, found, [f.stages[n] for f in found.values()]) for n in range(stages)]
    batch = _by_place(pipeline, found, [f.batch for f in found.values()])
    return {
        place: Told(stages=[one[place] for one in whole], batch=batch[place], are_twins_sound=mine.is_sound)
        for place, mine in found.items()
    }


def _by_place(
    pipeline: Pipeline, places: Iterable[Place], records: Sequence[Sequence[Placed]]
) -> dict[Place, dict[Interval, ResultRow]]:
    rows = fold_records(pipeline, [one for some in records for one in some])
    found: dict[Place, dict[Interval, ResultRow]] = {place: {} for place in places}
    at = _Finder(pipeline, list(found))
    for group, row in rows.items():
        place = at.place_of(group)
        if place is not None:
            found[place][Interval(*group[:2])] = row
    return found
