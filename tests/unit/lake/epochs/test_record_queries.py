"""Queries of epoch records: older releases, the newest records, and the settings that they name."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pytest

from cutover.engine.effective_settings import EffectiveSettings
from cutover.lake.epochs import delivery
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord, collect_in_force
from cutover.lake.tables import commits, delta
from tests.unit.streaming.epochs import FIRST, SCHEMA, SECOND

ITEMS = {"spark": {"spark.x": "1"}}
THIRD = replace(SECOND, epoch=2, start={0: 20}, end={0: 30})


def epoch_log(folder: Path, *records: EpochRecord) -> EpochLog:
    table = delta.ensure(str(folder / "stream"), SCHEMA, partition_by=["_kind"])
    for record in records:
        row = {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}
        commits.append(table, pa.Table.from_pylist([row], schema=SCHEMA))
    return EpochLog(str(folder / "stream"))


NEEDED = {
    "epoch": 0,
    "run_id": "r",
    "topic": "t",
    "topic_id": "A",
    "cluster_id": "C",
    "start": {"0": 0},
    "end": {"0": 10},
    "max_event": {},
    "watermark_before": None,
    "watermark_after": None,
}
"""All that the first release wrote of an epoch."""

LACKING = {
    "idle": (),
    "counts": {},
    "records": 0,
    "unknown": 0,
    "lag": 0,
    "processing_time": "",
    "seconds": 0.0,
    "tick": False,
    "final": False,
    "result_fingerprint": "",
    "lateness_fingerprint": "",
    "isolation": "read_committed",
    "folded_to": None,
    "conflicts": 0,
    "one_key_share": None,
    "id_conflicts": 0,
    "panes": None,
    "dimensions": {},
    "dimension_ids": {},
    "delivery": "exactly_once",
    "marks": {},
    "leaders": {},
    "files": "0",
    "in_force": None,
    "in_force_items": None,
    "rows": 0,
    "oldest_log_time": None,
    "cost": None,
    "job_batch": None,
    "schemas": {},
    "windows": None,
}


def test_missing_fields_of_an_older_release_are_empty() -> None:
    read = EpochRecord.from_json(json.dumps(NEEDED))

    assert {field.name: getattr(read, field.name) for field in fields(read) if field.name not in NEEDED} == LACKING


def test_an_epoch_read_the_partitions_whose_end_moved() -> None:
    assert replace(FIRST, start={0: 5, 1: 5}, end={0: 5, 1: 6, 2: 0, 3: 1}).end_moved == (1, 3)


@pytest.mark.parametrize(("number", "expected"), [(1, [THIRD]), (2, [SECOND, THIRD]), (9, [FIRST, SECOND, THIRD])])
def test_recent_epochs_are_the_newest_in_order(tmp_path: Path, number: int, expected: list[EpochRecord]) -> None:
    assert epoch_log(tmp_path, FIRST, SECOND, THIRD).recent(number) == expected


def test_a_log_without_epochs_has_no_recent_one(tmp_path: Path) -> None:
    assert epoch_log(tmp_path).recent(3) == []


def test_settings_are_recorded_once_and_later_epochs_name_their_digest(
    tmp_path: Path,
) -> None:
    first_record = replace(FIRST, in_force="d", in_force_items=ITEMS)
    records = [first_record, replace(SECOND, in_force="d"), THIRD]
    log = epoch_log(tmp_path, *records)

    assert collect_in_force(records) == {"d": EffectiveSettings(ITEMS)}
    assert (log.in_force("d"), log.in_force("other"), log.in_force(None)) == (EffectiveSettings(ITEMS), None, None)


def test_an_epoch_that_ends_before_it_starts_is_reported_once() -> None:
    wrong = replace(SECOND, end={0: 9})

    assert list(delivery.describe_offset_breaks("s", [FIRST, wrong], [])) == [
        "Epoch log of s: epoch 1, topic t, partition 0: expected to start at 10, got 10 (end 9)."
    ]
