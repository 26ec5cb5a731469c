"""Windows with records that had gone before a version of the stream began."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pyarrow as pa
import pytest

from cutover.definition import Count, Fixed, Pipeline, Sessions, Topic
from cutover.lake.batch_runs import Range
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import BATCH_INDEX
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.preconditions import seal
from cutover.settings import Settings
from cutover.timestamps import to_micros

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = 60_000_000
FIXED = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="who string, at timestamp NOT NULL", event_time="at"),
    key=("who",),
    window=Fixed(minutes=10),
    measures={"clicks": Count()},
)
SESSIONS = replace(FIXED, window=Sessions(gap="5 minutes"))


def micros(minute: int) -> int:
    return to_micros(START) + minute * MINUTE


def find(
    lake: PipelineLake,
    *ranges: tuple[int, int, int],
    start: Mapping[int, int],
    run: str = "batch-1",
) -> tuple[Range, ...]:
    """Find unread windows of ranges `(first offset, first minute, end)` of partition 0 that a batch run indexed.

    Args:
        lake: Installation with the lake.
        ranges: Indexed ranges.
        start: Offsets at which the stream's first epoch starts.
        run: The batch run over the same log.
    """
    rows = [
        {
            "_kind": "range",
            "_run": "batch-1",
            "_epoch": 0,
            "_partition": 0,
            "_n": 1,
            "window_start": START + timedelta(minutes=begins),
            "window_end": START + timedelta(minutes=ends),
            "first_offset": offset,
            "last_offset": offset,
        }
        for offset, begins, ends in ranges
    ]
    index = delta.ensure(lake.batch_uri("batch_index"), BATCH_INDEX)
    commits.append(index, pa.Table.from_pylist(rows, schema=BATCH_INDEX))
    return tuple((range_start, end) for range_start, end in seal.find_unread_windows(lake, start, [Mock(run_id=run)]))


def test_a_span_of_rows_covers_sessions_up_to_a_gap_after_its_last_row(settings: Settings) -> None:
    found_ranges = find(PipelineLake(settings, SESSIONS), (0, 0, 10), start={0: 1})

    assert found_ranges == ((micros(0), micros(10 + 5) - 1),)


def test_stretches_whose_sessions_would_touch_are_one(settings: Settings) -> None:
    found_ranges = find(PipelineLake(settings, SESSIONS), (0, 0, 10), (1, 14, 20), (2, 26, 30), start={0: 3})

    assert found_ranges == ((micros(0), micros(20 + 5) - 1), (micros(26), micros(30 + 5) - 1))


def test_consecutive_windows_are_one_range(settings: Settings) -> None:
    found_ranges = find(PipelineLake(settings, FIXED), (0, 0, 10), (1, 10, 20), (2, 30, 40), start={0: 3})

    assert found_ranges == ((micros(0), micros(20)), (micros(30), micros(40)))


def test_consecutive_windows_after_a_gap_are_a_separate_range(settings: Settings) -> None:
    found_ranges = find(PipelineLake(settings, FIXED), (0, 20, 30), (1, 0, 10), (2, 30, 40), start={0: 3})

    assert found_ranges == ((micros(0), micros(10)), (micros(20), micros(40)))


@pytest.mark.parametrize(
    ("start", "run", "expected"),
    [
        pytest.param({0: 1}, "batch-1", 1, id="the second range was read"),
        pytest.param({0: 0}, "batch-1", 0, id="from the first offset on"),
        pytest.param({1: 5}, "batch-1", 0, id="another partition"),
        pytest.param({0: 9}, "batch-0", 0, id="a run over another log"),
    ],
)
def test_only_what_lies_before_the_first_offset_was_not_read(
    settings: Settings, start: Mapping[int, int], run: str, expected: int
) -> None:
    assert len(find(PipelineLake(settings, FIXED), (0, 0, 10), (1, 30, 40), start=start, run=run)) == expected


def test_without_an_index_nothing_is_known(settings: Settings) -> None:
    assert seal.find_unread_windows(PipelineLake(settings, FIXED), {0: 5}, []) == ()
