"""Records that compaction removed from inside the log: batch never publishes the rest as if it were complete."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from confluent_kafka import Producer

from cutover.batch.recompute import recompute_windows
from cutover.clock import SystemClock
from cutover.definition import Count, Join, Pipeline, Topic
from cutover.definition.model.joins import RIGHT_PARTITION_BASE as RIGHT
from cutover.errors import LogError
from cutover.lake.batch_runs import Incomplete, read_effective_runs
from cutover.lake.control import losses, versions
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from tests.integration.batch.lab import BASE, HOUR, Lab, pipeline_of
from tests.support.log import compacted
from tests.support.log.losses import LOSS


def micros(hour: int) -> int:
    return (BASE + hour * HOUR) * 1_000_000


def test_batch_over_records_that_are_gone_ends_and_goes_on_behind_a_recorded_loss(lab: Lab) -> None:
    compacted.roll_segments(lab.settings, lab.topic)
    for hour in range(4):
        lab.send((0, hour * HOUR + 10, "AA", 1), (0, hour * HOUR + 20, "AA", 2), (1, hour * HOUR + 30, "AA", 4))
    compacted.compact(lab.settings, lab.topic, least=6)
    compacted.disable_compaction(lab.settings, lab.topic)
    newest = lab.commit_epoch(watermark=6 * HOUR)

    for anew in (False, True):
        with pytest.raises(
            LogError, match=f"Topic {lab.topic}, partition 0: [0-9] of the offsets 0 to [0-9]"
        ) as refused:
            recompute_windows(lab.lake, anew=anew)
        assert refused.value.runbook == "LogDataLost"
        assert "accept-loss" in refused.value.text
    assert read_effective_runs(lab.lake) == []

    version = versions.find_current_version(lab.lake)
    assert version is not None
    loss_inside = replace(
        LOSS,
        pipeline=lab.pipeline.name,
        result_fingerprint=version.result_fingerprint,
        stream_version=version.number,
        epoch=1,
        kind="inside",
        topic=lab.topic,
        topic_id=newest.topic_id,
        first=0,
        windows_from=micros(0),
        windows_to=micros(3),
        at=SystemClock().now(),
    )
    rows = [replace(loss_inside, partition=p, next=newest.end[p]) for p in (0, 1)]
    losses.record(lab.settings, rows, expected_sequence=losses.read_next_loss_sequence(lab.settings, lab.pipeline.name))

    batch_run = recompute_windows(lab.lake)

    assert batch_run is not None
    assert batch_run.incomplete == (Incomplete(window_start=micros(0), window_end=micros(3), reason="lost"),)
    assert lab.table(batch_run, "delay") == [(3, 7)]


def test_compacted_topic_is_refused_before_it_has_lost_a_record(lab: Lab) -> None:
    lab.send((0, 10, "AA", 1))
    lab.commit_epoch(watermark=HOUR)
    compacted.begin(lab.settings, lab.topic)

    with pytest.raises(LogError, match="policy `delete`, got `compact`"):
        recompute_windows(lab.lake)

    assert read_effective_runs(lab.lake) == []


def send_transactions(lab: Lab) -> None:
    """Send four hours: six records of each in a committed transaction, six more in an aborted one."""
    options = {"bootstrap.servers": lab.settings.kafka.bootstrap_servers, "transactional.id": lab.topic, "linger.ms": 1}
    producer = Producer(options)
    producer.init_transactions(30)
    for number in range(8):
        producer.begin_transaction()
        for seq in range(6):
            second = number // 2 * HOUR + seq
            event = {"seq": seq, "carrier": "AA", "delay": 1, "event_time": BASE + second}
            key, stamp = f"{number}-{seq}".encode(), (BASE + number * HOUR // 2 + seq) * 1000
            producer.produce(lab.topic, json.dumps(event).encode(), key, partition=seq % 2, timestamp=stamp)
        producer.flush(30)
        producer.abort_transaction(30) if number % 2 else producer.commit_transaction(30)


def test_aborted_records_that_compaction_removed_are_no_loss_where_an_epoch_counted_the_others(lab: Lab) -> None:
    compacted.roll_segments(lab.settings, lab.topic)
    send_transactions(lab)
    lab.commit_epoch(watermark=6 * HOUR, records=23)
    first_batch_run = recompute_windows(lab.lake)
    assert lab.table(first_batch_run, "delay") == [(0, 6), (1, 6), (2, 6), (3, 6)]
    source = replace(lab.pipeline.source, isolation="read_uncommitted")
    uncommitted = Lab(lab.settings, replace(lab.pipeline, name=f"{lab.topic}-all", source=source), lab.newest)
    uncommitted.commit_epoch(watermark=6 * HOUR, records=48)
    lake = PipelineLake(lab.settings, uncommitted.pipeline)
    assert uncommitted.table(recompute_windows(lake), "delay") == [(0, 12), (1, 12), (2, 12), (3, 12)]

    positions = compacted.remove_aborted(lab.settings, lab.topic)

    for anew in (False, True):
        with pytest.raises(LogError) as raised:
            recompute_windows(lake, anew=anew)
        assert raised.value.runbook == "LogDataLost"
        assert anew or f"Epoch 0 read 48 records, the log holds {48 - len(positions)} of them" in str(raised.value)
    assert len(read_effective_runs(lake)) == 1

    with pytest.raises(LogError, match=f"Topic {lab.topic}, partition 0: [0-9] of the offsets") as refused:
        recompute_windows(lab.lake, anew=True)
    assert refused.value.runbook == "LogDataLost"

    lab.commit_epoch(watermark=6 * HOUR, records=24)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (0, 2))
    for batch_run in (
        recompute_windows(lab.lake, start=start, end=end),
        recompute_windows(lab.lake, anew=True),
        recompute_windows(lab.lake),
    ):
        assert lab.table(batch_run, "delay") == [(0, 6), (1, 6), (2, 6), (3, 6)]
        assert batch_run is not None
        assert batch_run.incomplete == ()


def test_join_over_a_compacted_topic_ends_whichever_side_the_topic_is_on(lab: Lab) -> None:
    whole_topic = f"{lab.topic}-whole"
    LogClient(lab.settings).create_topic(whole_topic, partitions=1, config={"retention.ms": "-1"})
    compacted.roll_segments(lab.settings, lab.topic)
    for hour in range(4):
        lab.send((0, hour * HOUR + 10, "AA", 1), (1, hour * HOUR + 30, "AA", 4))
    compacted_source, whole_source = lab.pipeline.source, replace(lab.pipeline.source, name=whole_topic)
    Lab(lab.settings, replace(lab.pipeline, source=whole_source)).send(
        *((0, hour * HOUR + 20, "AA", 2) for hour in range(4))
    )
    both = [
        Lab(
            lab.settings, make_joined_pipeline(f"{lab.topic}-{left.name == whole_topic}", left, right), {0: 0, RIGHT: 0}
        )
        for left, right in ((compacted_source, whole_source), (whole_source, compacted_source))
    ]
    for joined_lab in both:
        joined_lab.commit_epoch(watermark=6 * HOUR, records=12)
        assert joined_lab.table(recompute_windows(PipelineLake(joined_lab.settings, joined_lab.pipeline)), "pairs") == [
            (hour, 2) for hour in range(4)
        ]

    compacted.compact(lab.settings, lab.topic, least=6)
    compacted.disable_compaction(lab.settings, lab.topic)

    for joined_lab, anew in product(both, (False, True)):
        with pytest.raises(LogError, match=f"opic {lab.topic}, partition 0: [0-9] of the offsets") as refused:
            recompute_windows(PipelineLake(joined_lab.settings, joined_lab.pipeline), anew=anew)
        assert refused.value.runbook == "LogDataLost"
        assert str(RIGHT) not in str(refused.value)
    assert [
        len(read_effective_runs(PipelineLake(joined_lab.settings, joined_lab.pipeline))) for joined_lab in both
    ] == [1, 1]


def make_joined_pipeline(name: str, left: Topic, right: Topic) -> Pipeline:
    join = Join(right=right, on={"carrier": "carrier"})
    return replace(pipeline_of(left.name), name=name, source=left, where=None, join=join, measures={"pairs": Count()})
