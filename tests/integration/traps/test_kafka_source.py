"""Behavior of Spark's Kafka source that the driver relies on or has to reject. An upgrade that changes it fails."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException

from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from tests.support.suite.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One topic of this test's own."""

    settings: Settings
    topic: str
    admin: AdminClient  # an answer is lost with the client that asked

    @property
    def client(self) -> LogClient:
        return LogClient(self.settings)

    @property
    def bootstrap(self) -> str:
        return str(self.settings.kafka.bootstrap_servers)

    def source(self, starting: Mapping[int, int]) -> dict[str, str]:
        """Return the options of the source, from exact offsets."""
        return {
            **options.make_spark_options(self.settings.kafka, self.bootstrap),
            "subscribe": self.topic,
            "startingOffsets": json.dumps({self.topic: {str(p): offset for p, offset in starting.items()}}),
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
            "kafka.metadata.max.age.ms": "500",
        }

    def create(self, partitions: int = 1) -> None:
        self.client.create_topic(self.topic, partitions=partitions, config={})

    def send(self, *values: str, partition: int = 0, transaction: bool | None = None) -> None:
        """Write records; in a transaction that is committed (True) or aborted (False), or in none."""
        extra = {} if transaction is None else {"transactional.id": self.topic}
        producer = Producer({"bootstrap.servers": self.bootstrap, **extra})
        if transaction is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for value in values:
            producer.produce(self.topic, value=value.encode(), partition=partition)
        assert producer.flush(30) == 0
        if transaction is not None:
            producer.commit_transaction() if transaction else producer.abort_transaction()

    def recreate(self) -> None:
        """Delete the topic and make it again under its name."""
        topic_id_before = self.client.topic_id(self.topic)
        self.admin.delete_topics([self.topic])[self.topic].result()
        until(lambda: self.topic not in self.client.topics())
        self.create()
        assert self.client.topic_id(self.topic) != topic_id_before


@dataclass(slots=True, kw_only=True)
class BatchCalls:
    """Calls of foreachBatch."""

    calls: list[list[str]] = field(default_factory=list)  # values of each call
    ends: list[dict[str, int]] = field(default_factory=list)  # what the checkpoint said during the call

    @property
    def values(self) -> list[str]:
        return [value for call in self.calls for value in call]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A query and what it has seen."""

    batch_calls: BatchCalls
    query: "StreamingQuery"


@pytest.fixture
def log(kafka_settings: Settings, topic_name: str) -> Log:
    admin = AdminClient({"bootstrap.servers": str(kafka_settings.kafka.bootstrap_servers)})
    return Log(settings=kafka_settings, topic=topic_name, admin=admin)


@contextmanager
def stream(spark: "SparkSession", log: Log, checkpoint: Path, starting: Mapping[int, int]) -> "Iterator[Running]":
    """Run a query from exact offsets for as long as the block lasts."""
    batch_calls = BatchCalls()

    def record_batch(batch: "DataFrame", number: int) -> None:
        noted = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()[-1]
        batch_calls.ends.append(json.loads(noted)[log.topic])
        batch_calls.calls.append([row["v"] for row in batch.selectExpr("CAST(value AS string) AS v").collect()])

    source = spark.readStream.format("kafka").options(**log.source(starting)).load()
    query = source.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(record_batch).start()
    try:
        yield Running(batch_calls=batch_calls, query=query)
    finally:
        query.stop()


def test_checkpoint_names_the_end_offsets_before_the_function_is_called(
    spark: "SparkSession", log: Log, tmp_path: Path
) -> None:
    log.create()
    log.send("a", "b")
    log.send("c", transaction=True)
    log.send("d", transaction=False)

    with stream(spark, log, tmp_path / "c", {0: 0}) as running:
        running.query.processAllAvailable()

    # Two plain records, one committed, one aborted, and a control record for each of the two transactions.
    assert (running.batch_calls.values, running.batch_calls.ends[-1]) == (["a", "b", "c"], {"0": 2 + 1 + 1 + 2})


def test_quiet_topic_is_called_once_with_nothing(spark: "SparkSession", log: Log, tmp_path: Path) -> None:
    log.create()

    with stream(spark, log, tmp_path / "c", {0: 0}) as running:
        until(lambda: running.batch_calls.calls)
        running.query.processAllAvailable()
        log.send("a")
        until(lambda: running.batch_calls.values)

    assert running.batch_calls.calls == [[], ["a"]]


def test_start_offsets_must_name_every_partition(spark: "SparkSession", log: Log, tmp_path: Path) -> None:
    log.create(partitions=2)

    with (
        stream(spark, log, tmp_path / "c", {0: 0}) as running,
        pytest.raises(StreamingQueryException, match="must specify all TopicPartitions"),
    ):
        running.query.processAllAvailable()


def test_partitions_that_appear_while_running_are_read_from_0(spark: "SparkSession", log: Log, tmp_path: Path) -> None:
    log.create()
    log.send("a")

    with stream(spark, log, tmp_path / "c", {0: 0}) as running:
        until(lambda: running.batch_calls.values)
        log.admin.create_partitions([NewPartitions(log.topic, 2)])[log.topic].result()
        log.send("b", partition=1)
        until(lambda: "b" in running.batch_calls.values)

    assert running.batch_calls.ends[-1] == {"0": 1, "1": 1}


def test_recreated_topic_with_a_longer_log_is_skipped_into_without_a_word(
    spark: "SparkSession", log: Log, tmp_path: Path
) -> None:
    log.create()
    log.send("a", "b")
    log.recreate()
    log.send("A", "B", "C")

    with stream(spark, log, tmp_path / "c", {0: 2}) as running:
        running.query.processAllAvailable()

    assert running.batch_calls.values == ["C"]


def test_recreated_topic_with_a_shorter_log_stops_the_query(spark: "SparkSession", log: Log, tmp_path: Path) -> None:
    log.create()
    log.send("a", "b")
    log.recreate()
    log.send("A")

    with stream(spark, log, tmp_path / "c", {0: 2}) as running, pytest.raises(StreamingQueryException):
        running.query.processAllAvailable()


def test_batch_read_between_pinned_offsets_is_exact(spark: "SparkSession", log: Log) -> None:
    log.create()
    log.send(*(str(i) for i in range(10)))
    ending = {"endingOffsets": json.dumps({log.topic: {"0": 7}})}

    rows = spark.read.format("kafka").options(**log.source({0: 3}), **ending).load()

    assert [row["offset"] for row in rows.select("offset").collect()] == [3, 4, 5, 6]
