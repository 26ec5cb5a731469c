"""Who sets a topic's timestamps: Cutover trusts the log's clock, so a producer that forges it is not detected."""

from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from cutover.errors import LogError
from cutover.log import options
from cutover.settings import Settings

LONG = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTimestamps:
    """What a topic says of its timestamps."""

    name: str
    kind: str  # CreateTime or LogAppendTime
    ahead_ms: int  # how far ahead of the broker's clock a producer's timestamp may be

    @property
    def bounded(self) -> bool:
        """Return whether no producer can place a record in the future at will."""
        return self.kind == "LogAppendTime" or self.ahead_ms < LONG

    @property
    def says(self) -> str:
        """Describe in words for people who sets timestamps, and how far ahead they may be."""
        if self.kind == "LogAppendTime":
            return "timestamps by the broker (LogAppendTime)"
        limit_text = f"at most {self.ahead_ms} ms ahead" if self.bounded else "without a bound"
        return f"timestamps by the producer ({self.kind}), {limit_text}"

    @property
    def hint(self) -> str:
        """Return what to do; empty if nothing."""
        expected = "message.timestamp.type=LogAppendTime, or set message.timestamp.after.max.ms"
        return "" if self.bounded else f"a producer with a wrong clock moves event time: {expected}"


def topics(settings: Settings, bootstrap: str, *, names: Collection[str]) -> list[TopicTimestamps]:
    """Ask the cluster for the timestamp settings of named topics; those that it lacks are left out.

    Raises:
        LogError: The cluster does not answer.
    """
    admin = AdminClient(options.librdkafka(settings.kafka, bootstrap))
    timeout_seconds = settings.kafka.timeout_seconds
    try:
        existing = sorted(set(names) & admin.list_topics(timeout=timeout_seconds).topics.keys())
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in existing]
        answers = admin.describe_configs(resources, request_timeout=timeout_seconds) if resources else {}
        return [_topic(resource.name, future.result(timeout_seconds)) for resource, future in answers.items()]
    except KafkaException as error:
        msg = f"Kafka at `{bootstrap}`: expected the settings of its topics, got {error}."
        raise LogError(msg, runbook="KafkaUnreachable") from error


def _topic(name: str, config: dict[str, object]) -> TopicTimestamps:
    values = {key: str(getattr(entry, "value", "")) for key, entry in config.items()}
    ahead = values.get("message.timestamp.after.max.ms", "")
    return TopicTimestamps(
        name=name,
        kind=values.get("message.timestamp.type", "CreateTime"),
        ahead_ms=int(ahead) if ahead.isdigit() else LONG,
    )
