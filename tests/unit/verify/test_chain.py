"""N3 over epochs: planted gaps are named by epoch and partition, and an unmodified chain has no violation."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from tests.unit.verify.epochs import chain_of, epoch

Records = list[EpochRecord]


def list_violations(records: Records, *losses: Loss, transaction: int | None = None) -> list[str]:
    newest = max((r.epoch for r in records), default=None) if transaction is None else transaction
    return [
        *delivery.describe_number_gaps("clicks", records, newest),
        *delivery.describe_offset_breaks("clicks", records, losses),
        *delivery.describe_log_changes("clicks", records),
    ]


def loss(**changes: object) -> Loss:
    values: dict[str, object] = {
        "pipeline": "clicks",
        "result_fingerprint": "f",
        "stream_version": 0,
        "epoch": 2,
        "kind": "gap",
        "topic": "clicks",
        "topic_id": "topic-1",
        "partition": 1,
        "first": 10,
        "next": 12,
        "onward_topic_id": "topic-1",
        "windows_from": None,
        "windows_to": None,
        "who": "me",
        "why": "retention",
        "at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return Loss(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests


def with_epoch(number: int, **changes: object) -> Callable[[Records], Records]:
    return lambda records: [replace(r, **changes) if r.epoch == number else r for r in records]  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_consecutive_epochs_hold(length: int) -> None:
    assert list_violations(chain_of(length)) == []


def test_a_table_without_epochs_has_no_transaction() -> None:
    assert list(delivery.describe_number_gaps("clicks", [], None)) == []
    assert len(list(delivery.describe_number_gaps("clicks", [], 0))) == 1


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (with_epoch(2, start={0: 10, 1: 11}), "topic clicks, partition 1: expected to start at 10, got 11 (end 15)."),
        (with_epoch(2, start={0: 9, 1: 10}), "topic clicks, partition 0: expected to start at 10, got 9 (end 15)."),
        (with_epoch(1, end={0: 10, 1: 11}), "topic clicks, partition 1: expected to start at 11, got 10 (end 15)."),
        (with_epoch(3, end={0: 14, 1: 20}), "topic clicks, partition 0: expected to start at 15, got 15 (end 14)."),
        (with_epoch(3, start={0: 15}, end={0: 20}), "partition 1: expected to start at 15, got None (end None)."),
        (with_epoch(0, end={0: 5, 1: -1}), "topic clicks, partition 1: expected to start at 0, got 0 (end -1)."),
        (
            with_epoch(3, start={0: 15, 1: 15, 2: 4}, end={0: 20, 1: 20, 2: 9}),
            "epoch 3, topic clicks, partition 2: expected to start at 0, got 4 (end 9).",
        ),
        (with_epoch(2, topic_id="topic-2"), "epoch 2: expected topic id topic-1 of cluster cluster-1, got topic-2"),
        (with_epoch(3, cluster_id="cluster-2"), "got topic-1 of cluster-2."),
        (lambda r: [*r[:2], *r[3:]], "expected epochs 0 to 3 once each, got 3 rows, epoch 2 is missing."),
        (lambda r: r[1:], "expected epochs 0 to 3 once each, got 3 rows, epoch 0 is missing."),
        (lambda r: [*r[:2], r[1], *r[2:]], "expected epochs 0 to 3 once each, got 5 rows."),
    ],
)
def test_planted_gaps_are_named(spoil: Callable[[Records], Records], text: str) -> None:
    assert [line for line in list_violations(spoil(chain_of(4))) if text in line] != []


def test_a_removed_last_epoch_is_detected_by_the_transaction() -> None:
    assert list_violations(chain_of(3), transaction=3) == [
        "Epoch log of clicks: transaction says 3, newest epoch row is 2."
    ]


def test_a_new_partition_starts_at_zero() -> None:
    grown = epoch(2, start={0: 10, 1: 10, 2: 0}, end={0: 15, 1: 15, 2: 3})

    assert list_violations([*chain_of(2), grown]) == []


def test_the_first_epoch_starts_where_the_log_began() -> None:
    first_epoch = epoch(0, start={0: 3, 1: 4})

    assert list_violations([first_epoch]) == []


BEHIND = epoch(2, start={0: 10, 1: 12})


def test_a_recorded_loss_excuses_its_own_gap() -> None:
    assert list_violations([*chain_of(2), BEHIND], loss()) == []


@pytest.mark.parametrize(
    "other", [loss(epoch=1), loss(partition=0), loss(next=13), loss(next=None), loss(topic_id="topic-0")]
)
def test_a_recorded_loss_excuses_nothing_else(other: Loss) -> None:
    assert list_violations([*chain_of(2), BEHIND], other) != []
