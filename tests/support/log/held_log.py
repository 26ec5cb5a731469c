"""A log that a test holds in memory: the reconciler reads the records behind a difference from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cutover.log.cut import LogId
from cutover.log.kafka import Ranges, RawRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLog:
    """Records of one log, and where each partition begins by now."""

    records: Sequence[RawRecord]
    topic_id: str = "topic-1"
    cluster_id: str = "cluster-1"
    begins: Mapping[int, int] = field(default_factory=dict)

    def describe(self, topic: str) -> LogId:
        """Return the log's identity."""
        return LogId(cluster_id=self.cluster_id, topic=topic, topic_id=self.topic_id)

    def earliest(self, topic: str) -> dict[int, int]:
        """Return the first offset that each partition still holds."""
        del topic
        return {record.partition: self.begins.get(record.partition, 0) for record in self.records}

    def positions(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[tuple[int, int, int]]:
        """Yield the positions of the records of some ranges."""
        for record in self.read_ranges(topic, ranges, isolation):
            yield record.partition, record.offset, record.log_time_micros

    def read_ranges(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[RawRecord]:
        """Yield the records of some ranges."""
        del topic, isolation
        for record in self.records:
            start, end = ranges.get(record.partition, (0, 0))
            if start <= record.offset < end:
                yield record
