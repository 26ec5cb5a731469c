"""Timestamp settings of topics: a producer that may set arbitrary log times can move Cutover's clock undetected."""

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
    """Timestamp settings of a topic."""

    name: str
    kind: str  # CreateTime or LogAppendTime
    ahead_ms: int  # how far ahead of the broker's clock a producer's timestamp may be

    @property
    def bounded(self) -> bool:
        """True if producers cannot write timestamps arbitrarily far in the future."""
        return self.kind == "LogAppendTime" or self.ahead_ms < LONG

    @property
    def description(self) -> str:
        """Source of the timestamps, and the limit of future ones, in words."""
        if self.kind == "LogAppendTime":
            return "timestamps by the broker (LogAppendTime)"
        limit_text = f"at most {self.ahead_ms} ms ahead" if self.bounded else "without a bound"
        return f"timestamps by the producer ({self.kind}), {limit_text}"

    @property
    def hint(self) -> str:
        """Setting that bounds the timestamps; empty if they are bounded."""
        expected = "message.timestamp.type=LogAppendTime, or set message.timestamp.after.max.ms"
        return "" if self.bounded else f"a producer with a wrong clock moves event time: {expected}"


def read_timestamps(settings: Settings, bootstrap: str, *, names: Collection[str]) -> list[TopicTimestamps]:
    """Read the timestamp settings of topics from the cluster; topics that do not exist are left out.

    Raises:
        LogError: The cluster does not answer.
    """
    admin = AdminClient(options.make_librdkafka_options(settings.kafka, bootstrap))
    timeout_seconds = settings.kafka.timeout_seconds
    try:
        existing = sorted(set(names) & admin.list_topics(timeout=timeout_seconds).topics.keys())
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in existing]
        answers = admin.describe_configs(resources, request_timeout=timeout_seconds) if resources else {}
        return [_parse_config(resource.name, future.result(timeout_seconds)) for resource, future in answers.items()]
    except KafkaException as error:
        msg = f"Kafka at `{bootstrap}`: expected the settings of its topics, got {error}."
        raise LogError(msg, runbook="KafkaUnreachable") from error


def _parse_config(name: str, config: dict[str, object]) -> TopicTimestamps:
    values = {key: str(getattr(entry, "value", "")) for key, entry in config.items()}
    ahead = values.get("message.timestamp.after.max.ms", "")
    return TopicTimestamps(
        name=name,
        kind=values.get("message.timestamp.type", "CreateTime"),
        ahead_ms=int(ahead) if ahead.isdigit() else LONG,
    )
