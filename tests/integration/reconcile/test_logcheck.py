"""Late positions are read back from a real log: what the ledger says of a record must be true of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer

from cutover.definition import Pipeline
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from reconcile.result import Reconciliation, Verdict
from reconcile.run import reconcile
from tests.integration.reconcile.lake_of import PIPELINE, START, Lake, Sale, lake_of, write

SALES = (*(Sale(hour=h, amount=h) for h in range(4)), Sale(epoch=1, hour=2, amount=9, kind="late"))


def produced(settings: Settings, sales: Sequence[Sale]) -> tuple[Pipeline, Lake]:
    """Send the records, in the order of their offsets, and return a pipeline over their topic with its lake."""
    topic = f"sales-{uuid4().hex[:8]}"
    client = LogClient(settings)
    client.create_topic(topic, partitions=1, config={})
    producer = Producer({"bootstrap.servers": client.bootstrap})
    for place, sale in enumerate(sales):
        producer.produce(topic, json.dumps(_value(place, sale)).encode(), timestamp=_millis(sale))
    producer.flush(30)
    pipeline = replace(PIPELINE, source=replace(PIPELINE.source, name=topic))
    log, lake = client.describe(topic), lake_of(SALES, pipeline)
    same = {"topic": topic, "topic_id": log.topic_id, "cluster_id": log.cluster_id}
    epochs = tuple(replace(epoch, **same) for epoch in lake.epochs)  # type: ignore[arg-type]  # three texts
    return pipeline, replace(lake, epochs=epochs, run=replace(lake.run, **same))  # type: ignore[arg-type]  # the same


def _value(place: int, sale: Sale) -> dict[str, Any]:
    at = START + timedelta(hours=sale.hour, minutes=1)
    return {"id": place, "shop": sale.shop, "desk": sale.desk, "amount": sale.amount, "at": at.isoformat()}


def _millis(sale: Sale) -> int:
    return round((START + timedelta(hours=sale.hour, minutes=2)).timestamp() * 1000)


def judged(settings: Settings, sales: Sequence[Sale]) -> Reconciliation:
    pipeline, lake = produced(settings, sales)
    write(settings, lake, pipeline)
    return reconcile(settings, pipeline)


def test_a_late_record_that_belongs_to_its_window_is_borne_out(kafka_settings: Settings) -> None:
    result = judged(kafka_settings, SALES)

    assert result.verdict is Verdict.EXPLAINED
    assert "1 of 1 sampled late positions were read back from the log, 0 wrong." in result.notes


def test_a_position_with_a_record_of_another_window_explains_nothing(kafka_settings: Settings) -> None:
    result = judged(kafka_settings, (*SALES[:-1], replace(SALES[-1], hour=3)))

    assert (result.verdict, result.causes["unexplained"].rows) == (Verdict.DIVERGED, 1)


def test_a_log_that_was_made_again_is_not_asked(kafka_settings: Settings) -> None:
    pipeline, lake = produced(kafka_settings, SALES)
    older = tuple(replace(epoch, topic_id="older") for epoch in lake.epochs)
    write(kafka_settings, replace(lake, epochs=older, run=replace(lake.run, topic_id="older")), pipeline)

    result = reconcile(kafka_settings, pipeline)

    assert (result.verdict, any("another log by now" in note for note in result.notes)) == (Verdict.EXPLAINED, True)
