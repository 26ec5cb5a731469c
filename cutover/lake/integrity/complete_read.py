"""Account for every offset of a range that was read: by a record, a control record, an aborted one or a recorded loss.

If a range has as many records as offsets, nothing is missing. Fewer records prove nothing, since transactions take
offsets too: then the headers of the log's batches are read (`cutover.log.record_batches`), with the Kafka client of
Spark's JVM, since no client API exposes them. If the batches hold fewer records than offsets, log compaction may have
removed aborted records only, which no reader receives: an epoch that read the range counted its records, and if a
reader still gets all of them, none is lost (`lost_records.find_complete_epochs`).

Headers and epochs are read after the records. A log never regains lost records, so if the log is complete now, it was
complete when the records were read. Fetch requests are sent as the client itself sends them, with the same security
settings. The response contains whole batches; only the pieces with headers are copied to Python.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from cutover.definition.windows.window_fn import WindowFn
from cutover.errors import LogError
from cutover.lake.control import losses, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.tables import delta
from cutover.log import options, topic_partitions
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.log.record_batches import (
    MissingRecords,
    OffsetRange,
    RecordBatch,
    exclude_ranges,
    exclude_recorded,
    find_missing_records,
    format_missing,
    parse_headers,
)
from cutover.log.transient_errors import retry_transient
from cutover.pipeline_lake import PipelineLake
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


Offsets = Mapping[int, OffsetRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Log that a path reads, and the stream version for which it is read."""

    lake: PipelineLake
    version: Version
    client: LogClient
    log_id: LogId


def count_offsets(reads: Sequence[Offsets]) -> int:
    """Return the number of offsets in disjoint ranges."""
    return sum(end - start for offsets in reads for start, end in offsets.values())


def find_missing_ranges(
    session: "SparkSession", settings: Settings, client: LogClient, log: str, reads: Sequence[Offsets]
) -> tuple[MissingRecords, ...]:
    """Return the offsets of some ranges that hold neither a record nor a control record.

    Args:
        session: Spark session whose Kafka client reads the headers.
        settings: Connection of the log.
        client: Finds the leaders.
        log: Name of the log.
        reads: Disjoint ranges by partition.

    Raises:
        LogError: No broker answers, or the log no longer holds the start of a range.
    """
    with open_reader(session, settings, client, log) as reader:
        return tuple(
            gap
            for offsets in reads
            for partition, (start, end) in sorted(offsets.items())
            for gap in find_missing_records(partition, reader.read(partition, start, end), (start, end))
        )


def find_unexplained(session: "SparkSession", log: ReadLog, reads: Sequence[Offsets]) -> tuple[MissingRecords, ...]:
    """Return the offsets of some ranges that hold no record, unless a recorded loss or a complete epoch explains them.

    Args:
        session: Spark session whose Kafka client reads the headers.
        log: The log.
        reads: Disjoint ranges by partition.

    Raises:
        LakeError: The table of an epoch log, or the table of losses, cannot be read.
        LogError: No broker answers, or the log no longer holds the start of a range.
    """
    missing = find_missing_ranges(session, log.lake.settings, log.client, log.log_id.topic, reads)
    if missing:
        accepted = losses.list_up_to(log.lake.settings, log.version)
        missing = exclude_recorded(missing, losses.find_incomplete_ranges(accepted, log.log_id.topic_id))
    for records, window in _list_epochs(log) if missing else ():
        complete = lost_records.find_complete_epochs(log.client, records, missing, window)
        missing = exclude_ranges(missing, _collect_ranges(complete))
    return missing


def check_complete(
    session: "SparkSession", log: ReadLog, counts: Iterable[tuple[Sequence[Offsets], int | None]]
) -> None:
    """Raise if records of ranges that were read are missing from the log.

    Args:
        session: Spark session that read the records.
        log: The log.
        counts: For each read, its disjoint ranges by partition, and the number of records that the reader got. None:
            unknown.

    Raises:
        LakeError: As `find_unexplained`.
        LogError: Records are missing that no recorded loss names, or no broker answers.
    """
    for reads, records in counts:
        missing = () if records == count_offsets(reads) else find_unexplained(session, log, reads)
        if missing:
            raise lost_records.make_lost_error(log.lake.name, format_missing(log.log_id.topic, missing))


def _list_epochs(log: ReadLog) -> Iterator[tuple[list[EpochRecord], WindowFn | None]]:
    """Yield the epochs of each version that read this log under the current isolation, with its window if known.

    The version of `log` comes first. Versions of earlier definitions have read the same records.
    """
    pipeline, current = log.lake.pipeline, (log.version.result_fingerprint, log.version.number)
    registrations = versions.read_registrations(log.lake.settings, pipeline.name)
    places = {(row.fingerprint, row.number) for row in registrations if not row.deleted}
    for fingerprint, number in sorted(places, key=lambda place: (place != current, place[0] != current[0], place)):
        uri = log.lake.stream_uri(number, fingerprint=fingerprint)
        records = EpochLog(uri).records() if delta.exists(uri) else []
        source = (log.log_id.topic_id, pipeline.source.isolation)
        window = pipeline.window if fingerprint == current[0] else None
        yield [record for record in records if (record.topic_id, record.isolation) == source], window


def _collect_ranges(records: Iterable[EpochRecord]) -> dict[int, list[OffsetRange]]:
    """Return the offset ranges that epochs have read, by partition."""
    ranges: dict[int, list[OffsetRange]] = {}
    for record in records:
        for partition, end in record.end.items():
            ranges.setdefault(partition, []).append((record.start.get(partition, 0), end))
    return ranges
