"""Client of the log: identity, offsets, settings and records, read by position without a consumer group."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from cutover.clock import poll_until
from cutover.errors import DefinitionError, LogError
from cutover.log import options
from cutover.log.cut import LogEnd, LogId
from cutover.log.reachability import Obstacle, find_obstacle, make_obstacle_error, parse_addresses
from cutover.log.topic_partitions import (
    SEPARATOR,
    get_offset,
    make_topic_partition,
    number_message_partition,
    number_partition,
    number_topic_partition,
    split_topics,
)
from cutover.log.transient_errors import (
    REFUSALS,
    is_disconnect,
    is_no_response,
    make_no_response_error,
    make_unknown_error,
    retry_transient,
)
from cutover.settings import Settings

Result = TypeVar("Result")
Ranges = Mapping[int, tuple[int, int]]  # partition -> offsets [start, end)

DEFAULT_REPLICATION = -1
"""Value by which a topic gets the cluster's default number of replicas."""

POSITION_WAIT_MS = 5
"""`fetch.wait.max.ms`: how long the broker holds a request at the log's end. With librdkafka's default of 500 ms each
of twenty positions of a short log took half a second, since the broker handles requests in order."""

FETCH_BYTES = 1_048_576
"""`fetch.message.max.bytes`: librdkafka's default."""

_AT_END = frozenset({KafkaError._PARTITION_EOF})  # noqa: SLF001 -- its only name
_MAX_MESSAGES, _CONSUME_SECONDS = 20_000, 0.02  # messages per `consume` call, and its timeout
_REACH_SECONDS, _REACH_INTERVAL = 2.5, 0.2  # how long a refused connection is retried before the first request
_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET})  # noqa: SLF001 -- its only name


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """Record of the log, not parsed."""

    partition: int
    offset: int
    log_time_micros: int
    value: bytes | None


class LogClient:
    """Client of a log: one topic, or both topics of a join. Calls return or fail within `kafka.timeout_seconds`."""

    def __init__(self, settings: Settings) -> None:
        self.bootstrap = options.bootstrap_servers(settings)
        parse_addresses(self.bootstrap)
        self.timeout = settings.kafka.timeout_seconds
        self._protocol = settings.kafka.protocol
        self.disconnects = 0  # after a reconnect the broker, or its log, may be another one
        self._options = options.make_librdkafka_options(settings.kafka, self.bootstrap)
        self._options["log_level"] = "0"  # failures are raised; librdkafka's log would repeat them
        self._refused: KafkaError | None = None  # authentication or authorization error; later requests time out
        try:
            AdminClient(self._options | {"bootstrap.servers": ""})  # checks the values, without a connection
        except KafkaException as error:
            msg = f"Settings, `kafka`: expected values that the client accepts, got: {error.args[0].str()}."
            raise DefinitionError(msg) from None

    @cached_property
    def _admin(self) -> AdminClient:
        """Client of the cluster, connected after the check of its addresses: a server may serve one connection only."""
        self._check_reachable()
        callbacks: dict[str, Any] = {"error_cb": self._note_error}  # the client's type hints omit callbacks
        return AdminClient(self._options | callbacks)

    def topics(self) -> tuple[str, ...]:
        """List the names of all topics except internal ones.

        Raises:
            LogError: No broker responds.
        """
        return tuple(sorted(name for name in self._metadata() if not name.startswith("__")))

    def describe(self, topic: str) -> LogId:
        """Return the identity of the log: cluster id, name and topic id; a recreated topic is another log.

        Raises:
            LogError: No broker responds, or the topic does not exist.
        """
        cluster = self._request(lambda: self._admin.describe_cluster(request_timeout=self.timeout).result())
        return LogId(cluster_id=str(cluster.cluster_id), topic=topic, topic_id=self.topic_id(topic))

    def topic_id(self, topic: str) -> str:
        """Return only the topic id, in one request.

        Raises:
            LogError: No broker responds, or the topic does not exist.
        """
        descriptions = self._describe_topics(topic)
        unknown = [name for name, description in descriptions.items() if description is None]
        if unknown:
            raise make_unknown_error(unknown, ())
        return SEPARATOR.join(str(descriptions[name].topic_id) for name in split_topics(topic))

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Request the current partition numbers, ascending.

        Raises:
            LogError: No broker responds, or the topic does not exist.
        """
        descriptions = self._describe_topics(topic)
        unknown = [name for name, description in descriptions.items() if description is None]
        if unknown:
            raise make_unknown_error(unknown, self.topics())
        return tuple(
            number_partition(i, p)
            for i, name in enumerate(split_topics(topic))
            for p in sorted(partition.id for partition in descriptions[name].partitions)
        )

    def earliest(self, topic: str) -> dict[int, int]:
        """Return the earliest available offset of each partition."""
        return self._offsets(topic, OffsetSpec.earliest(), committed=True)

    def latest(self, topic: str, isolation: str = "read_committed") -> dict[int, int]:
        """Return the end offset of each partition for a reader: the last stable offset, unless it reads uncommitted."""
        return self._offsets(topic, OffsetSpec.latest(), committed=isolation == "read_committed")

    def high_watermarks(self, topic: str) -> dict[int, int]:
        """Return the high watermark of each partition, which includes open transactions."""
        return {p: end.offset for p, end in self.log_ends(topic).items()}

    def log_ends(self, topic: str) -> dict[int, LogEnd]:
        """Return the high watermark and the leader epoch of each partition."""
        offsets = self._list_offsets(topic, OffsetSpec.latest(), committed=False)
        self._admin.poll(0)  # runs `_note_error`
        return {p: LogEnd(offset=int(i.offset), leader_epoch=i.leader_epoch or 0) for p, i in offsets.items()}

    def newest_times(self, topic: str) -> dict[int, int]:
        """Return the latest log timestamp of each partition that has a record, in microseconds."""
        offsets = self._list_offsets(topic, OffsetSpec.max_timestamp(), committed=False)
        return {p: int(info.timestamp) * 1000 for p, info in offsets.items() if info.offset >= 0}

    def offsets_for_time(self, topic: str, micros: int) -> dict[int, int | None]:
        """Return the first offset of each partition whose log timestamp is at or after a time; None if there is none.

        Exact for unordered timestamps, too. Times before 1970 become 1970, since negative timestamps are special.
        """
        expected = [make_topic_partition(topic, p, max(0, micros // 1000)) for p in self.partitions(topic)]
        consumer = self.consumer()
        try:
            positions = self._request(lambda: consumer.offsets_for_times(expected, timeout=self.timeout))
        finally:
            consumer.close()
        failed = next((tp.error for tp in positions if tp.error is not None), None)
        if failed is not None:
            raise self.make_unreachable_error(KafkaException(failed))
        return {number_topic_partition(topic, tp): None if tp.offset == OFFSET_END else tp.offset for tp in positions}

    def create_topic(self, topic: str, *, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic, and wait until it is visible.

        Raises:
            LogError: The topic exists, or the cluster rejects the request.
        """
        new = NewTopic(topic, num_partitions=partitions, replication_factor=DEFAULT_REPLICATION, config=dict(config))
        self._request(self._admin.create_topics([new], request_timeout=self.timeout)[topic].result)
        # The controller has created it; the broker of the next request may not know it yet.
        is_unknown, deadline = retry_if_exception_type(LogError), stop_after_delay(self.timeout)
        Retrying(stop=deadline, wait=wait_fixed(0.05), retry=is_unknown, reraise=True)(self.topic_id, topic)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and wait until it is no longer visible, for at most `timeout`, since it may be recreated.

        Raises:
            LogError: The cluster rejects the request, or the topic does not exist.
        """
        self._request(self._admin.delete_topics([topic], request_timeout=self.timeout)[topic].result)
        poll_until(lambda: self._describe_topics(topic)[topic] is None or None, timeout=self.timeout, interval=0.05)

    def config(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic by their names in Kafka."""
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def describe_configs() -> dict[str, ConfigEntry]:
            return dict(self._admin.describe_configs([resource], request_timeout=self.timeout)[resource].result())

        return {name: str(entry.value) for name, entry in self._request(describe_configs).items()}

    def read(self, topic: str, positions: Mapping[int, Sequence[int]]) -> Iterator[RawRecord]:
        """Yield the records at single positions, by partition and offset; positions without a record are skipped.

        Raises:
            LogError: No broker responds.
        """
        consumer = self.consumer()
        try:
            for partition, offsets in sorted(positions.items()):
                for offset in sorted(offsets):
                    record = self._read_one(consumer, topic, make_topic_partition(topic, partition, offset))
                    if record is not None:
                        yield record
        finally:
            consumer.close()

    def read_range(self, topic: str, partition: int, start: int, end: int) -> Iterator[RawRecord]:
        """Yield the committed records of `[start, end)` of one partition, without aborted and control records.

        Raises:
            LogError: No broker responds, or `start` is no longer in the log.
        """
        consumer = self.consumer()
        consumer.assign([make_topic_partition(topic, partition, start)])
        try:
            while start < end:
                message = self._poll(consumer, _AT_END)
                if message is None or get_offset(message) >= end:
                    return
                yield _make_raw_record(topic, message)
                start = get_offset(message) + 1
        finally:
            consumer.close()

    def read_ranges(self, topic: str, ranges: Ranges, isolation: str = "read_committed") -> Iterator[RawRecord]:
        """Yield the records of ranges of several partitions, ordered within each partition only.

        Raises:
            LogError: No broker responds, or the start of a range is no longer in the log.
        """
        return (_make_raw_record(topic, message) for message in self.messages(topic, ranges, isolation))

    def positions(
        self, topic: str, ranges: Ranges, isolation: str = "read_committed"
    ) -> Iterator[tuple[int, int, int]]:
        """Yield the partition, offset and log timestamp (microseconds) of the records that `read_ranges` yields."""
        for message in self.messages(topic, ranges, isolation):
            partition, at = number_message_partition(topic, message), message.timestamp()[1] * 1000
            yield partition, get_offset(message), at

    def messages(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[Message]:
        """Yield the records that `read_ranges` yields as messages of the client, which include headers."""
        return (message for messages in self.message_batches(topic, ranges, isolation) for message in messages)

    def message_batches(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[list[Message]]:
        """Yield the same messages as `messages`, in lists."""
        unread = {p: end for p, (start, end) in ranges.items() if start < end}
        consumer = self.consumer(isolation)
        consumer.assign([make_topic_partition(topic, p, ranges[p][0]) for p in unread])
        silent_since = time.monotonic()
        try:
            while unread:
                messages = consumer.consume(_MAX_MESSAGES, _CONSUME_SECONDS)
                has_events = any(message.error() is not None for message in messages)
                messages = [m for m in messages if not is_disconnect(m.error())] if has_events else messages
                if messages:
                    silent_since = time.monotonic()
                elif time.monotonic() - silent_since > self.timeout:
                    raise self.make_unreachable_error(KafkaException(KafkaError(KafkaError._TIMED_OUT)))  # noqa: SLF001 -- its only name
                newest = {message.partition(): message.offset() or 0 for message in messages}
                if not (has_events or SEPARATOR in topic) and all(o < unread.get(p or 0, 0) for p, o in newest.items()):
                    yield messages  # all are inside, as in most lists: to check each one takes longer than the read
                    continue
                inside = []
                for message in messages:
                    partition = number_message_partition(topic, message)
                    if self._is_inside(message, unread.get(partition, 0)):
                        inside.append(message)
                    elif unread.pop(partition, None) is not None:
                        consumer.pause([make_topic_partition(topic, partition)])
                yield inside
        finally:
            consumer.close()

    def _is_inside(self, message: Message, end: int) -> bool:
        """Return whether a message is a record before the end of its range; the range also ends at the log's end."""
        error = message.error()
        if error is None:
            return get_offset(message) < end
        if error.code() in _AT_END:
            return False
        raise self.make_unreachable_error(KafkaException(error))

    def _read_one(self, consumer: Consumer, topic: str, position: TopicPartition) -> RawRecord | None:
        consumer.assign([position])
        message = self._poll(consumer, _AT_END | _OUT_OF_RANGE)
        return None if message is None or get_offset(message) != position.offset else _make_raw_record(topic, message)

    def _poll(self, consumer: Consumer, end_codes: frozenset[int]) -> Message | None:
        """Return the next record, or None if the client reports one of `end_codes`."""
        deadline = time.monotonic() + self.timeout
        message = consumer.poll(self.timeout)
        while message is not None and is_disconnect(message.error()) and time.monotonic() < deadline:
            message = consumer.poll(deadline - time.monotonic())
        error = KafkaError(KafkaError._TIMED_OUT) if message is None else message.error()  # noqa: SLF001 -- its only name
        if error is None:
            return message
        if error.code() in end_codes:
            return None
        raise self.make_unreachable_error(KafkaException(error))

    def _describe_topics(self, topic: str) -> dict[str, Any]:
        """Describe the topics of a name alone, however many others the cluster has; None for an unknown one."""
        names = list(split_topics(topic))

        def describe_topics() -> dict[str, Any]:
            topics = self._admin.describe_topics(TopicCollection(names), request_timeout=self.timeout)
            return {name: _describe_or_none(topics[name].result) for name in names}

        return self._request(describe_topics)

    def _metadata(self) -> dict[str, tuple[int, ...]]:
        try:
            result = retry_transient(lambda: self._admin.list_topics(timeout=self.timeout), seconds=self.timeout)
        except KafkaException as error:
            raise self.make_unreachable_error(error) from error
        return {name: tuple(sorted(topic.partitions)) for name, topic in result.topics.items()}

    def consumer(
        self, isolation: str = "read_committed", *, fetch_bytes: int = FETCH_BYTES, group: str = "cutover-positions"
    ) -> Consumer:
        """Create a consumer for reads by position; it reports the end of a partition, and offsets out of range.

        Args:
            isolation: `isolation.level` of the consumer.
            fetch_bytes: Bytes per partition and response; record batches are always complete.
            group: Group whose committed offsets can be read. librdkafka requires one; it is never joined.
        """
        return Consumer(
            {
                **self._options,
                "fetch.message.max.bytes": str(fetch_bytes),
                "group.id": group,
                "enable.auto.commit": "false",
                "auto.offset.reset": "error",
                "enable.partition.eof": "true",
                "fetch.wait.max.ms": str(POSITION_WAIT_MS),
                "isolation.level": isolation,
            }
        )

    def _offsets(self, topic: str, spec: OffsetSpec, *, committed: bool) -> dict[int, int]:
        return {p: int(info.offset) for p, info in self._list_offsets(topic, spec, committed=committed).items()}

    def _list_offsets(self, topic: str, spec: OffsetSpec, *, committed: bool) -> dict[int, ListOffsetsResultInfo]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        expected = {make_topic_partition(topic, p): spec for p in self.partitions(topic)}

        def list_offsets() -> dict[int, ListOffsetsResultInfo]:
            futures = self._admin.list_offsets(expected, isolation_level=level, request_timeout=self.timeout)
            offsets = {number_topic_partition(topic, tp): future.result() for tp, future in futures.items()}
            if any(info.offset == OFFSET_INVALID for info in offsets.values()):
                # librdkafka reports a disconnect during the request as a result without an offset.
                raise KafkaException(KafkaError(KafkaError._TRANSPORT))  # noqa: SLF001 -- its only name
            return offsets

        return self._request(list_offsets)

    def _check_reachable(self) -> None:
        """Check before the first request that an address may respond; transient obstacles are retried.

        Raises:
            LogError: No address can respond; the message explains why.
        """
        deadline = time.monotonic() + min(self.timeout, _REACH_SECONDS)

        def check_addresses() -> Obstacle | bool | None:
            obstacle = find_obstacle(self.bootstrap, self._protocol)
            if obstacle is None:
                return True
            return obstacle if obstacle.is_permanent or time.monotonic() > deadline else None

        result = poll_until(check_addresses, timeout=self.timeout, interval=_REACH_INTERVAL)
        if isinstance(result, Obstacle):
            raise make_obstacle_error(result)

    def _request(self, request: Callable[[], Result]) -> Result:
        try:
            return retry_transient(request, seconds=self.timeout)
        except KafkaException as error:
            raise self.make_unreachable_error(error) from error

    def _note_error(self, error: KafkaError) -> None:
        self.disconnects += is_disconnect(error)
        if error.code() in REFUSALS:
            self._refused = error

    def make_unreachable_error(self, error: KafkaException) -> LogError:
        """Return an error that distinguishes no response, which may be transient, from rejected credentials."""
        if "_admin" in vars(self):  # it has connected
            self._admin.poll(0)  # runs `_note_error`
        cause = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
        if self._refused is None and is_no_response(cause):
            obstacle = find_obstacle(self.bootstrap, self._protocol)
            if obstacle is not None:
                return make_obstacle_error(obstacle)
        return make_no_response_error(
            self.bootstrap, cause, refused=self._refused, seconds=self.timeout, otherwise=str(error)
        )


def _describe_or_none(describe: Callable[[], Any]) -> Any:
    """Return a topic's description; None if the topic does not exist."""
    try:
        return describe()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def _make_raw_record(log: str, message: Message) -> RawRecord:
    return RawRecord(
        partition=number_message_partition(log, message),
        offset=get_offset(message),
        log_time_micros=int(message.timestamp()[1]) * 1000,
        value=message.value(),
    )
