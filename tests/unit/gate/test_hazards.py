"""Hazards detected in the records of epochs and versions."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.definition.model.policy import Policy
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import VersionEvent
from cutover.reconcile.gate import hazards
from cutover.reconcile.verdict.records import fold_lines
from tests.support.history.journal_rows import make_row
from tests.unit.gate.test_evidence import epoch, row

START = datetime(2026, 11, 1, tzinfo=UTC)
QUIET = replace(epoch(100, 1.0), end={0: 100}, leaders={0: 3}, counts={"accepted": 100})
POLICY = Policy(max_late_share=0.1)
NOW = START + timedelta(days=30)


def log(*changes: dict[str, Any]) -> list[EpochRecord]:
    """Return an epoch an hour, each as the first but for its changes."""
    return [hourly(number, **change) for number, change in enumerate(changes)]


def hourly(number: int, **changes: Any) -> EpochRecord:
    at = START + timedelta(hours=number)
    log_time = int(at.timestamp() * 1e6) - 1_000_000
    return replace(QUIET, epoch=number, processing_time=at.isoformat(), oldest_log_time=log_time, **changes)


def list_kinds(records: list[EpochRecord]) -> list[tuple[str, int]]:
    return [(hazard.kind, hazard.epoch) for hazard in hazards.find_hazards(records, POLICY, NOW)]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(log(), [], id="no epoch"),
        pytest.param(log({}, {}, {}), [], id="nothing happened"),
        pytest.param(log({}, {"run_id": "b"}, {"run_id": "b"}), [("restart", 1)], id="another driver"),
        pytest.param(log({}, {"run_id": "b"}, {"run_id": "c"}), [("restart", 2)], id="the latest one is reported"),
        pytest.param(log({"counts": {"late": 12, "accepted": 88}}), [("late_burst", 0)], id="a burst"),
        pytest.param(log({"counts": {"late": 10, "accepted": 90}}), [], id="a share that the policy allows"),
        pytest.param(log({"counts": {"late": 9, "accepted": 1}}), [], id="a few late ones"),
        pytest.param(log({}, {"end": {0: 100, 1: 5}}), [("partitions", 1)], id="a new partition"),
        pytest.param(log({}, {"leaders": {0: 4}}), [("partitions", 1)], id="another leader"),
        pytest.param(log({}, {"leaders": {}}, {"leaders": {0: 3}}), [], id="a partition that was not read"),
        pytest.param(log({}, {"leaders": {}}, {"leaders": {0: 4}}), [("partitions", 2)], id="led by another meanwhile"),
        pytest.param(log({}, {"unknown": 7}), [("schema_change", 1)], id="a new field"),
        pytest.param(log({"unknown": 7}, {"unknown": 7}), [], id="a field that was always there"),
        pytest.param(log({"unknown": 7}, {}, {"unknown": 7}), [("schema_change", 2)], id="a field that came back"),
    ],
)
def test_hazards_are_found_in_epochs(records: list[EpochRecord], expected: list[tuple[str, int]]) -> None:
    assert list_kinds(records) == expected


@pytest.mark.parametrize(
    ("hours", "changes", "expected"),
    [
        pytest.param(24, {"records": 200}, [("peak", 24)], id="twice the median hour"),
        pytest.param(24, {"records": 199}, [], id="less than that"),
        pytest.param(22, {"records": 900}, [], id="too few hours for a median"),
        pytest.param(24, {"records": 900, "processing_time": "2026-11-03T09:00:00+00:00"}, [], id="caught up later"),
    ],
)
def test_peak_is_an_hour_of_far_more_records(hours: int, changes: dict[str, Any], expected: list[Any]) -> None:
    records = [hourly(number) for number in range(hours)]

    assert list_kinds([*records, replace(hourly(hours), **changes)]) == expected


OFFSETS = [timedelta(0), timedelta(minutes=20), timedelta(hours=1), timedelta(hours=-1), timedelta(days=-1_000)]


@pytest.mark.parametrize("offset", OFFSETS, ids=str)
@pytest.mark.parametrize(
    ("late_by", "expected"),
    [
        pytest.param(timedelta(0), [("peak", 24)], id="read as it arrived"),
        pytest.param(timedelta(hours=1), [], id="caught up an hour later"),
        pytest.param(timedelta(minutes=20), [], id="caught up later"),
    ],
)
def test_a_peak_is_the_same_whatever_the_drivers_clock(offset: timedelta, late_by: timedelta, expected: object) -> None:
    records = [hourly(number) for number in range(24)]
    at = START + timedelta(hours=24) + late_by

    observed = [*records, replace(hourly(24), records=200, processing_time=at.isoformat())]

    assert list_kinds([dated_by(record, offset) for record in observed]) == expected


@pytest.mark.parametrize("offset", [timedelta(0), timedelta(hours=-1)], ids=str)
def test_a_driver_that_only_caught_up_is_timed_by_the_clock_of_the_one_before(offset: timedelta) -> None:
    records = [hourly(number) for number in range(24)]
    caught_up = replace(
        hourly(24), run_id="b", records=900, processing_time=(START + timedelta(hours=24, minutes=55)).isoformat()
    )

    assert list_kinds([dated_by(record, offset) for record in [*records, caught_up]]) == [("restart", 24)]


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=300)], ids=str)
def test_a_replay_shows_no_peak(ahead: timedelta) -> None:
    records = [*(hourly(number) for number in range(24)), replace(hourly(24), records=900)]

    assert list_kinds([dated_by(record, ahead) for record in records]) == []


def dated_by(record: EpochRecord, offset: timedelta) -> EpochRecord:
    """Return an epoch whose driver's clock is ahead of the log's."""
    at = datetime.fromisoformat(record.processing_time) + offset
    return replace(record, processing_time=at.isoformat())


@pytest.mark.parametrize(
    ("digests", "expected"),
    [([], -1), ([None, "a"], -1), (["a", "a"], -1), (["a", "b", "b"], 1), (["a", None, "b", None], 2)],
)
def test_current_settings_have_a_first_epoch(digests: list[str | None], expected: int) -> None:
    assert hazards.find_change_of_settings(log(*({"in_force": digest} for digest in digests))) == expected


@pytest.mark.parametrize(
    ("registered", "changes", "expected"),
    [
        pytest.param({"parallel": True}, {}, "stream-1 was replayed and is within policy", id="replayed and compared"),
        pytest.param({"parallel": False}, {}, None, id="no replay"),
        pytest.param({"parallel": True, "stream_version": 2}, {}, None, id="never compared"),
        pytest.param({"parallel": True}, {"verdict": "DIVERGED", "exit_code": 1}, None, id="it differed"),
    ],
)
def test_replay_counts_once_its_version_agreed(
    registered: dict[str, Any], changes: dict[str, Any], expected: str | None
) -> None:
    versions = [make_row(VersionEvent, **{"result_fingerprint": "aa", "stream_version": 1} | registered)]

    replay = hazards.find_replay(versions, fold_lines([row(4, **changes)]), NOW)

    assert (None if replay is None else (replay.epoch, replay.text)) == (None if expected is None else (0, expected))
