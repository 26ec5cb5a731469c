"""A cut: the next offset of every partition of one log, at which both paths are compared."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogId:
    """Which log this is: a topic that was deleted and made again under the same name is another log."""

    cluster_id: str
    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One log position."""

    log: LogId
    offsets: Mapping[int, int]  # partition -> next offset, exclusive

    def to_json(self) -> dict[str, object]:
        """Return the shape that reports and tables hold: `{"topic", "topic_id", "cluster_id", "cut": {"0": n}}`."""
        cut = {str(partition): offset for partition, offset in sorted(self.offsets.items())}
        return {
            "topic": self.log.topic,
            "topic_id": self.log.topic_id,
            "cluster_id": self.log.cluster_id,
            "cut": cut,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where one partition ends, as its leader has it."""

    offset: int  # next offset, open transactions included
    leader_epoch: int  # counts the leaders that the partition has had
