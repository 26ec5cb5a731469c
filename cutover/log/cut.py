"""A cut: the next offset of every partition of one log, at which both paths are compared, and marks before an offset.

Marks are fingerprints of the last records before an offset. They need no client, since tables store them too.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class LogId:
    """Identity of a log; a topic that was deleted and recreated with the same name is another log."""

    cluster_id: str
    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Position of a log at which both paths are compared."""

    log: LogId
    offsets: Mapping[int, int]  # partition -> next offset, exclusive

    def to_json(self) -> dict[str, object]:
        """Convert to the JSON object of reports and tables: `{"topic", "topic_id", "cluster_id", "cut": {"0": n}}`."""
        cut = {str(partition): offset for partition, offset in sorted(self.offsets.items())}
        return {
            "topic": self.log.topic,
            "topic_id": self.log.topic_id,
            "cluster_id": self.log.cluster_id,
            "cut": cut,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """End of one partition on its leader."""

    offset: int  # next offset, including open transactions
    leader_epoch: int  # incremented with each leader of the partition


class Mark(NamedTuple):
    """Fingerprint of one record."""

    offset: int
    log_time: int  # milliseconds
    digest: str  # of key and value: 16 hex digits of their SHA-256; null and empty differ


Marks = Mapping[int, tuple[Mark, ...]]
"""Partition -> marks by offset."""


def compute_record_digest(key: bytes | None, value: bytes | None) -> str:
    """Return the first 16 hex digits of a SHA-256 over both with their lengths; null and empty differ."""
    sha256 = hashlib.sha256()
    for part in (key, value):
        sha256.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return sha256.hexdigest()[:16]
