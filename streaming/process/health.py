"""Start of each ongoing problem, as the driver sees it; the heartbeat carries it for readers that poll rarely."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cutover.clock import Clock
from cutover.streaming.process.heartbeat import HeartbeatWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSnapshot:
    """Offsets of one reading of the log, by partition."""

    read: Mapping[int, int]  # next offset of the stream
    high: Mapping[int, int]  # high watermarks
    stable: Mapping[int, int] = field(default_factory=dict)  # last stable offsets; empty: nothing is unread
    newest: Mapping[int, int] = field(default_factory=dict)  # newest log timestamp of live partitions, microseconds


class Health:
    """Ongoing problems. Each change is written to the heartbeat; times are the driver's clock, ISO 8601 in UTC."""

    def __init__(self, beat: HeartbeatWriter, clock: Clock) -> None:
        self._beat, self._clock = beat, clock
        self._open: dict[int, int] = {}  # partition -> last stable offset, which stands below its end
        self._high: Mapping[int, int] | None = None  # high watermarks at the last look

    @property
    def is_silent(self) -> bool:
        """Return whether no broker answered at the last try."""
        return self._beat.now.silent_since is not None

    def note_silence(self) -> None:
        """Note that no broker answers."""
        self._beat.update(silent_since=self._beat.now.silent_since or self._format_now())

    def note_answer(self) -> None:
        """Note that a broker answers."""
        if self.is_silent:
            self._beat.update(silent_since=None)

    def note_commit(self) -> None:
        """Note a commit: what is unread now is unread since now."""
        self._beat.update(unread_since=None)

    def note_look(self, look: LogSnapshot) -> None:
        """Note what a look has shown."""
        self.note_answer()
        is_behind = any(end > look.read.get(p, 0) for p, end in (look.stable or look.high).items())
        grown, self._high = self._high != look.high, look.high
        self._beat.update(
            quiet_since=self._format_now() if grown else self._beat.now.quiet_since,
            unread_since=(self._beat.now.unread_since or self._format_now()) if is_behind else None,
            open_since=self._track_open_partitions(look),
            skew=self._skew(look) or self._beat.now.skew,
        )

    def _track_open_partitions(self, look: LogSnapshot) -> dict[str, str]:
        """Return the time since which each partition's last stable offset has been stuck below its end."""
        held_back = {p: stable for p, stable in look.stable.items() if stable < look.high.get(p, 0)}
        open_before, open_since = self._open, self._beat.now.open_since
        self._open = held_back
        return {
            str(p): open_since[str(p)] if open_before.get(p) == stable and str(p) in open_since else self._format_now()
            for p, stable in held_back.items()
        }

    def _skew(self, look: LogSnapshot) -> dict[str, float]:
        now = self._clock.now().timestamp()
        return {str(p): round(now - micros / 1e6, 3) for p, micros in look.newest.items()}

    def _format_now(self) -> str:
        return self._clock.now().astimezone(UTC).isoformat(timespec="milliseconds")


def seconds_since(start: str | None, now: datetime) -> float | None:
    """Return the seconds from an ISO time to now; None for None."""
    return None if start is None else (now - datetime.fromisoformat(start)).total_seconds()
