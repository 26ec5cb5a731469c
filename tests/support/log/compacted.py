"""A real topic that is compacted for a while: records inside its log disappear, as a cleaner of the broker does it."""

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from cutover.log.address import bootstrap_servers
from cutover.log.kafka import LogClient
from cutover.settings import Settings
from tests.support.suite.until import until

Positions = frozenset[tuple[int, int]]  # partition and offset


def roll_segments(settings: Settings, topic: str) -> None:
    """Let every batch of records with a later timestamp begin a segment: only those before the last are cleaned."""
    _alter(settings, topic, {"segment.ms": "1"})


def compact(settings: Settings, topic: str, *, least: int = 1) -> Positions:
    """Compact a topic until each partition has lost some records, and all so many; return the positions that went.

    Records without a key all go. The broker's cleaner looks for work every 15 s.
    """
    before = held(settings, topic)
    begin(settings, topic)
    partitions = {p for p, _ in before}

    def is_done() -> bool:
        gone = before - held(settings, topic)
        return len(gone) >= least and {p for p, _ in gone} == partitions

    until(is_done, within=120.0)
    _await_end(settings, topic)
    return before - held(settings, topic)


def remove_aborted(settings: Settings, topic: str) -> Positions:
    """Compact a topic of records with keys of their own until aborted ones went; return the positions that went.

    Those before the last segment go, and no other record: each has the newest value of its key.
    """
    before, committed = held(settings, topic, "read_uncommitted"), held(settings, topic)
    begin(settings, topic)
    until(lambda: held(settings, topic, "read_uncommitted") != before, within=120.0)
    _await_end(settings, topic)
    keep_all(settings, topic)
    assert held(settings, topic) == committed
    return before - held(settings, topic, "read_uncommitted")


def _await_end(settings: Settings, topic: str) -> None:
    """Wait until the cleaner has passed: nothing more goes between two looks."""
    looks = [held(settings, topic, "read_uncommitted")]

    def is_over() -> bool:
        looks.append(held(settings, topic, "read_uncommitted"))
        return looks[-1] == looks[-2]

    until(is_over, every=2.0)


def begin(settings: Settings, topic: str) -> None:
    """Let the broker compact a topic from now on; return at once."""
    _alter(settings, topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"})


def keep_all(settings: Settings, topic: str) -> None:
    """Set the clean-up policy back: nothing that went comes back."""
    _alter(settings, topic, {"cleanup.policy": "delete"})


def held(settings: Settings, topic: str, isolation: str = "read_committed") -> Positions:
    """Return partition and offset of every record that a reader gets; one of uncommitted records gets aborted ones."""
    client = LogClient(settings)
    earliest, latest = client.earliest(topic), client.latest(topic, isolation)
    ranges = {p: (start, latest[p]) for p, start in earliest.items()}
    return frozenset((p, offset) for p, offset, _ in client.positions(topic, ranges, isolation))


def _alter(settings: Settings, topic: str, values: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers(settings)})
    changes = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin.incremental_alter_configs([resource])[resource].result()
