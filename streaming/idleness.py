"""How long each partition has had nothing unread, counted anew from each start."""

from collections.abc import Mapping


class Idleness:
    """Watches the log's ends against the next offsets to read. Only this may look at the driver's clock."""

    def __init__(self, idle_after_micros: int) -> None:
        self._idle_after = idle_after_micros / 1e6
        self._caught_up: dict[int, tuple[int, float]] = {}  # partition -> (end, since when it has been all read)

    def look(self, *, position: Mapping[int, int], ends: Mapping[int, int], now: float) -> None:
        """Take note of one look at the log.

        Args:
            position: Next offset to read, by partition.
            ends: High watermark by partition: a partition behind an open transaction has something unread.
            now: Monotonic seconds.
        """
        for partition, end in ends.items():
            if position.get(partition, 0) < end:
                self._caught_up.pop(partition, None)
            elif self._caught_up.get(partition, (None, 0.0))[0] != end:
                self._caught_up[partition] = (end, now)

    def idle(self, now: float) -> frozenset[int]:
        """Return the partitions that have had nothing unread for longer than `idle_after`."""
        return frozenset(p for p, (_, since) in self._caught_up.items() if now - since >= self._idle_after)

    def unread(self, partition: int) -> bool:
        """Return whether a partition had something unread when it was last looked at."""
        return partition not in self._caught_up
