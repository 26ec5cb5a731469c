"""What was delivered twice or never, told from the epoch log alone, where data and offsets are commits of their own.

Each commit of data carries a row that names its attempt: who wrote it, which offsets, which windows. An epoch whose
record stands and that no attempt belongs to was lost; every attempt but the one of the driver that recorded the epoch
was one too many. Under `exactly_once` both are one commit, and there is no such row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from cutover import json_text
from cutover.engine import queries
from cutover.json_text import EXACT
from cutover.lake.control.losses import Starts
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.tables import delta
from cutover.log.topic_partitions import format_number

EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE = "exactly_once", "at_least_once", "at_most_once"
DOUBLED = "doubled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One commit of an epoch's data."""

    __pydantic_config__ = EXACT

    epoch: int
    run_id: str
    start: Mapping[int, int]  # partition -> first offset
    end: Mapping[int, int]  # partition -> next offset
    counts: Mapping[str, int]  # class -> (record, window) pairs
    windows: Starts | None  # first start and last end of its rows, microseconds; None: no row has a window

    def to_json(self) -> str:
        """One line, keys sorted."""
        return json_text.write(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse what `to_json` wrote.

        Raises:
            ValueError: It is no such attempt.
        """
        return json_text.read(cls, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What did not come exactly once."""

    doubled: tuple[Attempt, ...] = ()
    lost: tuple[EpochRecord, ...] = ()

    @property
    def twice(self) -> tuple[Starts, ...]:
        """Return the stretches `[first start, last end)` whose windows may count records twice."""
        return tuple(one.windows for one in self.doubled if one.windows)

    @property
    def never(self) -> tuple[Starts, ...]:
        """Return the stretches whose windows may miss records."""
        return tuple(one.windows for one in self.lost if one.windows)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each range that came twice or never."""
        doubled = (f"{_place(one)} were written once more than counted by {one.run_id}" for one in self.doubled)
        lost = (f"{_place(one)} were never written: {one.run_id} ended first" for one in self.lost)
        return (*(f"Doubled: {text}." for text in doubled), *(f"Lost: {text}." for text in lost))


NOTHING = Delivered()


def attempts(epoch_log: EpochLog, records: Iterable[EpochRecord]) -> tuple[Attempt, ...]:
    """Return every attempt of an epoch log, by epoch; nothing is read where all of its records are exactly once."""
    if all(record.delivery == EXACTLY_ONCE for record in records):
        return ()
    with queries.connect() as connection:
        delta.bind(connection, "log", epoch_log.table, kinds=(RowKind.ATTEMPT,))
        query = "SELECT _record FROM log ORDER BY _epoch, _record"
        with delta.naming(epoch_log.table):
            rows = connection.execute(query).fetchall()
    return tuple(Attempt.from_json(row[0]) for row in rows)


def find_delivery_faults(records: Sequence[EpochRecord], attempts: Iterable[Attempt]) -> Delivered:
    """Return what came twice or never of the epochs that are recorded.

    Args:
        records: Epoch records.
        attempts: Attempts, also of epochs that are not recorded: these say nothing yet.
    """
    known = {record.epoch: record for record in records if record.delivery != EXACTLY_ONCE and record.end_moved}
    found: set[int] = set()
    doubled = []
    for attempt in attempts:
        record = known.get(attempt.epoch)
        if record is None:
            continue
        if attempt.run_id == record.run_id and attempt.epoch not in found:
            found.add(attempt.epoch)
        else:
            doubled.append(attempt)
    lost = tuple(record for epoch, record in known.items() if epoch not in found)
    return Delivered(doubled=tuple(doubled), lost=lost)


def effective(records: Iterable[EpochRecord], attempts: Iterable[Attempt]) -> dict[int, Mapping[str, int]]:
    """Return the pairs by class that the rows of each recorded epoch have to add up to."""
    by_epoch: dict[int, Counter[str]] = {}
    for attempt in attempts:
        by_epoch.setdefault(attempt.epoch, Counter()).update(attempt.counts)
    return {
        record.epoch: record.counts if record.delivery == EXACTLY_ONCE else by_epoch.get(record.epoch, Counter())
        for record in records
    }


def _place(one: Attempt | EpochRecord) -> str:
    spans = (
        f"{format_number(partition)}: {one.start.get(partition, 0)} to {end - 1}"
        for partition, end in sorted(one.end.items())
        if end > one.start.get(partition, 0)
    )
    return f"epoch {one.epoch}, offsets {', '.join(spans)}"
