"""Which page a status calls for."""

from dataclasses import replace

import pytest

from cutover.definition.pipeline import Policy
from cutover.lake.epochs import EpochRecord
from reconcile.watch import advice
from reconcile.watch.lag import Driver, Lag
from reconcile.watch.status import late_share

DONE = Driver(alive=False, state="STOPPED")
DIED = Driver(alive=False, state="DIED")
FENCED = Driver(alive=False, state="FAILED", error="...", runbook="StreamFenced")
EPOCH = EpochRecord(
    epoch=0,
    run_id="r",
    topic="t",
    topic_id="T",
    cluster_id="C",
    start={},
    end={},
    max_event={},
    watermark_before=None,
    watermark_after=None,
    counts={"accepted": 95, "late": 5},
    records=100,
)


@pytest.mark.parametrize(
    ("verdict", "driver", "expected"),
    [
        (Lag.OK, Driver(alive=True, state="RUNNING"), []),
        (Lag.LAGGING, Driver(alive=True, state="RUNNING"), []),
        (Lag.STOPPED, DONE, []),
        (Lag.STOPPED, DIED, ["StreamNotRunning"]),
        (Lag.STOPPED, FENCED, ["StreamFenced"]),
        (Lag.STALLED, Driver(alive=True, state="RUNNING"), ["StreamNotRunning"]),
        (Lag.REWOUND, DONE, ["LogDataLost"]),
    ],
)
def test_page_of_a_stream(verdict: Lag, driver: Driver, expected: list[str]) -> None:
    assert [one.runbook for one in advice.of_lag(verdict, driver)] == expected


@pytest.mark.parametrize(
    ("record", "limit", "expected"),
    [
        (EPOCH, 0.05, []),
        (EPOCH, 0.04, ["LateRateHigh"]),
        (replace(EPOCH, counts={"malformed": 1}), 1.0, []),
        (replace(EPOCH, counts={"malformed": 2}), 1.0, ["MalformedRateHigh"]),
        (replace(EPOCH, unknown=1), 1.0, ["SchemaChanged"]),
        (replace(EPOCH, records=0, counts={}), 0.0, []),
    ],
)
def test_page_of_the_newest_records(record: EpochRecord, limit: float, expected: list[str]) -> None:
    found = advice.of_records([record], late_share([record]), Policy(max_late_share=limit))

    assert [one.runbook for one in found] == expected


@pytest.mark.parametrize(("free", "expected"), [(None, []), (1 << 30, []), ((1 << 30) - 1, ["DiskHeadroomLow"])])
def test_page_of_a_full_disk(free: int | None, expected: list[str]) -> None:
    assert [one.runbook for one in advice.of_disk(free)] == expected
