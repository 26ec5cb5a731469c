"""Records that were delivered twice or never, detected in the epoch log if data and offsets are separate commits.

Each commit of data has a row that describes its attempt: run, offsets, and windows. A recorded epoch without an attempt
was lost; every attempt except the one of the driver that recorded the epoch is a duplicate. Under `exactly_once` data
and offsets are one commit, and no such row exists. A prefix of an epoch log has the rows up to an epoch, unless a fold
has merged them with rows of later epochs.
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
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import COUNTED, RowKind
from cutover.log.topic_partitions import format_partition_number

EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE = "exactly_once", "at_least_once", "at_most_once"
DOUBLED = "doubled"

_COUNTED = "SELECT _class, sum(_n)::BIGINT FROM log WHERE _epoch <= ? GROUP BY 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Commit of an epoch's data."""

    __pydantic_config__ = EXACT

    epoch: int
    run_id: str
    start: Mapping[int, int]  # partition -> first offset
    end: Mapping[int, int]  # partition -> next offset
    counts: Mapping[str, int]  # class -> (record, window) pairs
    windows: Starts | None  # first start and last end of its rows, microseconds; None: no row has a window

    def to_json(self) -> str:
        """Encode the attempt as one line of JSON, keys sorted."""
        return json_text.encode_dataclass(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `to_json` wrote.

        Raises:
            ValueError: The text is not an attempt.
        """
        return json_text.parse_dataclass(cls, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFaults:
    """Attempts and epochs that were not delivered exactly once."""

    doubled: tuple[Attempt, ...] = ()
    lost: tuple[EpochRecord, ...] = ()

    @property
    def doubled_windows(self) -> tuple[Starts, ...]:
        """Return the ranges `[first start, last end)` whose windows may count records twice."""
        return tuple(attempt.windows for attempt in self.doubled if attempt.windows)

    @property
    def lost_windows(self) -> tuple[Starts, ...]:
        """Return the ranges whose windows may miss records."""
        return tuple(record.windows for record in self.lost if record.windows)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each range that was delivered twice or never."""
        doubled = (f"{_place(a)} were written once more than counted by {a.run_id}" for a in self.doubled)
        lost_texts = (f"{_place(record)} were never written: {record.run_id} ended first" for record in self.lost)
        return (*(f"Doubled: {text}." for text in doubled), *(f"Lost: {text}." for text in lost_texts))


NO_FAULTS = DeliveryFaults()


def read_attempts(epoch_log: EpochLog, records: Iterable[EpochRecord]) -> tuple[Attempt, ...]:
    """Read all attempts of an epoch log, by epoch; nothing is read if all of its records are exactly once."""
    if all(record.delivery == EXACTLY_ONCE for record in records):
        return ()
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", epoch_log.table, kinds=(RowKind.ATTEMPT,))
        query = "SELECT _record FROM log ORDER BY _epoch, _record"
        with delta.naming(epoch_log.table):
            rows = connection.execute(query).fetchall()
    return tuple(Attempt.from_json(row[0]) for row in rows)


def find_delivery_faults(records: Sequence[EpochRecord], attempts: Iterable[Attempt]) -> DeliveryFaults:
    """Find the recorded epochs that were delivered twice or never.

    Args:
        records: Epoch records.
        attempts: Attempts; those of epochs that are not recorded yet are ignored.
    """
    records_by_epoch = {
        record.epoch: record for record in records if record.delivery != EXACTLY_ONCE and record.end_moved
    }
    delivered: set[int] = set()
    doubled = []
    for attempt in attempts:
        record = records_by_epoch.get(attempt.epoch)
        if record is None:
            continue
        if attempt.run_id == record.run_id and attempt.epoch not in delivered:
            delivered.add(attempt.epoch)
        else:
            doubled.append(attempt)
    lost_records = tuple(record for epoch, record in records_by_epoch.items() if epoch not in delivered)
    return DeliveryFaults(doubled=tuple(doubled), lost=lost_records)


def sum_effective_counts(records: Iterable[EpochRecord], attempts: Iterable[Attempt]) -> dict[int, Mapping[str, int]]:
    """Return the pairs by class that the rows of each recorded epoch must sum to."""
    by_epoch: dict[int, Counter[str]] = {}
    for attempt in attempts:
        by_epoch.setdefault(attempt.epoch, Counter()).update(attempt.counts)
    return {
        record.epoch: record.counts if record.delivery == EXACTLY_ONCE else by_epoch.get(record.epoch, Counter())
        for record in records
    }


def _place(source: Attempt | EpochRecord) -> str:
    spans = (
        f"{format_partition_number(partition)}: {source.start.get(partition, 0)} to {end - 1}"
        for partition, end in sorted(source.end.items())
        if end > source.start.get(partition, 0)
    )
    return f"epoch {source.epoch}, offsets {', '.join(spans)}"


def find_folded_classes(epoch_log: EpochLog, records: Sequence[EpochRecord]) -> list[str]:
    """Find the classes whose rows do not sum to the counts of the first epochs, because a fold merged them.

    A fold gives rows of several epochs the number of the last one, so that earlier epochs cannot be separated.

    Args:
        epoch_log: The log.
        records: All of its records up to an epoch, at least one.
    """
    expected: dict[str, int] = {}
    for counts in sum_effective_counts(records, read_attempts(epoch_log, records)).values():
        for kind, pairs in counts.items():
            expected[kind] = expected.get(kind, 0) + pairs
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", epoch_log.table, kinds=COUNTED)
        with delta.naming(epoch_log.table):
            counts_by_class = dict(connection.execute(_COUNTED, [records[-1].epoch]).fetchall())
    return [kind for kind, pairs in expected.items() if int(counts_by_class.get(kind) or 0) != pairs]
