from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cutover.batch.read import scan
from cutover.batch.recompute import recompute_windows
from cutover.errors import LogError
from cutover.lake.batch_runs import read_effective_runs
from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.records.parsing.limits import MIN_MICROS
from tests.integration.batch.lab import BASE, HOUR, PARTITIONS, Lab, hours
from tests.support.suite.until import until


def expire(lab: Lab, partition: int, first_kept: int) -> None:
    """Let the log forget what lies before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(lab.settings)})
    for future in admin.delete_records([TopicPartition(lab.topic, partition, first_kept)]).values():
        future.result()
    assert LogClient(lab.settings).earliest(lab.topic)[partition] == first_kept


def test_a_window_whose_records_have_expired_is_frozen(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5), (0, 3_700, "AA", 1))
    lab.commit_epoch(watermark=2 * HOUR)
    recompute_windows(lab.lake)
    expire(lab, 0, 1)
    lab.send((0, 20, "AA", 100), (0, 3_800, "AA", 100))
    lab.commit_epoch(watermark=2 * HOUR)

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    assert [(row.window_start, row.reason) for row in batch_run.incomplete] == [(BASE * 1_000_000, "expired")]
    assert hours(batch_run.computed) == [(1, 2)]
    assert lab.table(batch_run, "flights", "delay") == [(0, 1, 5), (1, 2, 101)]


def test_what_expired_before_anybody_scanned_it_leaves_older_windows_incomplete_for_good(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(5)), (1, 20, "AA", 9))
    expire(lab, 0, 2)
    lab.commit_epoch(watermark=5 * HOUR)

    first_batch_run = recompute_windows(lab.lake)
    second = recompute_windows(lab.lake)

    assert first_batch_run is not None
    assert second is not None
    # The first record left is of hour 2; a record of hour 3 may bear a log timestamp one hour older than its window.
    assert hours(first_batch_run.computed) == [(4, 5)]
    assert [(row.window_start, row.window_end, row.reason) for row in first_batch_run.incomplete] == [
        (MIN_MICROS, (BASE + 4 * HOUR) * 1_000_000, "expired")
    ]
    assert second.incomplete == first_batch_run.incomplete
    assert lab.table(second, "delay") == [(4, 4)]


def test_windows_newer_than_all_that_the_stream_read_of_what_expired_are_computed(lab: Lab) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(2)), (1, 20, "AA", 9))
    lab.commit_epoch(watermark=HOUR)
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(2, 5)))
    lab.commit_epoch(watermark=5 * HOUR)
    expire(lab, 0, 2)

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    # By log timestamps records of hour 3 may be gone; by event times the stream had read none newer than hour 1.
    assert hours(batch_run.computed) == [(2, 5)]
    assert [(row.window_start, row.window_end, row.reason) for row in batch_run.incomplete] == [
        (MIN_MICROS, (BASE + 2 * HOUR) * 1_000_000, "expired")
    ]
    assert lab.table(batch_run, "delay") == [(2, 2), (3, 3), (4, 4)]


@pytest.mark.quick
def test_a_cut_before_retention_is_refused(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=HOUR)
    lab.send((0, 20, "AA", 5))
    expire(lab, 0, 2)

    with pytest.raises(LogError, match=r"partition 0: expected offset >= 2, got 1(.|\n)*LogDataLost"):
        recompute_windows(lab.lake)

    assert read_effective_runs(lab.lake) == []


@pytest.mark.quick
def test_a_topic_made_again_is_refused(lab: Lab) -> None:
    lab.send((0, 10, "AA", 5))
    lab.commit_epoch(watermark=HOUR)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(lab.settings)})
    admin.delete_topics([lab.topic])[lab.topic].result()
    client = LogClient(lab.settings)
    until(lambda: lab.topic not in client.topics())
    client.create_topic(lab.topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
    lab.send((0, 10, "AA", 5))

    with pytest.raises(LogError, match=r"the topic was created again(.|\n)*TopicIdentityChanged"):
        recompute_windows(lab.lake)


@pytest.mark.quick
def test_records_that_leave_the_log_while_batch_reads_them_are_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.send(*((0, hour * HOUR + 10, "AA", hour) for hour in range(5)))
    lab.commit_epoch(watermark=5 * HOUR)
    read = scan.stage_scan

    def expire_and_read(*arguments: Any) -> None:
        expire(lab, 0, 2)
        read(*arguments)

    monkeypatch.setattr(scan, "stage_scan", expire_and_read)

    with pytest.raises(LogError, match="partition 0: expected offset 0, the log starts at 2") as refused:
        recompute_windows(lab.lake)

    assert refused.value.runbook == "LogDataLost"
    assert read_effective_runs(lab.lake) == []
