"""Losses of a log: cut at its beginning, or deleted and recreated."""

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.settings import Settings
from tests.integration.streaming import rig
from tests.support.suite.until import until


def cut_away(settings: Settings, topic: str, first_kept: dict[int, int]) -> None:
    """Let the log forget everything before an offset, by partition."""
    offsets = [TopicPartition(topic, partition, offset) for partition, offset in first_kept.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(settings)})
    for future in admin.delete_records(offsets).values():
        future.result()


def delete(settings: Settings, topic: str) -> None:
    """Delete a topic, and wait until the cluster no longer lists it."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(settings)})
    admin.delete_topics([topic])[topic].result()
    until(lambda: topic not in LogClient(settings).topics())


def recreate(settings: Settings, topic: str, partitions: int = 2) -> None:
    """Delete a topic and make it again under its name, empty."""
    delete(settings, topic)
    rig.make_topic(settings, topic, partitions=partitions)
