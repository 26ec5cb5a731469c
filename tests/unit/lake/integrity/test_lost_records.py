"""Epochs recounted in a log: a log with fewer of their records has lost some."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cutover.definition.windows.kinds import Fixed, SlidingWindows
from cutover.errors import LogError
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records
from cutover.log.record_batches import MissingRecords
from tests.support.log.losses import LOSS
from tests.unit.verify.epochs import chain_of, epoch

HOUR = Fixed(hours=1)


@dataclass
class HeldLog:
    """A log of two partitions: which offsets hold a record for a reader, and where it begins."""

    holes: Mapping[int, frozenset[int]] = field(default_factory=dict)
    aborted: Mapping[int, frozenset[int]] = field(default_factory=dict)
    starts: list[dict[int, int]] = field(default_factory=lambda: [{0: 0, 1: 0}])  # at each question, the last one stays
    policy: str = "delete"
    reads: list[Any] = field(default_factory=list)

    def config(self, topic: str) -> dict[str, str]:
        return {"cleanup.policy": self.policy} if topic == "clicks" else {}

    def earliest(self, topic: str) -> dict[int, int]:
        assert topic == "clicks"
        return self.starts[0] if len(self.starts) == 1 else self.starts.pop(0)

    def positions(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], isolation: str
    ) -> Iterator[tuple[int, int, int]]:
        assert topic == "clicks"
        hidden = self.aborted if isolation == "read_committed" else {}
        self.reads.append(dict(ranges))
        for p, (start, end) in ranges.items():
            if start < self.starts[0].get(p, 0):
                msg = "the offset is gone"
                raise LogError(msg, runbook="KafkaUnreachable")
            absent = {*self.holes.get(p, ()), *hidden.get(p, ())}
            yield from ((p, offset, 0) for offset in range(start, end) if offset not in absent)


def find(log: HeldLog, records: list[EpochRecord], **options: Any) -> tuple[lost_records.LostRecords, ...]:
    client: Any = log
    return lost_records.find_lost(client, records, options.pop("recorded", ()), options.pop("window", HOUR), **options)


def test_log_that_holds_every_record_lost_none() -> None:
    log = HeldLog()

    assert find(log, chain_of(4)) == ()
    assert log.reads == [{0: (0, 20), 1: (0, 20)}]


def test_epoch_with_lost_records_is_named_with_its_offsets() -> None:
    log = HeldLog(holes={1: frozenset({6, 7, 9})})

    (lost_epoch,) = find(log, chain_of(4))

    assert (lost_epoch.epoch, lost_epoch.expected, lost_epoch.actual) == (1, 10, 7)
    assert lost_epoch.missing == (MissingRecords(1, 6, 8, 2), MissingRecords(1, 9, 10, 1))
    assert "Epoch 1 read 10 records, the log holds 7 of them. Topic clicks, partition 1: 2 of the offsets 6 to 7" in (
        lost_epoch.text
    )


def test_offsets_of_transactions_are_no_loss() -> None:
    counts = {"accepted": 6, "malformed": 1}
    log = HeldLog(holes={0: frozenset({1, 2, 3})})

    assert find(log, [epoch(0, counts=counts)]) == ()
    assert [
        lost_epoch.epoch for lost_epoch in find(HeldLog(holes={0: frozenset({0, 1, 2, 3})}), [epoch(0, counts=counts)])
    ] == [0]


def test_only_offsets_without_a_record_explain_what_an_epoch_lacks() -> None:
    (lost_epoch,) = find(HeldLog(holes={0: frozenset({1, 2})}), [epoch(0)])
    (miscounted,) = find(HeldLog(aborted={0: frozenset({1, 2})}), [epoch(0)])
    (both,) = find(HeldLog(aborted={0: frozenset({1})}, holes={0: frozenset({2})}), [epoch(0)])

    assert (lost_epoch.actual, lost_epoch.missing, lost_epoch.is_explained) == (8, (MissingRecords(0, 1, 3, 2),), True)
    assert (miscounted.actual, miscounted.missing, miscounted.is_explained) == (8, (), False)
    assert (both.actual, both.missing, both.is_explained) == (8, (MissingRecords(0, 2, 3, 1),), False)


@pytest.mark.parametrize(("size", "step", "first_hole"), [(20, 10, 5), (25, 10, 4)])
def test_records_that_fall_into_several_windows_count_once(size: int, step: int, first_hole: int) -> None:
    window, counts = SlidingWindows(size=size, every=step), {"accepted": 10}
    some = frozenset(range(first_hole, 5))

    assert find(HeldLog(holes={0: some, 1: frozenset(range(5))}), [epoch(0, counts=counts)], window=window) == ()
    fewer = HeldLog(holes={0: some | {0}, 1: frozenset(range(5))})
    assert len(find(fewer, [epoch(0, counts=counts)], window=window)) == 1


def test_records_deleted_by_retention_and_recorded_losses_are_not_counted() -> None:
    holes = {0: frozenset({6}), 1: frozenset({12})}
    log = HeldLog(holes=holes, starts=[{0: 1, 1: 0}])
    recorded_loss = replace(LOSS, kind="inside", topic="clicks", topic_id="topic-1", partition=0, first=6, next=7)

    assert [lost_epoch.epoch for lost_epoch in find(log, chain_of(4))] == [1, 2]
    assert [lost_epoch.epoch for lost_epoch in find(log, chain_of(4), recorded=(recorded_loss,))] == [2]
    assert [
        lost_epoch.epoch for lost_epoch in find(log, chain_of(4), recorded=(replace(recorded_loss, topic_id="B"),))
    ] == [1, 2]
    assert all(0 not in span for read in log.reads for span in read.values())


def test_long_log_is_counted_in_turns_newest_epochs_first() -> None:
    log = HeldLog(holes={0: frozenset({2}), 1: frozenset({38})})
    records = chain_of(8)

    by_turn = [[lost_epoch.epoch for lost_epoch in find(log, records, turn=turn, max_offsets=40)] for turn in range(4)]

    assert by_turn == [[7], [0], [7], [0]]


def test_epoch_of_more_offsets_than_a_portion_is_counted_whole() -> None:
    portions = lost_records.divide_epochs(chain_of(3), max_offsets=7)

    assert [[record.epoch for record in portion] for portion in portions] == [[2], [1], [0]]


def test_ticks_are_not_counted() -> None:
    tick = epoch(1, start={0: 5, 1: 5}, end={0: 5, 1: 5}, counts={"accepted": 0}, tick=True)

    assert find(HeldLog(), [epoch(0), tick]) == ()


def test_log_whose_start_moves_is_counted_from_its_new_start() -> None:
    log = HeldLog(starts=[{0: 0, 1: 0}, {0: 5, 1: 5}])

    assert find(log, chain_of(4)) == ()
    assert log.reads[-1] == {0: (5, 20), 1: (5, 20)}


def test_other_read_errors_are_raised() -> None:
    log = HeldLog(starts=[{0: 0, 1: 0}])
    log.positions = lambda *_: (_ for _ in ()).throw(LogError("silent", runbook="KafkaUnreachable"))  # type: ignore[method-assign]

    with pytest.raises(LogError, match="silent"):
        find(log, chain_of(2))


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (HeldLog(policy="compact"), "Topic clicks: expected cleanup.policy `delete`, got `compact`"),
        (HeldLog(holes={0: frozenset({3})}), "Epoch 0 read 10 records, the log holds 9 of them"),
    ],
    ids=["compacted", "records gone"],
)
def test_log_that_lost_records_is_rejected(log: HeldLog, text: str) -> None:
    client: Any = log

    with pytest.raises(LogError, match=text) as refused:
        lost_records.check_none_lost("flights", client, chain_of(2), (), HOUR)

    assert refused.value.runbook == "LogDataLost"


def test_rejection_names_the_next_command() -> None:
    client: Any = HeldLog(holes={p: frozenset(range(0, 20, 3)) for p in (0, 1)})

    with pytest.raises(LogError, match="`cutover accept-loss flights`") as refused:
        lost_records.check_none_lost("flights", client, chain_of(4), (), HOUR)

    assert "And 2 more epochs" in str(refused.value)


def test_nothing_is_read_before_the_first_epoch() -> None:
    client: Any = HeldLog(policy="compact")

    lost_records.check_none_lost("flights", client, [], (), HOUR)

    assert client.reads == []
