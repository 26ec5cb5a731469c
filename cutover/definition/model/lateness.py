"""How long to wait: out-of-orderness, allowed lateness, idleness, and how far ahead an event may be dated."""

from dataclasses import dataclass

from cutover.durations import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """When the streaming path holds a window to be complete. Texts such as `30 minutes`.

    Source: Akidau et al., The Dataflow Model, VLDB 2015, section 2.3 (watermarks); Flink documentation (idleness).
    """

    out_of_orderness: str = "0 seconds"  # the watermark follows the newest event time at this distance
    allowed: str = "0 seconds"  # how long after the watermark passed its end a window still takes rows
    idle_after: str = "1 minute"  # a partition with nothing unread for this long leaves the watermark's minimum
    max_ahead: str = "1 hour"  # an event dated further than this after its log timestamp is `future`

    def __post_init__(self) -> None:
        for name in ("out_of_orderness", "allowed", "idle_after", "max_ahead"):
            parse_duration(getattr(self, name), of=f"lateness.{name}")

    @property
    def out_of_orderness_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.out_of_orderness, of="lateness.out_of_orderness")

    @property
    def allowed_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.allowed, of="lateness.allowed")

    @property
    def idle_after_micros(self) -> int:
        """In microseconds."""
        return parse_duration(self.idle_after, of="lateness.idle_after")

    @property
    def max_ahead_micros(self) -> int:
        """Return the largest accepted distance between event time and log timestamp, in microseconds."""
        return parse_duration(self.max_ahead, of="lateness.max_ahead")
