from collections.abc import Mapping
from dataclasses import replace

import pytest

from cutover.batch.plan import (
    find_complete_start,
    find_newest_lost,
    find_unrecorded_gaps,
    first_left,
    is_outdated,
    make_frozen_entry,
    make_lost_entry,
    parse_frozen_before,
    remaining_offsets,
)
from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic
from cutover.lake.batch_runs import BatchRun, Incomplete
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.records.parsing import limits
from tests.support.log.losses import LOSS as A_LOSS
from tests.unit.verify.epochs import epoch

HOUR = 3_600_000_000
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
    lateness=Lateness(max_ahead="0 seconds"),
)


def test_records_deleted_before_a_scan_are_lost_and_later_ones_remain() -> None:
    offsets, earliest = {0: (5, 9), 1: (0, 4), 2: (0, 3)}, {0: 7, 1: 0, 2: 3}

    assert first_left(offsets, earliest) == {0: 7, 2: 3}
    assert remaining_offsets(offsets, earliest) == {0: (7, 9), 1: (0, 4)}


@pytest.mark.parametrize(
    ("first_at_hour", "expected"),
    [
        ({0: 7, 1: 7, 2: 9, 3: 12}, 2),  # windows 0 and 1 begin no later than the first record left
        ({0: 8, 1: 8, 2: 9, 3: None}, 0),  # the first record left is older than window 0, and so is all that was lost
        ({0: 7, 1: 7, 2: 7, 3: 7}, None),
        ({0: 7, 1: 7, 2: 7, 3: None}, 3),  # nothing left is that new, so nothing lost was
    ],
)
def test_windows_are_complete_if_they_begin_after_the_oldest_remaining_record(
    first_at_hour: Mapping[int, int | None], expected: int | None
) -> None:
    start = find_complete_start(
        [h * HOUR for h in range(4)], {0: 7}, PIPELINE, lambda at: {0: first_at_hour[at // HOUR]}
    )

    assert start == (None if expected is None else expected * HOUR)


def test_log_lookup_starts_when_a_record_of_the_window_can_have_been_written() -> None:
    lookup_times: list[int] = []

    def lookup(at: int) -> dict[int, int | None]:
        lookup_times.append(at)
        return {0: None}

    ahead = replace(PIPELINE, lateness=Lateness(max_ahead="2 hours"))
    find_complete_start([5 * HOUR], {0: 7}, ahead, lookup)

    assert lookup_times == [3 * HOUR]


def read_up_to(*events: tuple[int, int | None], start: int = 0) -> list[EpochRecord]:
    """Return epochs of partition 0 that end at offsets, each with the newest event time so far."""
    ends = [start, *(end for end, _ in events)]
    return [
        epoch(n, start={0: ends[n]}, end={0: end}, max_event={} if newest is None else {0: newest})
        for n, (end, newest) in enumerate(events)
    ]


@pytest.mark.parametrize(
    ("records", "first_offset", "expected"),
    [
        (read_up_to((5, HOUR), (9, 3 * HOUR)), 5, HOUR),  # the epoch that ends at the first record left bounds the rest
        (read_up_to((5, HOUR), (9, 3 * HOUR)), 6, 3 * HOUR),
        (read_up_to((5, HOUR), (9, 3 * HOUR)), 12, 3 * HOUR),  # retention has deleted everything up to the cut
        (read_up_to((5, None), (9, HOUR)), 4, limits.MIN_MICROS),  # only malformed and future records are lost
        (read_up_to((5, HOUR), (9, HOUR), start=3), 5, None),  # the version began behind records that were lost
        (read_up_to((5, HOUR)), 7, None),  # no epoch has read that far
        ([], 5, None),
    ],
)
def test_event_times_read_by_the_stream_bound_the_lost_records(
    records: list[EpochRecord], first_offset: int, expected: int | None
) -> None:
    assert find_newest_lost(records, {0: (2, 9)}, {0: first_offset}) == expected


def test_the_newest_event_time_of_all_partitions_that_lost_records_counts() -> None:
    records = [
        epoch(0, start={0: 0, 1: 0, 2: 0}, end={0: 5, 1: 5, 2: 5}, max_event={0: HOUR, 1: 2 * HOUR, 2: 9 * HOUR})
    ]
    offsets = dict.fromkeys(range(3), (0, 5))

    assert find_newest_lost(records, offsets, {0: 3, 1: 3}) == 2 * HOUR
    assert find_newest_lost(records, offsets | {3: (0, 5)}, {0: 3, 3: 1}) is None


def test_entry_of_frozen_windows_round_trips_its_time() -> None:
    assert parse_frozen_before(make_frozen_entry(4 * HOUR, PIPELINE), PIPELINE) == 4 * HOUR


LOSS = replace(A_LOSS, pipeline="p", stream_version=1, epoch=7)
RUN = BatchRun(
    run_id="r",
    epoch=3,
    stream_version=0,
    topic="t",
    topic_id="A",
    cluster_id="C",
    cut={0: 40},
    scanned={0: (0, 40)},
    watermark=None,
    result_fingerprint="f",
    batch_fingerprint="same",
    isolation="read_committed",
    computed=(),
)


@pytest.mark.parametrize(
    ("scanned_to", "earliest", "unknown"),
    [(40, 60, False), (50, 60, False), (39, 60, True), (40, 61, True), (20, 61, True)],
    ids=["as recorded", "inside", "the stream read one more", "more has gone since", "both"],
)
def test_gap_that_was_recorded_expires_no_older_window(scanned_to: int, earliest: int, unknown: bool) -> None:
    offsets, other = {0: (scanned_to, 90)}, replace(LOSS, partition=1, first=0, next=99)

    assert find_unrecorded_gaps({0: earliest}, offsets, [other, LOSS]) == ({0: earliest} if unknown else {})


def test_recorded_losses_that_meet_cover_one_gap() -> None:
    later_loss = replace(LOSS, first=60, next=70)

    assert find_unrecorded_gaps({0: 70}, {0: (40, 90)}, [later_loss, LOSS]) == {}
    assert find_unrecorded_gaps({0: 70}, {0: (40, 90)}, [later_loss]) == {0: 70}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "anew", "next": None, "again": True}, True),
        ({"kind": "anew", "next": 60}, False),
        ({"kind": "anew", "next": 60, "again": True}, True),
        ({"next": None}, False),
        ({"kind": "anew", "again": True, "topic_id": "B"}, False),
        ({"kind": "anew", "again": True, "stream_version": 0}, False),
    ],
    ids=[
        "log given up",
        "same log, its beginning gone",
        "same log, written again",
        "gap",
        "another log",
        "run of the continued version",
    ],
)
def test_runs_over_an_abandoned_log_are_outdated(changes: dict[str, object], expected: bool) -> None:
    assert is_outdated(RUN, [replace(LOSS, **changes)]) is expected  # type: ignore[arg-type]


def test_the_entry_of_lost_windows_is_no_time_before_which_all_have_expired() -> None:
    entry = make_lost_entry((limits.MIN_MICROS, 4 * HOUR), PIPELINE)

    assert entry == Incomplete(window_start=limits.MIN_MICROS, window_end=4 * HOUR, reason="lost")
    assert parse_frozen_before(entry, PIPELINE) == limits.MIN_MICROS
