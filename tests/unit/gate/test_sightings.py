"""Hazards at their thresholds, and the sentence that describes each one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.definition.model.policy import Policy
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import ComparisonRow, VersionEvent
from cutover.reconcile.gate import hazards
from cutover.reconcile.gate.decide import RecordedHazard
from cutover.reconcile.verdict.records import fold_lines
from tests.support.history.journal_rows import make_row
from tests.unit.gate.test_evidence import AT, extend_report, row
from tests.unit.gate.test_hazards import NOW, POLICY, START, hourly, list_kinds, log

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("records", "kind", "text"),
    [
        pytest.param(log({}, {"run_id": "b"}), "restart", "a driver began with epoch 1", id="restart"),
        pytest.param(log({}, {"end": {0: 100, 2: 1, 1: 5}}), "partitions", "partitions 1, 2 are new in epoch 1"),
        pytest.param(
            log({"leaders": {1: 1, 0: 3}}, {"leaders": {1: 2, 0: 4}}),
            "partitions",
            "partitions 0, 1 have another leader in epoch 1",
            id="leaders",
        ),
        pytest.param(
            log({}, {"unknown": 7_000}), "schema_change", "7,000 records of epoch 1 have unknown fields", id="schema"
        ),
        pytest.param(
            log({}, {"counts": {"late": 1_200, "accepted": 9}}),
            "late_burst",
            "1,200 late records in epoch 1",
            id="late",
        ),
    ],
)
def test_a_hazard_describes_what_was_recorded_and_when(records: list[EpochRecord], kind: Any, text: str) -> None:
    assert hazards.find_hazards(records, POLICY, NOW) == (
        RecordedHazard(kind=kind, epoch=1, at=START + HOUR, text=text),
    )


def test_a_hazard_of_an_epoch_without_a_time_has_no_time() -> None:
    (hazard,) = hazards.find_hazards([replace(hourly(0), counts={"late": 20}, processing_time="")], POLICY, NOW)

    assert hazard.at is None


@pytest.mark.parametrize(
    ("records", "policy", "expected"),
    [
        pytest.param(log({"counts": {"late": 10, "accepted": 1}}), POLICY, ["late_burst"], id="ten late ones"),
        pytest.param(log({"counts": {"late": 10}}), Policy(max_late_share=0.95), ["late_burst"], id="nothing else"),
        pytest.param(log({"unknown": 7}, {"records": 0}, {"unknown": 7}), POLICY, [], id="an epoch of no records"),
        pytest.param(log({"end": {}}, {"end": {0: 1}}), POLICY, ["partitions"], id="the first partition"),
    ],
)
def test_hazards_of_epochs_have_exact_thresholds(
    records: list[EpochRecord], policy: Policy, expected: list[str]
) -> None:
    assert [hazard.kind for hazard in hazards.find_hazards(records, policy, NOW)] == expected


def half_past(number: int, **changes: Any) -> EpochRecord:
    """Build an epoch that read records as they arrived, produced half an hour before the others of their hour."""
    log_time = (hourly(number).oldest_log_time or 0) - 1_800_000_000
    return replace(minutes_in(number, -29), oldest_log_time=log_time, **changes)


def minutes_in(number: int, minutes: int, **changes: Any) -> EpochRecord:
    """Build an epoch that read one hour of the log, `minutes` after the first record of that hour was produced."""
    plain = hourly(number)
    log_time = datetime.fromtimestamp((plain.oldest_log_time or 0) / 1e6, UTC)
    return replace(plain, processing_time=(log_time + timedelta(minutes=minutes)).isoformat(), **changes)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([*map(hourly, range(23)), replace(hourly(23), records=200)], [23], id="the 24th hour"),
        pytest.param([*map(hourly, range(24)), *(minutes_in(24, m, epoch=24 + m) for m in (1, 2))], [26], id="in two"),
        pytest.param([*map(hourly, range(25)), half_past(24, epoch=25)], [25], id="half an hour before"),
        pytest.param([*map(hourly, range(24)), minutes_in(24, 10, records=200)], [24], id="read ten minutes later"),
        pytest.param([*map(hourly, range(24)), minutes_in(24, 11, records=200)], [], id="read later than that"),
        pytest.param(
            [*map(hourly, range(24)), replace(hourly(24), records=200, processing_time="")], [], id="nobody knows when"
        ),
        pytest.param(
            [*map(hourly, range(22)), replace(hourly(22), records=0), replace(hourly(23), records=200)],
            [],
            id="an hour of no records is none",
        ),
        pytest.param(
            [*map(hourly, range(24)), replace(hourly(24), records=0, oldest_log_time=None)], [], id="nothing was read"
        ),
    ],
)
def test_an_hour_contains_all_its_records_read_as_they_arrived(records: list[EpochRecord], expected: list[int]) -> None:
    assert [epoch for kind, epoch in list_kinds(records) if kind == "peak"] == expected


def test_a_peak_is_described_with_the_median_hour() -> None:
    records = [*map(hourly, range(24)), replace(hourly(24), records=1_200), replace(hourly(25), records=100)]

    assert [hazard.text for hazard in hazards.find_hazards(records, POLICY, NOW)] == [
        "1,200 records in an hour, the median hour has 100"
    ]


REPLAYED = [make_row(VersionEvent, result_fingerprint="aa", stream_version=1, parallel=True)]


@pytest.mark.parametrize(
    "comparison_row",
    [
        pytest.param(extend_report(row(4), **{"from": "2026-01-01T00:00:00Z"}), id="over a range"),
        pytest.param(row(4, exit_code=1), id="beyond the policy"),
        pytest.param(row(4, verdict="DIVERGED"), id="they differ"),
    ],
)
def test_a_replay_counts_only_after_a_complete_comparison_that_agrees(comparison_row: ComparisonRow) -> None:
    assert hazards.find_replay(REPLAYED, fold_lines([comparison_row]), NOW) is None


def test_a_replay_is_dated_by_its_last_agreement() -> None:
    history = fold_lines([row(4), row(5), row(5, run_id="again", at=AT + HOUR, sequence=9, exit_code=1)])

    replay = hazards.find_replay(REPLAYED, history, NOW)

    assert replay == RecordedHazard(
        kind="replay", epoch=0, at=AT + timedelta(minutes=5), text="stream-1 was replayed and is within policy"
    )


@pytest.mark.parametrize(
    ("hours", "at"),
    [
        pytest.param((0, 1, 2), START + 2 * HOUR, id="one clock"),
        pytest.param((0, 1, 99_999), START + HOUR, id="years ahead: after the epoch before"),
        pytest.param((99_998, 99_999, 100_000), None, id="the time is unknown"),
    ],
)
def test_a_hazard_dated_in_the_future_is_as_old_as_the_epoch_before_it(
    hours: tuple[int, ...], at: datetime | None
) -> None:
    records = [
        replace(hourly(number), processing_time=(START + hour * HOUR).isoformat()) for number, hour in enumerate(hours)
    ]
    records[-1] = replace(records[-1], counts={"late": 20})

    assert [hazard.at for hazard in hazards.find_hazards(records, POLICY, NOW)] == [at]


def test_a_hazard_is_no_newer_than_the_epochs_after_it() -> None:
    records = [replace(hourly(0), processing_time=(NOW - HOUR).isoformat(), counts={"late": 20}), hourly(1)]

    assert [hazard.at for hazard in hazards.find_hazards(records, POLICY, NOW)] == [START + HOUR]


def test_a_replay_dated_in_the_future_follows_the_comparison_before_it() -> None:
    history = fold_lines([row(4), row(5, at=NOW + 2 * DAY)])

    replay = hazards.find_replay(REPLAYED, history, NOW)

    assert replay is not None
    assert replay.at == AT + timedelta(minutes=4)
