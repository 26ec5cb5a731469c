"""Epochs whose records a reader still gets completely: the missing offsets never held a visible record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cutover.definition.windows.kinds import Fixed, SlidingWindows
from cutover.definition.windows.window_fn import WindowFn
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity.lost_records import find_complete_epochs
from cutover.log.cut import Mark, compute_record_digest
from cutover.log.record_batches import MissingRecords, RecordBatch, exclude_ranges, find_missing_records
from tests.unit.verify.epochs import epoch

HOUR = Fixed(hours=1)
GAP = (MissingRecords(0, 1, 2, 1),)


class Message(NamedTuple):
    """A record as returned by the client."""

    at: int
    body: bytes
    number: int = 0

    def topic(self) -> str:
        return "clicks"

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return self.body


@dataclass
class HeldLog:
    """Offsets by partition that a reader currently gets from a log of two partitions."""

    offsets: Mapping[int, Sequence[int]]
    starts: int = 0
    body: bytes = b"same"

    def earliest(self, topic: str) -> dict[int, int]:
        assert topic == "clicks"
        return {0: self.starts, 1: 0}

    def messages(self, topic: str, ranges: Mapping[int, tuple[int, int]], isolation: str) -> Iterator[Message]:
        assert (topic, isolation) == ("clicks", "read_committed")
        for p, (start, end) in ranges.items():
            yield from (Message(at, self.body, p) for at in self.offsets.get(p, ()) if start <= at < end)


def find(
    log: HeldLog, records: Sequence[EpochRecord], gaps: Sequence[MissingRecords] = GAP, window: WindowFn = HOUR
) -> list[int]:
    client: Any = log
    return [record.epoch for record in find_complete_epochs(client, records, gaps, window)]


def counted(number: int, records: int, **changes: object) -> EpochRecord:
    return epoch(number, records=records, counts={"accepted": records - 1, "malformed": 1}, **changes)


def test_epoch_is_complete_if_a_reader_gets_as_many_records_as_it_read() -> None:
    log = HeldLog({0: [0, 2, 3, 4], 1: [5, 6]})

    assert find(log, [counted(0, 4)]) == [0]
    assert find(log, [counted(0, 5)]) == []
    assert find(log, [counted(0, 3)]) == []


def test_only_epochs_that_read_a_range_with_a_gap_are_counted() -> None:
    log = HeldLog({0: range(20), 1: range(20)})
    records = [epoch(n) for n in range(4)]

    assert find(log, records, [MissingRecords(1, 9, 11, 2)]) == [1, 2]


def test_epoch_with_a_partly_deleted_range_proves_nothing() -> None:
    records = [counted(0, 4)]

    assert find(HeldLog({0: [0, 2, 3, 4]}, starts=1), records) == []


def test_epoch_with_inconsistent_counts_proves_nothing() -> None:
    log, sliding = HeldLog({0: [0, 2, 3, 4]}), SlidingWindows(size=25, every=10)

    assert find(log, [epoch(0, records=4, counts={"accepted": 5})]) == []
    assert find(log, [epoch(0, records=4, counts={"accepted": 10})], window=sliding) == [0]
    assert find(log, [epoch(0, records=4, counts={"accepted": 13})], window=sliding) == []


def test_log_with_another_record_at_a_mark_proves_nothing() -> None:
    offsets_by_partition = {0: [0, 2, 3, 4]}
    marks = {0: (Mark(3, 3, compute_record_digest(None, b"same")), Mark(4, 4, compute_record_digest(None, b"same")))}
    older = {1: (Mark(2, 2, compute_record_digest(None, b"of an epoch before")),)}
    record = counted(0, 4, marks=marks, end={0: 5, 1: 0}, start={0: 0, 1: 0})

    assert find(HeldLog(offsets_by_partition), [record]) == [0]
    assert find(HeldLog(offsets_by_partition), [replace(record, marks={**marks, **older})]) == [0]
    assert find(HeldLog(offsets_by_partition, body=b"other"), [record]) == []


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[str], list[int], list[int], frozenset[int]]:
    """Draw the kind of each offset, ends of epochs and of batches, and the offsets that compaction removed."""
    kinds = draw(st.lists(st.sampled_from(["record", "record", "aborted", "marker"]), min_size=1, max_size=24))
    bounds = st.lists(st.integers(1, len(kinds)), max_size=6)
    epochs, batches = sorted({*draw(bounds)}), sorted({*draw(bounds), len(kinds)})
    removable = [at for at, kind in enumerate(kinds) if kind != "record" or draw(st.booleans())]
    removed = draw(st.frozensets(st.sampled_from(removable))) if removable else frozenset()
    return kinds, epochs, batches, removed


@given(logs())
def test_lost_records_are_never_explained_and_nothing_else_is_reported(
    drawn_log: tuple[list[str], list[int], list[int], frozenset[int]],
) -> None:
    kinds, ends, batch_ends, removed = drawn_log
    visible = {at for at, kind in enumerate(kinds) if kind == "record"}
    lost_offsets = visible & removed
    spans = list(zip([0, *ends[:-1]], ends, strict=False))
    records = [
        epoch(n, start={0: start}, end={0: end}, records=len(read), counts={"accepted": len(read)})
        for n, (start, end) in enumerate(spans)
        for read in [visible & {*range(start, end)}]
    ]
    batches = [
        RecordBatch(start, end, sum(at not in removed for at in range(start, end)))
        for start, end in zip([0, *batch_ends[:-1]], batch_ends, strict=True)
    ]
    gaps = find_missing_records(0, batches, (0, len(kinds)))
    client: Any = HeldLog({0: sorted(visible - removed)})

    complete = find_complete_epochs(client, records, gaps, HOUR)
    missing_records = exclude_ranges(gaps, {0: [(record.start[0], record.end[0]) for record in complete]})

    assert all(any(gap.first_offset <= at < gap.next_offset for gap in missing_records) for at in lost_offsets)
    for start, end in spans:
        if not lost_offsets & {*range(start, end)}:
            assert not any(gap.first_offset < end and start < gap.next_offset for gap in missing_records)
    assert all(0 < gap.missing <= gap.next_offset - gap.first_offset for gap in missing_records)
