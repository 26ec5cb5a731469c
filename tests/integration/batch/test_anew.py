"""Runs from scratch: they trust no earlier run, and yet no window disappears that they cannot compute."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cutover.batch.recompute import recompute_windows
from cutover.definition import Lateness, Sessions
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.serving import views
from cutover.lake.tables import delta
from cutover.pipeline_lake import BatchTable
from tests.integration.batch.lab import BASE, HOUR, Lab, hours
from tests.integration.batch.reading.test_retention import expire

ROWS = ((0, 10, "AA", 5), (1, 20, "UA", 7), (1, 3_700, "AA", 1), (0, 7_300, "AA", 2))


def test_a_table_that_somebody_changed_is_refused_until_a_run_begins_anew(lab: Lab) -> None:
    lab.send(*ROWS)
    lab.commit_epoch(watermark=7_200)
    first_batch_run = recompute_windows(lab.lake)
    DeltaTable(lab.lake.batch_uri()).update({"_n": "_n + 1"})
    lab.commit_epoch(watermark=10_800)

    with pytest.raises(LakeError, match=r"UPDATE by .*\n.*--anew` recomputes"):
        recompute_windows(lab.lake)
    second_batch_run = recompute_windows(lab.lake, anew=True)
    later_batch_run = recompute_windows(lab.lake)

    assert first_batch_run is not None
    assert second_batch_run is not None
    assert later_batch_run is not None
    assert (second_batch_run.anew, second_batch_run.scanned, hours(second_batch_run.computed)) == (
        True,
        {0: (0, 2), 1: (0, 2)},
        [(0, 3)],
    )
    expected = [(0, "AA", 1, 1), (0, "UA", 1, 1), (1, "AA", 1, 1), (2, "AA", 1, 1)]
    assert lab.table(second_batch_run, "carrier", "flights", "_n") == expected
    assert (later_batch_run.scanned, later_batch_run.computed, later_batch_run.batch_version) == (
        {},
        (),
        second_batch_run.batch_version,
    )


def serving_of(lab: Lab) -> list[tuple[int, str, str]]:
    """Return hour after BASE, side and state of each row that readers get."""
    with views.open_views(lab.lake) as connection:
        rows = connection.execute("SELECT window_start, _served_by, _state FROM serving ORDER BY ALL").fetchall()
    return [(round(start.timestamp() - BASE) // HOUR, by, state) for start, by, state in rows]


def test_windows_that_have_left_the_log_keep_what_was_served(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(6)), (1, 20, "AA", 9))
    lab.commit_epoch(watermark=5 * HOUR)
    first_batch_run = recompute_windows(lab.lake)
    expire(lab, 0, 2)

    second_batch_run = recompute_windows(lab.lake, anew=True)
    later_batch_run = recompute_windows(lab.lake)

    assert first_batch_run is not None
    assert second_batch_run is not None
    # The first record left is of hour 2; a record of hour 3 may have a log timestamp one hour older than its window.
    assert hours(second_batch_run.computed) == [(4, 5)]
    assert hours(second_batch_run.kept) == [(0, 5)]
    assert [entry.window_end for entry in second_batch_run.incomplete] == [(BASE + 4 * HOUR) * 1_000_000]
    expected = [(0, 2, 9), (1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 4)]
    assert lab.table(first_batch_run, "flights", "delay") == lab.table(second_batch_run, "flights", "delay") == expected
    assert lab.table(later_batch_run, "flights", "delay") == expected
    assert serving_of(lab) == [
        *((hour, "batch", "incomplete(expired)") for hour in range(4)),
        (4, "batch", "final"),
    ]


def test_run_over_a_log_that_holds_nothing_any_more_says_what_it_cannot_compute(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(3)), (1, 2 * HOUR + 20, "AA", 9))
    epoch = lab.commit_epoch(watermark=3 * HOUR)
    expire(lab, 0, 3)
    expire(lab, 1, 1)

    batch_run = recompute_windows(lab.lake, anew=True)

    assert batch_run is not None
    assert [(entry.window_end, entry.reason) for entry in batch_run.incomplete] == [
        ((BASE + 3 * HOUR) * 1_000_000, "expired")
    ]
    assert (dict(epoch.end), batch_run.scanned, batch_run.computed) == ({0: 3, 1: 1}, {}, ())
    assert batch_run.in_force is not None


def test_partition_that_holds_nothing_any_more_may_have_held_the_newest_windows(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(2)), (1, 4 * HOUR, "AA", 9))
    lab.commit_epoch(watermark=6 * HOUR)
    expire(lab, 1, 1)

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    assert [entry.window_end for entry in batch_run.incomplete] == [(BASE + 5 * HOUR) * 1_000_000]
    assert batch_run.computed == ()


def test_rows_that_stay_are_those_that_were_recorded_whatever_was_written_since(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(6)))
    lab.commit_epoch(watermark=6 * HOUR)
    first_batch_run = recompute_windows(lab.lake)
    DeltaTable(lab.lake.batch_uri()).update({"flights": "flights + 1"})
    expire(lab, 0, 3)

    second_batch_run = recompute_windows(lab.lake, anew=True)

    assert first_batch_run is not None
    assert (
        lab.table(second_batch_run, "flights")
        == lab.table(first_batch_run, "flights")
        == [(hour, 1) for hour in range(6)]
    )


def test_rows_that_cannot_be_trusted_do_not_stay_and_the_stream_serves_their_windows(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(6)))
    lab.commit_epoch(watermark=6 * HOUR)
    first_batch_run = recompute_windows(lab.lake)
    (file,) = delta.paths(delta.open_table(lab.lake.batch_uri()))
    (Path(lab.lake.batch_uri()) / file).unlink()
    expire(lab, 0, 3)

    second_batch_run = recompute_windows(lab.lake, anew=True)

    assert first_batch_run is not None
    assert second_batch_run is not None
    assert (second_batch_run.kept, hours(second_batch_run.computed)) == ((), [(5, 6)])
    assert lab.table(second_batch_run, "flights") == [(5, 1)]
    held_ranges = batch_runs.list_held_ranges(batch_runs.read_effective_runs(lab.lake))
    assert hours(held_ranges) == [(5, 6)]  # so the view serves the others from the stream


def test_windows_outside_of_a_range_stay_and_those_inside_that_are_left_out_are_named(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(8)))
    lab.commit_epoch(watermark=7 * HOUR)
    first_batch_run = recompute_windows(lab.lake)
    expire(lab, 0, 2)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (1, 8))

    part = recompute_windows(lab.lake, start=start, end=end)
    second_batch_run = recompute_windows(lab.lake, start=start, end=end - timedelta(hours=2), anew=True)

    assert first_batch_run is not None
    assert part is not None
    assert second_batch_run is not None
    assert hours(part.computed) == [(2, 7)]
    assert {reason: hours(ranges) for reason, ranges in part.left_out.items()} == {
        "expired": [(1, 2)],
        "open": [(7, 8)],
    }
    assert hours(second_batch_run.computed) == [(4, 6)]
    assert {reason: hours(ranges) for reason, ranges in second_batch_run.left_out.items()} == {"expired": [(1, 4)]}
    assert (
        lab.table(second_batch_run, "flights")
        == lab.table(first_batch_run, "flights")
        == [(hour, 1) for hour in range(7)]
    )


@pytest.mark.quick
def test_sessions_that_have_left_the_log_keep_their_rows(lab: Lab) -> None:
    lab.pipeline = replace(lab.pipeline, window=Sessions("10 minutes"), lateness=Lateness(max_ahead="1 hour"))
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(8)))
    lab.commit_epoch(watermark=8 * HOUR)
    first_batch_run = recompute_windows(lab.lake)
    expire(lab, 0, 3)

    second_batch_run = recompute_windows(lab.lake, anew=True)

    assert first_batch_run is not None
    assert second_batch_run is not None
    assert second_batch_run.incomplete != ()
    assert lab.table(second_batch_run, "flights", "delay") == lab.table(first_batch_run, "flights", "delay")
    assert [state for _, _, state in serving_of(lab)] == ["incomplete(expired)"] * 6 + ["final"] * 2


@pytest.mark.parametrize("name", ["batch_index", "batch_ledger"])
def test_files_beside_the_table_that_cannot_be_read_are_replaced(lab: Lab, name: BatchTable) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(4)))
    lab.send_raw(0, b"no JSON")
    lab.commit_epoch(watermark=4 * HOUR)
    first_batch_run = recompute_windows(lab.lake)
    uri = lab.lake.batch_uri(name)
    for file in delta.paths(delta.open_table(uri)):
        (Path(uri) / file).unlink()

    second_batch_run = recompute_windows(lab.lake, anew=True)
    later_batch_run = recompute_windows(lab.lake)

    assert first_batch_run is not None
    assert later_batch_run is not None
    assert (
        lab.table(second_batch_run, "flights")
        == lab.table(first_batch_run, "flights")
        == [(hour, 1) for hour in range(4)]
    )
    assert (later_batch_run.scanned, later_batch_run.computed) == ({}, ())
    assert [row["_class"] for row in lab.rows("batch_ledger")] == ["malformed"]
