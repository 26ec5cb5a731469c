"""Records that compaction took from inside the log: batch publishes nothing as if what is left were all."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from cutover.batch.recompute import run
from cutover.clock import SystemClock
from cutover.errors import LogError
from cutover.lake.batch_runs import Incomplete, runs
from cutover.lake.control import control_tables, losses, versions
from tests.integration.batch.lab import BASE, HOUR, Lab
from tests.support.log import compacted
from tests.support.log.losses import LOSS


def micros(hour: int) -> int:
    return (BASE + hour * HOUR) * 1_000_000


def test_batch_over_records_that_are_gone_ends_and_goes_on_behind_a_recorded_loss(lab: Lab) -> None:
    compacted.roll_segments(lab.settings, lab.topic)
    for hour in range(4):
        lab.send((0, hour * HOUR + 10, "AA", 1), (0, hour * HOUR + 20, "AA", 2), (1, hour * HOUR + 30, "AA", 4))
    compacted.compact(lab.settings, lab.topic, least=6)
    compacted.keep_all(lab.settings, lab.topic)
    newest = lab.commit_epoch(watermark=6 * HOUR)

    for anew in (False, True):
        with pytest.raises(
            LogError, match=f"Topic {lab.topic}, partition 0: [0-9] of the offsets 0 to [0-9]"
        ) as refused:
            run(lab.settings, lab.pipeline, anew=anew)
        assert refused.value.runbook == "LogDataLost"
        assert "accept-loss" in refused.value.text
    assert runs(lab.settings, lab.pipeline) == []

    version = versions.current(lab.settings, lab.pipeline)
    assert version is not None
    inside = replace(
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
    rows = [replace(inside, partition=p, next=newest.end[p]) for p in (0, 1)]
    losses.record(lab.settings, rows, turn=control_tables.next_turn(lab.settings, "losses", lab.pipeline.name))

    done = run(lab.settings, lab.pipeline)

    assert done is not None
    assert done.incomplete == (Incomplete(window_start=micros(0), window_end=micros(3), reason="lost"),)
    assert lab.table(done, "delay") == [(3, 7)]


def test_compacted_topic_is_refused_before_it_has_lost_a_record(lab: Lab) -> None:
    lab.send((0, 10, "AA", 1))
    lab.commit_epoch(watermark=HOUR)
    compacted.begin(lab.settings, lab.topic)

    with pytest.raises(LogError, match="policy `delete`, got `compact`"):
        run(lab.settings, lab.pipeline)

    assert runs(lab.settings, lab.pipeline) == []


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
    first = run(lab.settings, lab.pipeline)
    assert lab.table(first, "delay") == [(0, 6), (1, 6), (2, 6), (3, 6)]

    assert compacted.remove_aborted(lab.settings, lab.topic)

    with pytest.raises(LogError, match=f"Topic {lab.topic}, partition 0: [0-9] of the offsets") as refused:
        run(lab.settings, lab.pipeline, anew=True)
    assert refused.value.runbook == "LogDataLost"

    lab.commit_epoch(watermark=6 * HOUR, records=24)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (0, 2))
    for done in (
        run(lab.settings, lab.pipeline, start=start, end=end),
        run(lab.settings, lab.pipeline, anew=True),
        run(lab.settings, lab.pipeline),
    ):
        assert lab.table(done, "delay") == [(0, 6), (1, 6), (2, 6), (3, 6)]
        assert done is not None
        assert done.incomplete == ()
