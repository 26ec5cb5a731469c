"""Offsets that a consumer group has committed, read without joining it."""

from confluent_kafka import KafkaException

from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import make_topic_partition, number_topic_partition
from cutover.log.transient_errors import retry_transient


def read_group_offsets(client: LogClient, group: str, topic: str) -> dict[int, int | None]:
    """Read the next offset that a group has committed for each partition; None: none, or Kafka has removed it.

    Raises:
        LogError: No broker responds, the group may not be read, or the topic does not exist.
    """
    partitions = [make_topic_partition(topic, partition) for partition in client.partitions(topic)]
    consumer = client.consumer(group=group)
    try:
        committed = retry_transient(
            lambda: consumer.committed(partitions, timeout=client.timeout), seconds=client.timeout
        )
    except KafkaException as error:
        raise client.make_unreachable_error(error) from error
    finally:
        consumer.close()
    failed = next((position.error for position in committed if position.error is not None), None)
    if failed is not None:
        raise client.make_unreachable_error(KafkaException(failed))
    return {
        number_topic_partition(topic, position): position.offset if position.offset >= 0 else None
        for position in committed
    }
