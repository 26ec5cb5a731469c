"""Verdicts on a stream and on its watermark, from a few samples."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.watch.facts import LagSample, seconds_since
from cutover.reconcile.watch.status import (
    LagLimits,
    LagVerdict,
    WatermarkVerdict,
    evaluate_lag,
    evaluate_watermark,
    list_partition_lags,
    make_status,
)
from tests.support.history.watch_facts import make_epoch, make_facts

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RUNNING = DriverState(alive=True, state="RUNNING")
HANGS = DriverState(alive=True, state="RUNNING", unread_since=(NOW - timedelta(seconds=121)).isoformat())
LIMITS = LagLimits(max_rows_per_epoch=100, idle_after=timedelta(minutes=1), max_ahead_micros=1_000_000)
HOUR = 3_600_000_000


def make_sample(end: dict[int, int], ends: dict[int, int], seconds: int = 0, **more: Any) -> LagSample:
    """Make a sample `seconds` after noon whose newest epoch was committed `age` seconds before it."""
    at = NOW + timedelta(seconds=seconds)
    newest = EpochRecord(
        epoch=more.pop("epoch", 7),
        run_id="r",
        topic="t",
        topic_id="T",
        cluster_id="C",
        start={},
        end=end,
        max_event=more.pop("max_event", {}),
        watermark_before=None,
        watermark_after=more.pop("watermark", None),
        idle=more.pop("idle", ()),
        records=more.pop("records", 0),
        processing_time=(at - timedelta(seconds=more.pop("age", 1))).isoformat(),
    )
    return LagSample(
        at=at, monotonic=at.timestamp(), epoch=newest, end_offsets=ends, driver=more.pop("driver", RUNNING), **more
    )


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param([make_sample({0: 50}, {0: 50})], LagVerdict.OK, id="all read"),
        pytest.param([make_sample({0: 50}, {0: 150})], LagVerdict.OK, id="one epoch unread"),
        pytest.param([make_sample({0: 50}, {0: 151})], LagVerdict.LAGGING, id="more than one epoch unread"),
        pytest.param(
            [make_sample({0: 50}, {0: 60}), make_sample({0: 60}, {0: 75}, 5), make_sample({0: 70}, {0: 90}, 10)],
            LagVerdict.LAGGING,
            id="backlog never shrinks",
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 60}), make_sample({0: 60}, {0: 75}, 5), make_sample({0: 80}, {0: 90}, 10)],
            LagVerdict.OK,
            id="backlog shrinks",
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 51}, driver=HANGS)], LagVerdict.STALLED, id="unread and no commit for two minutes"
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 51}, age=9999)], LagVerdict.OK, id="a record after a long quiet is no stall"
        ),
        pytest.param([make_sample({0: 50}, {0: 50}, age=9999)], LagVerdict.OK, id="nothing to commit is no stall"),
        pytest.param(
            [make_sample({0: 50}, {0: 51}, driver=DriverState(alive=False))], LagVerdict.STOPPED, id="no driver"
        ),
        pytest.param(
            [make_sample({0: 5}, {0: 6}, driver=DriverState(alive=True, state="BACKPRESSURED"))],
            LagVerdict.BACKPRESSURED,
            id="driver reports backpressure",
        ),
        pytest.param([make_sample({0: 50}, {0: 49})], LagVerdict.REWOUND, id="log ends before the position"),
        pytest.param(
            [make_sample({0: 50}, {0: 60}), make_sample({0: 40}, {0: 60}, 5)],
            LagVerdict.REWOUND,
            id="position went back",
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 49}, driver=DriverState(alive=False))],
            LagVerdict.REWOUND,
            id="rewound is worse than stopped",
        ),
    ],
)
def test_stream_gets_its_verdict(samples: list[LagSample], expected: LagVerdict) -> None:
    assert evaluate_lag(samples, LIMITS) is expected


def test_new_partition_counts_from_its_first_offset() -> None:
    assert make_sample({0: 50}, {0: 50, 1: 12}).unread == 12


def test_partition_without_unread_records_is_ok_in_a_stalled_stream() -> None:
    lags = list_partition_lags([make_sample({0: 50, 1: 5}, {0: 50, 1: 9}, age=300)], LagVerdict.STALLED)

    assert [lag.verdict for lag in lags] == [LagVerdict.OK, LagVerdict.STALLED]


def test_lag_in_time_is_the_log_time_from_first_unread_to_newest_record() -> None:
    timed = make_sample({0: 50}, {0: 60}, first_unread_times={0: 10_000_000}, newest_times={0: 95_000_000})

    assert list_partition_lags([timed], LagVerdict.OK)[0].seconds == 95 - 10


def test_lag_in_time_is_unknown_when_the_log_gave_no_record() -> None:
    assert list_partition_lags([make_sample({0: 50}, {0: 60})], LagVerdict.OK)[0].seconds is None


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param(
            [make_sample({0: 50}, {0: 60}, watermark=HOUR)], (WatermarkVerdict.ADVANCING, None), id="input, one look"
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 50}, age=61, watermark=HOUR)],
            (WatermarkVerdict.NO_INPUT, None),
            id="quiet a minute",
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 50}, age=5, watermark=HOUR)],
            (WatermarkVerdict.ADVANCING, None),
            id="quiet a moment",
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 50}, watermark=HOUR, newest_times={0: HOUR - 1_000_001})],
            (WatermarkVerdict.AHEAD_OF_CLOCK, None),
            id="beyond newest log time and max_ahead",
        ),
        pytest.param(
            [make_sample({0: 50}, {0: 50}, watermark=HOUR, newest_times={0: HOUR - 1_000_000})],
            (WatermarkVerdict.ADVANCING, None),
            id="just not beyond",
        ),
        pytest.param(
            [
                make_sample({0: 50, 1: 50}, {0: 90, 1: 90}, watermark=HOUR, max_event={0: 9 * HOUR, 1: HOUR}),
                make_sample({0: 80, 1: 50}, {0: 90, 1: 90}, 5, watermark=HOUR, max_event={0: 9 * HOUR, 1: HOUR}),
            ],
            (WatermarkVerdict.HELD_BY, 1),
            id="oldest partition holds",
        ),
        pytest.param(
            [make_sample({0: 50, 1: 0}, {0: 90, 1: 3}, records=50, max_event={0: HOUR})],
            (WatermarkVerdict.HELD_BY, 1),
            id="unread and never read holds",
        ),
        pytest.param(
            [
                make_sample(
                    {0: 50, 1: 50}, {0: 90, 1: 90}, watermark=HOUR, max_event={0: 9 * HOUR, 1: HOUR}, idle=(1,)
                ),
                make_sample({0: 80, 1: 50}, {0: 90, 1: 90}, 5, watermark=HOUR, max_event={0: 9, 1: 8}, idle=(1,)),
            ],
            (WatermarkVerdict.HELD_BY, 0),
            id="idle partition does not hold",
        ),
    ],
)
def test_watermark_gets_its_verdict(samples: list[LagSample], expected: tuple[WatermarkVerdict, int | None]) -> None:
    quiet_seconds = seconds_since(samples[-1].epoch.processing_time, samples[-1].at)
    assert evaluate_watermark(samples, LIMITS, quiet_seconds) == expected


def test_tick_is_no_input() -> None:
    reading, tick, next_reading = (
        make_epoch(6, age=61),
        make_epoch(7, age=3, tick=True, records=0),
        make_epoch(8, age=2),
    )

    stopped = DriverState(run_id=reading.run_id)

    assert make_status(make_facts(epochs=(reading, tick), driver=stopped)).watermark_verdict == "NO_INPUT"
    assert (
        make_status(make_facts(epochs=(reading, tick, next_reading), driver=stopped)).watermark_verdict == "ADVANCING"
    )
