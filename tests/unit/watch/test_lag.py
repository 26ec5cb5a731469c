"""One word on a stream and one on its watermark, from a few samples."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.watch.facts import seconds_since
from cutover.reconcile.watch.lag import Lag, LagSample, Limits, Time, count_unread, judge, judge_time, partitions
from cutover.reconcile.watch.status import status
from tests.unit.watch.facts_of import facts, record

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RUNNING = DriverState(alive=True, state="RUNNING")
HANGS = DriverState(alive=True, state="RUNNING", unread_since=(NOW - timedelta(seconds=121)).isoformat())
LIMITS = Limits(max_rows_per_epoch=100, idle_after=timedelta(minutes=1), ahead_micros=1_000_000)
HOUR = 3_600_000_000


def sample(end: dict[int, int], ends: dict[int, int], seconds: int = 0, **more: Any) -> LagSample:
    """Return a sample `seconds` after noon whose newest epoch was committed `age` seconds before it."""
    at = NOW + timedelta(seconds=seconds)
    record = EpochRecord(
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
    return LagSample(at=at, seen=at.timestamp(), epoch=record, ends=ends, driver=more.pop("driver", RUNNING), **more)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param([sample({0: 50}, {0: 50})], Lag.OK, id="all read"),
        pytest.param([sample({0: 50}, {0: 150})], Lag.OK, id="one epoch unread"),
        pytest.param([sample({0: 50}, {0: 151})], Lag.LAGGING, id="more than one epoch unread"),
        pytest.param(
            [sample({0: 50}, {0: 60}), sample({0: 60}, {0: 75}, 5), sample({0: 70}, {0: 90}, 10)],
            Lag.LAGGING,
            id="backlog never shrinks",
        ),
        pytest.param(
            [sample({0: 50}, {0: 60}), sample({0: 60}, {0: 75}, 5), sample({0: 80}, {0: 90}, 10)],
            Lag.OK,
            id="backlog shrinks",
        ),
        pytest.param([sample({0: 50}, {0: 51}, driver=HANGS)], Lag.STALLED, id="unread and no commit for two minutes"),
        pytest.param([sample({0: 50}, {0: 51}, age=9999)], Lag.OK, id="a record after a long quiet is no stall"),
        pytest.param([sample({0: 50}, {0: 50}, age=9999)], Lag.OK, id="nothing to commit is no stall"),
        pytest.param([sample({0: 50}, {0: 51}, driver=DriverState(alive=False))], Lag.STOPPED, id="no driver"),
        pytest.param(
            [sample({0: 5}, {0: 6}, driver=DriverState(alive=True, state="BACKPRESSURED"))],
            Lag.BACKPRESSURED,
            id="says so",
        ),
        pytest.param([sample({0: 50}, {0: 49})], Lag.REWOUND, id="log ends before the position"),
        pytest.param([sample({0: 50}, {0: 60}), sample({0: 40}, {0: 60}, 5)], Lag.REWOUND, id="position went back"),
        pytest.param(
            [sample({0: 50}, {0: 49}, driver=DriverState(alive=False))], Lag.REWOUND, id="rewound is worse than stopped"
        ),
    ],
)
def test_stream_gets_one_word(samples: list[LagSample], expected: Lag) -> None:
    assert judge(samples, LIMITS) is expected


def test_new_partition_counts_from_its_first_offset() -> None:
    assert count_unread(sample({0: 50}, {0: 50, 1: 12})) == 12


def test_partition_without_unread_records_is_ok_in_a_stalled_stream() -> None:
    found = partitions([sample({0: 50, 1: 5}, {0: 50, 1: 9}, age=300)], Lag.STALLED)

    assert [one.verdict for one in found] == [Lag.OK, Lag.STALLED]


def test_lag_in_time_is_the_log_time_from_first_unread_to_newest_record() -> None:
    seen = sample({0: 50}, {0: 60}, unread_since={0: 10_000_000}, newest={0: 95_000_000})

    assert partitions([seen], Lag.OK)[0].seconds == 95 - 10


def test_lag_in_time_is_unknown_when_the_log_gave_no_record() -> None:
    assert partitions([sample({0: 50}, {0: 60})], Lag.OK)[0].seconds is None


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param([sample({0: 50}, {0: 60}, watermark=HOUR)], (Time.ADVANCING, None), id="input, one look"),
        pytest.param([sample({0: 50}, {0: 50}, age=61, watermark=HOUR)], (Time.NO_INPUT, None), id="quiet a minute"),
        pytest.param([sample({0: 50}, {0: 50}, age=5, watermark=HOUR)], (Time.ADVANCING, None), id="quiet a moment"),
        pytest.param(
            [sample({0: 50}, {0: 50}, watermark=HOUR, newest={0: HOUR - 1_000_001})],
            (Time.AHEAD_OF_CLOCK, None),
            id="beyond newest log time and max_ahead",
        ),
        pytest.param(
            [sample({0: 50}, {0: 50}, watermark=HOUR, newest={0: HOUR - 1_000_000})],
            (Time.ADVANCING, None),
            id="just not beyond",
        ),
        pytest.param(
            [
                sample({0: 50, 1: 50}, {0: 90, 1: 90}, watermark=HOUR, max_event={0: 9 * HOUR, 1: HOUR}),
                sample({0: 80, 1: 50}, {0: 90, 1: 90}, 5, watermark=HOUR, max_event={0: 9 * HOUR, 1: HOUR}),
            ],
            (Time.HELD_BY, 1),
            id="oldest partition holds",
        ),
        pytest.param(
            [sample({0: 50, 1: 0}, {0: 90, 1: 3}, records=50, max_event={0: HOUR})],
            (Time.HELD_BY, 1),
            id="unread and never read holds",
        ),
        pytest.param(
            [
                sample({0: 50, 1: 50}, {0: 90, 1: 90}, watermark=HOUR, max_event={0: 9 * HOUR, 1: HOUR}, idle=(1,)),
                sample({0: 80, 1: 50}, {0: 90, 1: 90}, 5, watermark=HOUR, max_event={0: 9, 1: 8}, idle=(1,)),
            ],
            (Time.HELD_BY, 0),
            id="idle partition does not hold",
        ),
    ],
)
def test_watermark_gets_one_word(samples: list[LagSample], expected: tuple[Time, int | None]) -> None:
    quiet = seconds_since(samples[-1].epoch.processing_time, samples[-1].at)
    assert judge_time(samples, LIMITS, quiet) == expected


def test_an_epoch_that_time_alone_committed_is_no_input() -> None:
    came, ticked, again = record(6, age=61), record(7, age=3, tick=True, records=0), record(8, age=2)

    assert status(facts(records=(came, ticked))).watermark_verdict == "NO_INPUT"
    assert status(facts(records=(came, ticked, again))).watermark_verdict == "ADVANCING"
