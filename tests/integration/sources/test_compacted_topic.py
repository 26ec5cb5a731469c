"""Compacted topics as tables: the latest value of each key at pinned end offsets, and topics that are no table."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from cutover.errors import DefinitionError, LakeError, LogError
from cutover.log.kafka import LogClient
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from cutover.sources import compacted_topic

Record = tuple[str | bytes | None, Any, int]
"""Key, value (None: deleted) and partition."""


@pytest.fixture
def address(kafka_settings: Settings, topic_name: str) -> str:
    config = {"cleanup.policy": "compact"}
    LogClient(kafka_settings).create_topic(topic_name, partitions=2, config=config)
    return f"kafka://{kafka_settings.kafka.bootstrap_servers}/{topic_name}"


def send(settings: Settings, topic: str, *records: Record) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for key, value, partition in records:
        text = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, text, key=key, partition=partition)
    assert producer.flush(30) == 0


def compare(left: str, right: str, settings: Settings, **options: Any) -> Report:
    return compare_tables(DiffRequest(expected=left, actual=right, key=("k",), **options), settings)


@pytest.mark.quick
def test_latest_values_are_compared_and_deleted_rows_are_gone(
    address: str, topic_name: str, kafka_settings: Settings, tmp_path: Any
) -> None:
    send(
        kafka_settings,
        topic_name,
        ("a", {"k": "a", "n": 1, "x": 0.1}, 0),
        ("b", {"k": "b", "n": 2}, 1),
        ("gone", {"k": "gone", "n": 9}, 1),
        ("a", {"k": "a", "n": 9007199254740993, "x": 2.5, "ok": True}, 0),
        ("moved", {"k": "moved", "n": 0}, 0),
        ("moved", None, 0),
        ("moved", {"k": "moved", "n": 3}, 1),
        ("gone", None, 1),
    )
    columns = {
        "k": ["a", "b", "moved"],
        "n": pa.array([9007199254740993, 2, 3], pa.int64()),
        "x": [2.5, None, None],
        "ok": [True, None, None],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")

    report = compare(str(tmp_path / "t.parquet"), address, kafka_settings, excluded=("_key",))

    assert report.finding.verdict is Verdict.CONSISTENT
    assert any("at end offsets 0: 4, 1: 4" in note for note in report.finding.notes)
    send(kafka_settings, topic_name, ("b", {"k": "b", "n": 7}, 1))
    changed = compare(address, str(tmp_path / "t.parquet"), kafka_settings, excluded=("_key",))
    assert (changed.finding.rows.changed, changed.finding.rows.missing) == (1, 0)


def test_records_that_arrive_meanwhile_are_not_read(
    address: str, topic_name: str, kafka_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka_settings, topic_name, ("a", {"k": 1}, 0))
    read_batches = LogClient.message_batches

    def read(*arguments: Any) -> Any:
        send(kafka_settings, topic_name, ("a", {"k": 2}, 0), ("b", {"k": 3}, 1))
        return read_batches(*arguments)

    monkeypatch.setattr(LogClient, "message_batches", read)
    copy = compare(address, address, kafka_settings)

    assert copy.finding.rows.changed + copy.finding.rows.missing + copy.finding.rows.extra > 0  # of the second read
    assert "at end offsets 0: 1, 1: 0" in " ".join(copy.finding.notes)


def test_topics_that_are_no_table_are_rejected(kafka_settings: Settings, topic_name: str) -> None:
    client, server = LogClient(kafka_settings), f"kafka://{kafka_settings.kafka.bootstrap_servers}"
    for number, policy in enumerate(("delete", "compact,delete")):
        name = f"{topic_name}-{number}"
        client.create_topic(name, partitions=1, config={"cleanup.policy": policy})
        with pytest.raises(LakeError, match=rf"expected a topic with `cleanup\.policy=compact`, got `{policy}`"):
            compare(f"{server}/{name}", f"{server}/{name}", kafka_settings)
    with pytest.raises(LogError, match="nowhere"):
        compare(f"{server}/nowhere", f"{server}/nowhere", kafka_settings)
    for wrong in (f"{server}/", "kafka://user:pw@127.0.0.1:1/t", f"{server}/t#u"):
        with pytest.raises(DefinitionError, match=r"expected `kafka://broker:9092/topic`") as raised:
            compare(wrong, wrong, kafka_settings)
        assert "pw" not in str(raised.value)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([("a", {"k": 1}, 0), (b"", {"k": 2}, 1), ("a", {"k": 3}, 1)], "partition 0, offset 0: expected a key in one"),
        ([("a", {"k": 1}, 1), ("b", b"5", 1)], "partition 1, offset 1: expected a JSON object, got a number"),
        ([("a", b"\xff", 0)], "offset 0: expected a JSON object, got bytes that are not UTF-8"),
        ([("a", {"_key": 1}, 0)], "expected no field `_key`"),
    ],
)
def test_records_that_are_no_rows_are_named(
    records: list[Record], message: str, address: str, topic_name: str, kafka_settings: Settings
) -> None:
    send(kafka_settings, topic_name, *records)

    with pytest.raises(LakeError, match=message):
        compare(address, address, kafka_settings)


def test_a_record_without_a_key_is_rejected(kafka_settings: Settings, topic_name: str) -> None:
    client = LogClient(kafka_settings)
    client.create_topic(topic_name, partitions=1, config={"cleanup.policy": "delete"})
    send(kafka_settings, topic_name, ("a", {"k": 1}, 0), (None, {"k": 2}, 0))
    address = f"kafka://{kafka_settings.kafka.bootstrap_servers}/{topic_name}"

    with pytest.MonkeyPatch.context() as patch:  # a broker rejects such records once a topic is compacted
        patch.setattr(compacted_topic, "_check_compacted", lambda *_: None)
        with pytest.raises(LakeError, match="partition 0, offset 1: expected a key, got none"):
            compare(address, address, kafka_settings)
