"""Duplicate and missing deliveries, derived from records and attempts."""

from collections.abc import Mapping

import pytest

from cutover.definition.model.pipeline import Delivery
from cutover.lake.epochs.delivery import Attempt, DeliveryFaults, find_delivery_faults, sum_effective_counts
from cutover.lake.epochs.epoch_log import EpochRecord

COUNTS = {"accepted": 3, "late": 1}


def record(epoch: int, run: str = "a", *, delivery: Delivery = "at_least_once", read: int = 4) -> EpochRecord:
    return EpochRecord(
        epoch=epoch,
        run_id=run,
        topic="t",
        topic_id="i",
        cluster_id="c",
        start={0: 10 * epoch},
        end={0: 10 * epoch + read},
        max_event={},
        watermark_before=None,
        watermark_after=None,
        counts=COUNTS if read else {},
        delivery=delivery,
        windows=(epoch, epoch + 1),
    )


def attempt(epoch: int, run: str = "a", counts: Mapping[str, int] = COUNTS) -> Attempt:
    return Attempt(
        epoch=epoch, run_id=run, start={0: 10 * epoch}, end={0: 10 * epoch + 4}, counts=counts, windows=(epoch, 9)
    )


@pytest.mark.parametrize(
    ("records", "attempts", "doubled", "lost_records"),
    [
        ([record(0), record(1)], [attempt(0), attempt(1)], [], []),
        ([record(0), record(1, "b")], [attempt(0), attempt(1), attempt(1, "b")], [attempt(1)], []),
        ([record(0)], [attempt(0), attempt(0)], [attempt(0)], []),
        ([record(0), record(1)], [attempt(0)], [], [record(1)]),
        ([record(0), record(1)], [attempt(0), attempt(1, "b")], [attempt(1, "b")], [record(1)]),
        ([record(0)], [attempt(0), attempt(1)], [], []),  # epoch 1 is not recorded: its rows are not seen yet
        ([record(0, read=0)], [], [], []),  # a tick
        ([record(0, delivery="exactly_once")], [], [], []),
    ],
)
def test_duplicate_and_missing_deliveries_are_found(
    records: list[EpochRecord], attempts: list[Attempt], doubled: list[Attempt], lost_records: list[EpochRecord]
) -> None:
    assert find_delivery_faults(records, attempts) == DeliveryFaults(doubled=tuple(doubled), lost=tuple(lost_records))


def test_rows_add_up_to_the_attempts_or_under_exactly_once_to_the_counts() -> None:
    records = [record(0), record(1), record(2, delivery="exactly_once")]

    assert sum_effective_counts(records, [attempt(0), attempt(0, "b", {"accepted": 1})]) == {
        0: {"accepted": 4, "late": 1},
        1: {},
        2: COUNTS,
    }


def test_sentences_name_epoch_offsets_and_driver() -> None:
    sentences = DeliveryFaults(doubled=(attempt(1),), lost=(record(2, "b"),)).sentences

    assert sentences == (
        "Doubled: epoch 1, offsets 0: 10 to 13 were written once more than counted by a.",
        "Lost: epoch 2, offsets 0: 20 to 23 were never written: b ended first.",
    )


def test_attempt_and_record_round_trip_through_json() -> None:
    assert Attempt.from_json(attempt(3).to_json()) == attempt(3)
    assert EpochRecord.from_json(record(3).to_json()) == record(3)
