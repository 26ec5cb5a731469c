"""Attempts recorded in an epoch log, and messages about duplicate or missing deliveries."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.lake.epochs.delivery import Attempt, DeliveryFaults, find_delivery_faults, read_attempts
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import commits, delta
from tests.unit.streaming.epochs import FIRST, SCHEMA

APART = replace(FIRST, delivery="at_least_once")


def attempt(epoch: int, run: str = FIRST.run_id) -> Attempt:
    return Attempt(epoch=epoch, run_id=run, start={0: 0}, end={0: 10}, counts={"accepted": 1}, windows=None)


@pytest.fixture
def epoch_log(tmp_path: Path) -> EpochLog:
    table = delta.ensure(str(tmp_path / "stream"), SCHEMA, partition_by=["_kind"])
    for row_attempt in (attempt(1), attempt(0, "b"), attempt(0, "a")):
        row = {"_kind": "data", "_epoch": row_attempt.epoch, "_record": row_attempt.to_json()}
        other = {"_kind": "partial", "_epoch": row_attempt.epoch, "_record": None}
        commits.append(table, pa.Table.from_pylist([row, other], schema=SCHEMA))
    return EpochLog(str(tmp_path / "stream"))


@pytest.mark.parametrize("records", [[APART], [FIRST, APART], [APART, FIRST]], ids=["apart", "later", "once"])
def test_attempts_are_read_if_an_epoch_was_committed_separately(
    epoch_log: EpochLog, records: list[EpochRecord]
) -> None:
    assert read_attempts(epoch_log, records) == (attempt(0, "a"), attempt(0, "b"), attempt(1))


def test_attempts_are_not_read_if_every_epoch_is_one_commit(epoch_log: EpochLog) -> None:
    assert read_attempts(epoch_log, [FIRST, FIRST]) == ()


def test_an_attempt_of_an_unrecorded_epoch_hides_no_later_one() -> None:
    epoch_record = replace(APART, epoch=1)

    assert find_delivery_faults([epoch_record], [attempt(0), attempt(1), attempt(1, "b")]) == DeliveryFaults(
        doubled=(attempt(1, "b"),)
    )


def test_a_sentence_names_the_offsets_of_read_and_new_partitions() -> None:
    read = replace(APART, start={0: 10, 2: 5}, end={0: 14, 1: 1, 2: 5})

    assert DeliveryFaults(lost=(read,)).sentences == (
        "Lost: epoch 0, offsets 0: 10 to 13, 1: 0 to 0 were never written: pid-1-one ended first.",
    )


def test_spans_are_those_of_deliveries_with_windows() -> None:
    delivered = DeliveryFaults(
        doubled=(replace(attempt(0), windows=(1, 5)), attempt(1)), lost=(replace(APART, windows=(7, 9)), APART)
    )

    assert (delivered.doubled_windows, delivered.lost_windows) == (((1, 5),), ((7, 9),))
