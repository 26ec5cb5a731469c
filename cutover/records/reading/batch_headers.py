"""Headers of record batches, read with the Kafka client of Spark's JVM, since no client API exposes them.

Fetch requests are sent as the client itself sends them, with the same security settings. The response contains whole
batches; only the pieces with headers are copied to Python.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from cutover.errors import LogError
from cutover.log import options, topic_partitions
from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.log.record_batches import RecordBatch, parse_headers
from cutover.log.transient_errors import retry_transient
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FETCH_VERSION = 12  # the newest one that names topics, not their ids
_FETCH_BYTES = 4 * 1_048_576
_PIECE_BYTES = 4_096
_RECEIVE_BYTES = 1_048_576
_RECONNECT_MS = 50
_WAIT_MS = 10
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class BatchHeaderReader:
    """Reader of the batch headers of one log; it keeps a connection to each leader until it is closed."""

    def __init__(self, session: "SparkSession", settings: Settings, client: LogClient, log: str) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 -- no public API gives access to the JVM's classes
        self._jvm, self._kafka = jvm, jvm.org.apache.kafka
        self._client, self._log = client, log
        self._consumer = client.consumer()  # for metadata: the leader of each partition
        self._timeout_ms = int(client.timeout * 1000)
        self._clock = self._kafka.common.utils.Time.SYSTEM
        self._network = self._connect(settings)

    def read(self, partition: int, start: int, end: int) -> Iterator[RecordBatch]:
        """Yield the batches of `[start, end)` of one partition, ascending; the first one may start before `start`.

        Raises:
            LogError: No broker responds, or `start` is no longer in the log.
        """
        while start < end:
            batches = self._fetch(partition, start)
            ahead = [batch for batch in batches if batch.next_offset > start]
            if not ahead:
                return
            yield from ahead
            start = ahead[-1].next_offset

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        self._network.close()

    def _connect(self, settings: Settings) -> Any:
        """Return a network client with the settings of Spark's consumers."""
        spark_options = options.make_spark_options(settings.kafka, bootstrap_servers(settings))
        properties = self._jvm.java.util.HashMap()
        for key, value in spark_options.items():
            properties.put(key.removeprefix("kafka."), value)
        for key in ("key.deserializer", "value.deserializer"):
            properties.put(key, _DESERIALIZER)
        clients, common = self._kafka.clients, self._kafka.common
        config, context = clients.consumer.ConsumerConfig(properties), common.utils.LogContext("")
        channels = clients.ClientUtils.createChannelBuilder(config, self._clock, context)
        selector = common.network.Selector(
            self._timeout_ms, common.metrics.Metrics(), self._clock, "cutover", channels, context
        )
        return clients.NetworkClient(
            selector,
            clients.ManualMetadataUpdater(),
            "cutover",
            1,
            _RECONNECT_MS,
            _RECONNECT_MS,
            -1,
            _RECEIVE_BYTES,
            self._timeout_ms,
            self._timeout_ms,
            self._timeout_ms,
            self._clock,
            True,  # noqa: FBT003 -- of a Java constructor: discover the API versions of the broker
            clients.ApiVersions(),
            context,
            clients.MetadataRecoveryStrategy.NONE,
        )

    def _fetch(self, partition: int, offset: int) -> list[RecordBatch]:
        """Fetch batches, starting with the one that contains an offset; empty at the end of the log."""
        try:
            return retry_transient(lambda: self._fetch_once(partition, offset), seconds=self._client.timeout)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE:
                raise self._make_gone_error(partition, offset) from error
            raise self._client.make_unreachable_error(error) from error

    def _fetch_once(self, partition: int, offset: int) -> list[RecordBatch]:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # noqa: PLC0415 -- comes with Spark

        node = self._find_leader(partition)
        try:
            response = self._send(node, partition, offset)
        except Py4JJavaError as error:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT)) from error  # noqa: SLF001 -- its only name
        if response.errorCode():
            raise KafkaException(KafkaError(int(response.errorCode())))
        return self._parse(response.records())

    def _find_leader(self, partition: int) -> Any:
        """Return the node of the broker that is currently the leader of a partition."""
        place = topic_partitions.make_topic_partition(self._log, partition)
        topics = self._consumer.list_topics(place.topic, timeout=self._client.timeout)
        metadata = topics.topics[place.topic].partitions.get(place.partition)
        broker = None if metadata is None else topics.brokers.get(metadata.leader)
        if broker is None:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return self._kafka.common.Node(int(broker.id), str(broker.host), int(broker.port))

    def _send(self, node: Any, partition: int, offset: int) -> Any:
        """Send one fetch request and return the partition's part of the response."""
        place, jvm, clients = (
            topic_partitions.make_topic_partition(self._log, partition),
            self._jvm,
            self._kafka.clients,
        )
        topic_partition = self._kafka.common.TopicPartition(place.topic, place.partition)
        requests = self._kafka.common.requests
        partition_data = getattr(requests, "FetchRequest$PartitionData")(
            self._kafka.common.Uuid.ZERO_UUID, offset, -1, _FETCH_BYTES, jvm.java.util.Optional.empty()
        )
        partitions_to_fetch = jvm.java.util.LinkedHashMap()
        partitions_to_fetch.put(topic_partition, partition_data)
        builder = getattr(requests, "FetchRequest$Builder").forConsumer(
            _FETCH_VERSION, _WAIT_MS, 1, partitions_to_fetch
        )
        if not clients.NetworkClientUtils.awaitReady(self._network, node, self._clock, self._timeout_ms):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 -- its only name
        request = self._network.newClientRequest(node.idString(), builder, self._clock.milliseconds(), True)  # noqa: FBT003 -- of a Java method: expect a response
        response = clients.NetworkClientUtils.sendAndReceive(self._network, request, self._clock)
        return response.responseBody().responseData(jvm.java.util.HashMap(), _FETCH_VERSION).get(topic_partition)

    def _parse(self, records: Any) -> list[RecordBatch]:
        """Parse the batch headers of a response; a truncated last batch is ignored if its header is incomplete."""
        buffer, size, position = records.buffer(), int(records.sizeInBytes()), 0
        batches: list[RecordBatch] = []
        while position < size:
            piece = self._kafka.common.utils.Utils.toArray(buffer, position, min(_PIECE_BYTES, size - position))
            parsed, next_position = parse_headers(bytes(piece), position)
            if next_position == position:
                break
            batches, position = batches + parsed, next_position
        return batches

    def _make_gone_error(self, partition: int, offset: int) -> LogError:
        partition_name = topic_partitions.format_partition(self._log, partition)
        earliest = self._client.earliest(self._log).get(partition)
        msg = (
            f"Log, {partition_name}: expected offset {offset}, the log starts at {earliest}: "
            "earlier records were deleted while they were read."
        )
        return LogError(msg, runbook="LogDataLost")


@contextmanager
def open_reader(
    session: "SparkSession", settings: Settings, client: LogClient, log: str
) -> Iterator[BatchHeaderReader]:
    """Open a reader and close it at the end of the `with` block."""
    reader = BatchHeaderReader(session, settings, client, log)
    try:
        yield reader
    finally:
        reader.close()
