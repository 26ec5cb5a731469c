"""Speed at which drivers read a log: replays of any size, streams that are live, and what epochs cannot show."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.read_speed import FEW, measure_read_speed
from cutover.log.cut import Mark
from tests.unit.cost.test_fold import epoch

SECOND = 1_000_000
DAY = 86_400
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def read(  # noqa: PLR0913 -- what an epoch records
    number: int,
    log: tuple[float, float],
    *,
    at: float,
    records: int,
    event: float | None = None,
    seconds: float = 10.0,
    unread: int = 0,
) -> EpochRecord:
    """Build an epoch that read records with log timestamps in a range, seconds since `BEGIN`, and ended at a time."""
    start = int(BEGIN.timestamp())
    return replace(
        epoch(number, None, records=records),
        oldest_log_time=int((start + log[0]) * SECOND),
        marks={0: (Mark(number, int((start + log[1]) * 1_000), ""),)},
        max_event={0: int((start + (log[1] if event is None else event)) * SECOND)},
        processing_time=(BEGIN + timedelta(seconds=at)).isoformat(),
        seconds=seconds,
        lag=unread,
    )


@pytest.mark.parametrize("sizes", [[1_470], [1_469, 1], [735, 735], [1, 1_469], [60] * 25])
def test_a_log_of_an_hour_read_in_seconds_is_a_replay(sizes: Sequence[int]) -> None:
    ends = [sum(sizes[: place + 1]) * 2.4 for place in range(len(sizes))]
    epochs = [
        read(n, (low, high), at=10_000 + 4 * n, records=size, seconds=4, unread=len(sizes) - 1 - n)
        for n, ((low, high), size) in enumerate(zip(pairwise([0, *ends]), sizes, strict=True))
    ]

    speed = measure_read_speed(epochs)

    assert speed.is_replay is True
    assert speed.speed is None or speed.speed >= ends[-1] / (4 * len(sizes)) * (1 - 1e-9)
    assert (speed.speed is None) == (len(sizes) == 1)


@given(st.integers(1, 3), st.integers(2, 9))
def test_a_day_per_run_is_a_replay_within_each_run(epochs_per_run: int, days: int) -> None:
    width = DAY / epochs_per_run
    epochs = [
        replace(
            read(
                day * epochs_per_run + part,
                (day * DAY + part * width, day * DAY + (part + 1) * width),
                at=(day + 1) * DAY + 60 + 10 * part,
                records=1_000,
                unread=epochs_per_run - 1 - part,
            ),
            run_id=f"d{day}",
        )
        for day in range(days)
        for part in range(epochs_per_run)
    ]

    speed = measure_read_speed(epochs)

    assert speed.is_replay is True
    assert speed.speed is None or speed.speed == pytest.approx(DAY / (10 * epochs_per_run))


@given(
    st.lists(st.tuples(st.integers(20, 60), st.integers(0, 50_000)), min_size=1, max_size=4),
    st.floats(5, 120),
    st.floats(0, 600),
)
def test_a_live_stream_is_no_replay_however_often_its_driver_restarts(
    runs: list[tuple[int, int]], trigger: float, delay: float
) -> None:
    """Drivers stop for some time while no record is produced, and each record is read within a trigger."""
    epochs, now = list[EpochRecord](), 0.0
    for run, (count, pause) in enumerate(runs):
        for _ in range(count):
            log = (now, now + trigger)
            now += trigger
            record = read(len(epochs), log, at=now, records=7, event=now - delay, seconds=trigger / 10)
            epochs.append(replace(record, run_id=f"d{run}"))
        now += pause

    speed = measure_read_speed(epochs)

    assert speed.is_replay is False
    assert speed.pace == pytest.approx(1, abs=1e-3)


@given(st.integers(2, 40), st.integers(1, 4), st.integers(1, 40), st.booleans())
def test_a_backlog_was_replayed_however_long_the_stream_is_live_afterwards(
    days: int, epochs_of_backlog: int, live_days: int, restarts: bool
) -> None:
    """More than a few records were read in seconds, from a log that grew to this size or that was loaded at once."""
    width = days / epochs_of_backlog
    epochs = [
        read(
            n,
            (n * width * DAY, (n + 1) * width * DAY),
            at=days * DAY + 10 * n + 10,
            records=round(1_440 * width),
            unread=epochs_of_backlog - 1 - n,
        )
        for n in range(epochs_of_backlog)
    ]
    for hour in range(days * 24, (days + live_days) * 24):
        record = read(len(epochs), (hour * 3_600, (hour + 1) * 3_600), at=(hour + 1) * 3_600 + 10, records=60)
        epochs.append(replace(record, run_id="live") if restarts else record)

    expected = days / (days + live_days) > FEW

    assert measure_read_speed(epochs).is_replay is expected
    loaded = [
        replace(record, oldest_log_time=None, marks={0: (Mark(0, int((BEGIN.timestamp() + days * DAY) * 1_000), ""),)})
        for record in epochs[:epochs_of_backlog]
    ]
    assert (measure_read_speed([*loaded, *epochs[epochs_of_backlog:]]).is_replay is False) == (not expected)


@given(st.integers(2, 9), st.integers(4, 48), st.integers(900, 7_200))
def test_a_source_that_appends_in_bursts_is_no_replay(epochs_of_burst: int, bursts: int, period: int) -> None:
    """Each burst contains the records of the time since the burst before, and log timestamps are event times."""
    part = period / epochs_of_burst
    epochs = [
        read(
            burst * epochs_of_burst + place,
            (burst * period + place * part, burst * period + (place + 1) * part),
            at=(burst + 1) * period + 4 * place + 4,
            records=100,
            seconds=4,
            unread=epochs_of_burst - 1 - place,
        )
        for burst in range(25 + bursts)
        for place in range(epochs_of_burst)
    ]

    assert measure_read_speed(epochs).is_replay is False


@cache
def list_live_epochs() -> Sequence[EpochRecord]:
    """Return the epochs of a day and a night, each read as it came."""
    return [read(n, (30 * n, 30 * n + 30), at=30 * n + 30, records=30, seconds=3) for n in range(2_880)]


@given(st.integers(1, 20), st.sampled_from([1, 20]))
def test_records_that_wait_while_a_driver_hangs_are_replayed(hours: int, epochs_afterwards: int) -> None:
    """The driver is live for a day and a night, hangs, and continues in the same run."""
    live = list_live_epochs()
    width = hours * 3_600 / epochs_afterwards
    hung = [
        read(
            len(live) + n,
            (DAY + n * width, DAY + (n + 1) * width),
            at=DAY + hours * 3_600 + 3 * n + 3,
            records=round(width),
            seconds=3,
            unread=epochs_afterwards - 1 - n,
        )
        for n in range(epochs_afterwards)
    ]

    assert measure_read_speed([*live, *hung]).is_replay is (hours / (24 + hours) > FEW)


@given(st.integers(20, 30), st.floats(1, 600))
def test_restarts_shorter_than_a_trigger_make_no_replay(runs: int, trigger: float) -> None:
    epochs = [
        replace(
            read(n, (trigger * n, trigger * (n + 1)), at=trigger * (n + 1) + 2, records=10, seconds=1),
            run_id=f"d{n // 3}",
        )
        for n in range(3 * runs)
    ]

    assert measure_read_speed(epochs).is_replay is False


@given(st.floats(2.5, 1_000))
def test_records_that_are_sent_faster_than_they_came_about_are_replayed(factor: float) -> None:
    """`cutover produce --speed` while the stream runs."""
    epochs = [read(n, (factor * n, factor * (n + 1)), at=n + 1, records=10, seconds=0.3) for n in range(200)]

    speed = measure_read_speed(epochs)

    assert speed.is_replay is True
    assert speed.speed == pytest.approx(factor, rel=0.1)


def test_one_wrong_clock_makes_no_replay() -> None:
    epochs = [read(n, (30 * n, 30 * n + 30), at=30 * n + 30, records=9, seconds=3) for n in range(200)]

    assert measure_read_speed([replace(epochs[0], oldest_log_time=0), *epochs[1:]]).is_replay is False


def test_a_load_that_one_epoch_read_shows_nothing() -> None:
    """Log timestamps are those of the load, and the event time of the first records is unknown."""
    load = read(0, (0, 2), at=60, records=2_000, event=-9 * DAY)

    for epochs in ([load], [load, read(1, (90, 92), at=130, records=3, event=-9 * DAY + 2)]):
        assert (measure_read_speed(epochs).is_replay, measure_read_speed(epochs).speed) == (None, None)


def test_a_load_that_several_epochs_read_is_a_replay_without_speed() -> None:
    epochs = [read(n, (0.1 * n, 0.1 * n + 0.1), at=60 + n, records=200, event=n * DAY, unread=4 - n) for n in range(5)]

    speed = measure_read_speed(epochs)

    assert (speed.is_replay, speed.speed) == (True, None)
    assert speed.pace is not None
    assert speed.pace > DAY


def test_epochs_of_another_topic_and_without_records_show_nothing() -> None:
    epochs = [read(n, (30 * n, 30 * n + 30), at=30 * n + 30, records=9, seconds=3) for n in range(9)]
    before = replace(read(0, (0, 9 * DAY), at=-60, records=9), topic_id="before")

    assert measure_read_speed([before, *epochs]) == measure_read_speed(epochs)
    assert measure_read_speed([]).is_replay is None
    assert measure_read_speed([epochs[1], epochs[0]]).is_replay is None


@pytest.mark.parametrize(
    ("log_days", "expected"),
    [
        pytest.param(314, 314, id="log timestamps go beyond event time"),
        pytest.param(40, 40, id="as fast as event time"),
        pytest.param(0, None, id="those of a load"),
        pytest.param(None, None, id="not recorded"),
    ],
)
def test_speed_of_a_replay_follows_from_log_timestamps(log_days: int | None, expected: int | None) -> None:
    epochs = [
        read(n, (n * (log_days or 0) * DAY,) * 2, at=n, records=10, event=n * 40 * DAY, seconds=0, unread=1 - n)
        for n in range(2)
    ]
    if log_days is None:
        epochs = [replace(record, marks={}, oldest_log_time=None) for record in epochs]

    speed = measure_read_speed(epochs)

    assert speed.is_replay is True
    assert speed.speed == (None if expected is None else expected * DAY)
