"""A real topic that is compacted for a while: records inside its log disappear, as a cleaner of the broker does it."""

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.settings import Settings
from tests.support.suite.until import until

Positions = frozenset[tuple[int, int]]  # partition and offset


def roll_segments(settings: Settings, topic: str) -> None:
    """Let every batch of records with a later timestamp begin a segment: only those before the last are cleaned."""
    _alter(settings, topic, {"segment.ms": "1"})


def compact(settings: Settings, topic: str, *, least: int = 1) -> Positions:
    """Compact a topic until each partition has lost records, at least `least` in all; return the deleted positions.

    All records without a key are deleted. The broker's cleaner runs every 15 s.
    """
    earlier = read_positions(settings, topic)
    begin(settings, topic)
    partitions = {p for p, _ in earlier}

    def is_done() -> bool:
        deleted = earlier - read_positions(settings, topic)
        return len(deleted) >= least and {p for p, _ in deleted} == partitions

    until(is_done, within=120.0)
    _await_end(settings, topic)
    return earlier - read_positions(settings, topic)


def remove_aborted(settings: Settings, topic: str) -> Positions:
    """Compact a topic whose records have distinct keys until aborted ones are deleted; return the deleted positions.

    Only those before the last segment are deleted: every other record has the newest value of its key.
    """
    earlier, committed = read_positions(settings, topic, "read_uncommitted"), read_positions(settings, topic)
    begin(settings, topic)
    until(lambda: read_positions(settings, topic, "read_uncommitted") != earlier, within=120.0)
    _await_end(settings, topic)
    disable_compaction(settings, topic)
    assert read_positions(settings, topic) == committed
    return earlier - read_positions(settings, topic, "read_uncommitted")


def _await_end(settings: Settings, topic: str) -> None:
    """Wait until the cleaner has passed: nothing more goes between two looks."""
    looks = [read_positions(settings, topic, "read_uncommitted")]

    def is_over() -> bool:
        looks.append(read_positions(settings, topic, "read_uncommitted"))
        return looks[-1] == looks[-2]

    until(is_over, every=2.0)


def begin(settings: Settings, topic: str) -> None:
    """Let the broker compact a topic from now on; return at once."""
    _alter(settings, topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"})


def disable_compaction(settings: Settings, topic: str) -> None:
    """Restore the clean-up policy; deleted records stay deleted."""
    _alter(settings, topic, {"cleanup.policy": "delete"})


def read_positions(settings: Settings, topic: str, isolation: str = "read_committed") -> Positions:
    """Return partition and offset of every record that a reader sees; an uncommitted reader also sees aborted ones."""
    client = LogClient(settings)
    earliest, latest = client.earliest(topic), client.latest(topic, isolation)
    ranges = {p: (start, latest[p]) for p, start in earliest.items()}
    return frozenset((p, offset) for p, offset, _ in client.positions(topic, ranges, isolation))


def _alter(settings: Settings, topic: str, values: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(settings)})
    changes = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin.incremental_alter_configs([resource])[resource].result()
