"""A topic in Avro on its whole way: registry, stream, batch, comparison; with schemas that change, and broken bytes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer

from cutover.batch import recompute
from cutover.definition import Count, Fixed, Lateness, Pipeline, Sum, Topic
from cutover.errors import LogError
from cutover.lake.batch_runs import read_effective_runs
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.run import run_reconciliation
from cutover.settings import RegistrySettings, Settings
from cutover.streaming import driver
from tests.integration.streaming.rig import NOON, epoch_log, fast, make_topic, query_rows
from tests.support.rows.avro_values import decimal_type, encode, wrap
from tests.support.servers.registry import Registry, running_registry

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "shop", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
SECOND: dict[str, Any] = {
    **FIRST,
    "fields": [
        *FIRST["fields"],
        {"name": "amount", "type": ["null", decimal_type(8, 2)], "default": None},
        {"name": "note", "type": "string", "default": ""},
    ],
}
OTHER = {"type": "record", "name": "Visit", "fields": [{"name": "id", "type": "string"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def lake(kafka_settings: Settings, topic_name: str, registry: Registry) -> PipelineLake:
    settings = fast(kafka_settings).model_copy(
        update={"registry": RegistrySettings(url=registry.url, timeout_seconds=1.0)}
    )
    make_topic(settings, topic_name)
    source = Topic(
        name=topic_name,
        schema="id bigint NOT NULL, shop string, amount decimal(12,2), at timestamp NOT NULL",
        event_time="at",
        parse="avro",
    )
    pipeline = Pipeline(
        name="orders",
        source=source,
        key=("shop",),
        window=Fixed(minutes=10),
        measures={"orders": Count(), "revenue": Sum("amount")},
        lateness=Lateness(out_of_orderness="5 minutes", allowed="0 seconds"),
    )
    return PipelineLake(settings, pipeline)


def send(lake: PipelineLake, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": lake.settings.kafka.bootstrap_servers})
    for value in values:
        producer.produce(lake.pipeline.source.name, value, timestamp=NOON // 1000)
    assert producer.flush(30) == 0


def order(number: int, schema: dict[str, Any], minute: int, **others: Any) -> bytes:
    row = {"id": minute, "shop": "a", "at": NOON // 1000 + minute * 60_000, "amount": None, "note": "", **others}
    named = {item["name"] for item in schema["fields"]}
    raw = json.loads(json.dumps(schema).replace('{"type": "long", "logicalType": "timestamp-millis"}', '"long"'))
    return encode(number, raw, {name: value for name, value in row.items() if name in named})


def list_reasons(lake: PipelineLake) -> dict[str, int]:
    positions = "SELECT unnest(_positions) AS p FROM rows WHERE _class = 'malformed'"
    query = f"SELECT p.reason, count(*) FROM ({positions}) GROUP BY ALL"  # noqa: S608 -- our own text
    return dict(query_rows(lake, query))


@pytest.mark.quick
def test_schemas_may_change_and_the_registry_may_fail(lake: PipelineLake, registry: Registry) -> None:
    first, second, other = registry.register(FIRST), registry.register(SECOND), registry.register_as("visits", OTHER)
    send(lake, [order(first, FIRST, minute) for minute in range(30)])
    driver.run_driver(lake, until="drain")
    send(lake, [order(second, SECOND, minute, amount=Decimal(f"{minute}.25")) for minute in range(20, 90)])
    good = order(second, SECOND, 60)
    send(lake, [None, b"", b'{"id": 1}', good[:-4], wrap(2_000_000, good[5:]), wrap(-7, b""), wrap(other, b"\2a")])
    driver.run_driver(lake, until="final")

    without = PipelineLake(
        lake.settings.model_copy(update={"registry": RegistrySettings(url="http://127.0.0.1:9", timeout_seconds=0.1)}),
        lake.pipeline,
    )
    recompute.recompute_windows(without)
    report = run_reconciliation(without)

    assert report.finding.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}
    assert report.finding.windows.compared > 5
    assert list_reasons(lake) == {"null_value": 1, "empty": 1, "avro": 2, "schema": 2, "type": 1}
    records = epoch_log(lake).records()
    digests: dict[str, str] = {}
    for record in records:
        digests |= record.schemas
    assert set(next(record.schemas for record in records if record.records)) == {str(first)}
    assert {str(first), str(second), str(other), "-7", "2000000"} == set(digests)
    assert read_effective_runs(lake)[-1].schemas == digests


def test_a_registry_that_is_down_makes_no_record_malformed(lake: PipelineLake, registry: Registry) -> None:
    number = registry.register(FIRST)
    send(lake, [order(number, FIRST, minute) for minute in range(5)])
    down = PipelineLake(
        lake.settings.model_copy(update={"registry": RegistrySettings(url="http://127.0.0.1:9", timeout_seconds=0.1)}),
        lake.pipeline,
    )

    with pytest.raises(LogError, match=r"Schema registry `http://127\.0\.0\.1:9`"):
        driver.run_driver(down, until="drain")
    driver.run_driver(lake, until="drain")

    assert list_reasons(lake) == {}
    assert sum(record.records for record in epoch_log(lake).records()) == 5


def test_a_replaced_schema_is_not_compared(lake: PipelineLake, registry: Registry) -> None:
    number = registry.register(SECOND)
    send(lake, [order(number, SECOND, minute, amount=Decimal("1.00")) for minute in range(0, 60, 5)])
    driver.run_driver(lake, until="final")
    other = json.loads(json.dumps(SECOND).replace('"scale": 2', '"scale": 1'))
    stored = lake.settings.home / "lake" / "_control" / "schemas" / f"{number}.json"
    stored.unlink()
    registered = registry.register_as("others", other)
    registry.schemas[number] = registry.schemas.get(registered, {})
    if not registry.schemas[number]:
        pytest.skip("a real registry never changes an answer")

    recompute.recompute_windows(lake)
    report = run_reconciliation(lake)

    assert report.finding.verdict is Verdict.NOT_COMPARABLE
    assert f"Schema {number} of the registry" in report.finding.sentence + str(report)


def test_records_with_ids_and_a_join_side_are_decoded(lake: PipelineLake, registry: Registry) -> None:
    number = registry.register(FIRST)
    source = replace(lake.pipeline.source, record_id="id")
    deduplicated = PipelineLake(lake.settings, replace(lake.pipeline, source=source))
    send(lake, [order(number, FIRST, minute) for minute in (*range(40), *range(10))])

    driver.run_driver(deduplicated, until="final")
    recompute.recompute_windows(deduplicated)

    assert run_reconciliation(deduplicated).finding.verdict is Verdict.CONSISTENT
