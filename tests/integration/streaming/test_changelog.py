"""The changelog of panes: what a reader of committed records rebuilds, whenever the driver died."""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from pyspark.sql import SparkSession

from cutover.definition import Accumulation, EachEpoch, Pipeline, Repeat, Sessions
from cutover.lake.serving import views
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.panes import rows
from tests.integration.streaming import rig
from tests.integration.streaming.rig import NOON, Event
from tests.support.drivers.fed import Fed, HandClock

EVENTS = [Event(id=i, minute=i, key="ab"[i % 2] if i % 5 else None, partition=i % 2) for i in range(24)]


def definition(topic: str) -> Pipeline:
    trigger, accumulation = Repeat(EachEpoch()), Accumulation.RETRACTING
    return replace(rig.pipeline(topic), trigger=trigger, accumulation=accumulation, changelog=f"{topic}-panes")


def make_fed_driver(spark: SparkSession, lake: PipelineLake) -> Fed:
    return Fed(spark, lake, HandClock())


def ends(number: int) -> dict[int, int]:
    return dict(Counter(event.partition for event in EVENTS[:number]))


def records(lake: PipelineLake) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Yield key and value of every committed record but those that say which epoch is whole."""
    consumer = Consumer(
        {
            "bootstrap.servers": lake.settings.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(str(lake.pipeline.changelog), 0, OFFSET_BEGINNING)])
    while (message := consumer.poll(30)) is not None:
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            break
        key, value = message.key(), message.value()
        if "window_start" in json.loads(key or b""):
            yield json.loads(key or b""), None if value is None else json.loads(value)
    consumer.close()


def rebuilt(lake: PipelineLake) -> dict[rig.Cell, tuple[int, int]]:
    """Return sum of ids and index of what stands, by window start and key."""
    values_by_cell: dict[rig.Cell, tuple[int, int]] = {}
    for key, value in records(lake):
        place = (round(datetime.fromisoformat(key["window_start"]).timestamp() * 1_000_000), key["k"])
        if value is None:
            del values_by_cell[place]
        else:
            values_by_cell[place] = (value["ids"], value["_index"])
    return values_by_cell


def standing(lake: PipelineLake) -> dict[rig.Cell, tuple[int, int]]:
    """Return the same by the table."""
    query = "SELECT epoch_us(window_start), k, _pane, ids::BIGINT, _index FROM panes ORDER BY _epoch, _order"
    values_by_cell: dict[rig.Cell, tuple[int, int]] = {}
    with views.open_views(lake) as connection:
        for start, key, kind, ids, index in connection.execute(query).fetchall():
            if kind == "retraction":
                del values_by_cell[start, key]
            else:
                values_by_cell[start, key] = (ids, index)
    return values_by_cell


def test_reader_of_committed_records_rebuilds_the_table(spark: SparkSession, quick: Settings, topic: str) -> None:
    pipeline = definition(topic)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake)

    for number in (5, 10, 24):
        driver.feed(ends(number))

    assert rebuilt(lake) == standing(lake)
    assert None in {key for _, key in rebuilt(lake)}


@pytest.mark.quick
def test_driver_that_dies_between_table_and_topic_neither_loses_nor_doubles_a_record(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline = definition(topic)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake)
    driver.feed(ends(5))

    driver.feed_and_die(ends(10), "epoch.committed")
    values_before = rebuilt(lake)
    driver = driver.anew()
    values_after = rebuilt(lake)
    driver.feed_and_die(ends(24), "epoch.committed")
    driver.anew().anew()

    assert values_before != values_after
    assert rebuilt(lake) == standing(lake)
    sent_counts = Counter((key["window_start"], key["k"], value and value["_index"]) for key, value in records(lake))
    assert set(sent_counts.values()) == {1}


def test_transaction_that_a_dead_driver_left_open_is_never_seen(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline = definition(topic)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake)
    driver.feed(ends(5))
    app_id = driver.stream.committer.version.app_id
    dead = Producer(
        {"bootstrap.servers": quick.kafka.bootstrap_servers, "transactional.id": f"cutover-{app_id}", "log_level": 0}
    )
    dead.init_transactions(30)
    dead.begin_transaction()
    key = {"window_start": "2026-03-01T12:00:00+00:00", "window_end": "2026-03-01T12:10:00+00:00", "k": "a"}
    dead.produce(str(pipeline.changelog), key=json.dumps(key), value=json.dumps({"ids": -1, "_index": 99}))
    dead.produce(str(pipeline.changelog), key="{}", value=json.dumps({"stream": app_id, "epoch": 99}), partition=0)
    dead.flush(30)

    driver = make_fed_driver(spark, lake)
    driver.feed(ends(10))

    assert rebuilt(lake) == standing(lake)
    assert rows.newest_epoch(LogClient(quick), str(pipeline.changelog), app_id) == 1


def test_changelog_that_is_asked_for_later_has_all_panes_of_the_table(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline = definition(topic)
    rig.send(quick, topic, EVENTS)
    driver = make_fed_driver(spark, PipelineLake(quick, replace(pipeline, changelog=None)))
    for number in (5, 10):
        driver.feed(ends(number))

    lake = PipelineLake(quick, pipeline)
    make_fed_driver(spark, lake)

    assert rebuilt(lake) == standing(lake)


def test_session_that_became_part_of_another_ends_as_a_record_without_a_value(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    window: Any = Sessions("3 minutes")
    pipeline = replace(definition(topic), window=window)
    rig.send(quick, topic, [Event(id=i, minute=minute) for i, minute in enumerate((0, 5, 2.5))])
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake)

    for number in (1, 2, 3):
        driver.feed({0: number, 1: 0})

    changes = [
        (key["window_start"][14:16], key["window_end"][14:16], value and value["ids"]) for key, value in records(lake)
    ]
    assert changes == [("00", "03", 0), ("05", "08", 1), ("00", "03", None), ("05", "08", None), ("00", "08", 3)]
    assert rebuilt(lake) == {(NOON, "a"): (3, 1)}
