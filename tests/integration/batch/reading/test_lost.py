"""Windows that a recorded loss touches: frozen, named, and never replaced by a part of themselves."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.clock import SystemClock
from cutover.errors import LogError
from cutover.lake.batch_runs import Incomplete
from cutover.lake.control import losses, versions
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.kafka import LogClient
from cutover.records.parsing.limits import MIN_MICROS
from tests.integration.batch.lab import BASE, HOUR, PARTITIONS, Lab, hours
from tests.integration.batch.reading.test_retention import expire
from tests.integration.streaming.log.loss import recreate
from tests.support.log.losses import LOSS


def micros(hour: int) -> int:
    return (BASE + hour * HOUR) * 1_000_000


def record(lab: Lab, epoch_record: EpochRecord, **changes: object) -> None:
    """Record a loss of partition 0 behind an epoch, as the step does."""
    version = versions.find_current_version(lab.lake)
    assert version is not None
    loss = replace(
        LOSS,
        pipeline=lab.pipeline.name,
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
        epoch=epoch_record.epoch + 1,
        topic=lab.topic,
        topic_id=epoch_record.topic_id,
        first=epoch_record.end[0],
        next=None,
        onward_topic_id=epoch_record.topic_id,
        why="a drill",
        at=SystemClock().now(),
    )
    rows = [replace(loss, **changes)]  # type: ignore[arg-type]
    losses.record(lab.settings, rows, expected_sequence=losses.read_next_loss_sequence(lab.settings, lab.pipeline.name))


def test_touched_windows_are_frozen_and_all_others_are_computed(lab: Lab) -> None:
    lab.send((0, 10, "AA", 1), (1, 20, "AA", 2))
    epoch_record = lab.commit_epoch(watermark=HOUR)
    recompute_windows(lab.lake)
    lab.send((0, HOUR + 10, "AA", 4), (0, 3 * HOUR + 10, "AA", 8), (1, HOUR + 20, "AA", 16), (1, 40, "AA", 32))
    expire(lab, 0, 2)  # hour 1's record is deleted, unread; the other partition keeps one
    record(lab, epoch_record, next=2, windows_from=micros(1), windows_to=micros(3))
    lab.commit_epoch(watermark=5 * HOUR)

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    assert batch_run.incomplete[0] == Incomplete(window_start=micros(1), window_end=micros(3), reason="lost")
    assert hours(batch_run.computed) == [(3, 4)]
    # Hour 0 got a late record; what it holds in partition 0 has left the log, so it stays as it was.
    assert [(entry.window_start, entry.reason) for entry in batch_run.incomplete[1:]] == [(micros(0), "expired")]
    assert lab.table(batch_run, "delay") == [(0, 3), (3, 8)]


def test_touched_window_stays_frozen_when_it_is_asked_for(lab: Lab) -> None:
    lab.send((0, 10, "AA", 1), (1, HOUR + 20, "AA", 2))
    epoch_record = lab.commit_epoch(watermark=0)
    record(lab, epoch_record, next=epoch_record.end[0], windows_from=micros(1), windows_to=micros(2))
    lab.commit_epoch(watermark=5 * HOUR)
    start = datetime.fromtimestamp(BASE, UTC)

    batch_run = recompute_windows(lab.lake)
    second_batch_run = recompute_windows(lab.lake, start=start, end=start + timedelta(hours=4))

    assert lab.table(batch_run, "delay") == lab.table(second_batch_run, "delay") == [(0, 1)]


def test_log_made_again_feeds_only_windows_that_the_old_one_did_not(lab: Lab) -> None:
    lab.send((0, 10, "AA", 1), (0, HOUR + 10, "AA", 2))
    old = lab.commit_epoch(watermark=HOUR)
    first_batch_run = recompute_windows(lab.lake)
    recreate(lab.settings, lab.topic, PARTITIONS)
    lab.send((0, 20, "AA", 64), (0, HOUR + 20, "AA", 64), (0, 4 * HOUR, "AA", 4))
    new_id = LogClient(lab.settings).topic_id(lab.topic)
    changes = {"stream_version": 1, "epoch": 0, "kind": "anew", "again": True, "onward_topic_id": new_id}
    record(lab, old, windows_from=MIN_MICROS, windows_to=micros(2), **changes)
    sequence = versions.read_next_version_sequence(lab.lake)
    versions.register(lab.lake, SystemClock(), expected_sequence=sequence)
    lab.commit_epoch(watermark=6 * HOUR)

    batch_run = recompute_windows(lab.lake)

    assert first_batch_run is not None
    assert batch_run is not None
    assert lab.table(first_batch_run, "delay") == [(0, 1)]
    assert lab.table(batch_run, "delay") == [(0, 1), (4, 4)]
    assert (batch_run.topic_id, batch_run.scanned[0]) == (new_id, (0, 3))
    assert batch_run.incomplete == (Incomplete(window_start=MIN_MICROS, window_end=micros(2), reason="lost"),)


def test_log_made_again_without_a_recorded_loss_is_refused(lab: Lab) -> None:
    lab.send((0, 10, "AA", 1))
    lab.commit_epoch(watermark=HOUR)
    recompute_windows(lab.lake)
    recreate(lab.settings, lab.topic, PARTITIONS)
    lab.send((0, 10, "AA", 1))
    sequence = versions.read_next_version_sequence(lab.lake)
    versions.register(lab.lake, SystemClock(), expected_sequence=sequence)
    lab.commit_epoch(watermark=HOUR)

    with pytest.raises(LogError, match="accept-loss") as refused:
        recompute_windows(lab.lake)

    assert refused.value.runbook == "TopicIdentityChanged"
