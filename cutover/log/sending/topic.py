"""The topic that `produce` writes to: made for old timestamps, or checked that it takes them."""

from cutover.clock import Clock
from cutover.errors import LogError
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.log.sending.spool import Spool

DEFAULT_PARTITIONS = 4
CONFIG = {
    # Log timestamps come from the data: under a retention time a topic of old records would empty itself.
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(9 * 1024 * 1024),
}


def ready(client: LogClient, topic: str, partitions: int | None, spool: Spool, clock: Clock) -> LogId:
    """Return the log to write to; make the topic where there is none.

    Raises:
        LogError: No broker answers, or the topic that is there has another number of partitions, would not take the
            largest message, or would delete the records for their age.
    """
    if topic not in client.topics():
        client.create_topic(topic, partitions=partitions or DEFAULT_PARTITIONS, config=CONFIG)
        return client.describe(topic)
    there = len(client.partitions(topic))
    if partitions is not None and partitions != there:
        msg = f"Topic `{topic}`: expected {partitions} partitions, it is there with {there}."
        raise LogError(msg + "\nHint: leave `--partitions` out, or choose another topic name.")
    _check_config(client.config(topic), topic, spool, clock)
    return client.describe(topic)


def _check_config(config: dict[str, str], topic: str, spool: Spool, clock: Clock) -> None:
    largest = int(config.get("max.message.bytes", CONFIG["max.message.bytes"]))
    if spool.largest > largest - 1024:  # Kafka's own bytes around a message
        msg = f"Topic `{topic}`: expected max.message.bytes above {spool.largest + 1024:,}, got {largest:,}."
        raise LogError(msg + "\nHint: raise the topic's setting.")
    retention = int(config.get("retention.ms", "-1"))
    oldest = spool.bounds()[0]
    now = clock.now().timestamp() * 1000
    if retention >= 0 and oldest is not None and oldest / 1000 < now - retention:
        msg = f"Topic `{topic}`: expected retention.ms=-1 for records this old, got {retention}: it would delete them."
        raise LogError(msg + "\nHint: set retention.ms=-1, or choose another topic name.")
