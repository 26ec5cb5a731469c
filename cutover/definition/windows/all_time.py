"""The global window, from 1000-01-01 to 9000-01-01: it closes when all input has been read."""

from dataclasses import dataclass

from cutover.definition.windows.window_fn import EARLIEST, LATEST, AlignedWindowFn, Interval, WindowSql


@dataclass(frozen=True, slots=True)
class Global(AlignedWindowFn):
    """Single window over all of event time."""

    @property
    def reach(self) -> None:
        """None: no watermark of a running stream passes the end of the window."""
        return None

    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:  # noqa: ARG002 -- every window's signature
        """Return the only window, from the earliest time to the latest."""
        return (Interval(EARLIEST, LATEST),)

    def starts_sql(self, event: str) -> WindowSql:
        """Return the earliest time in SQL; null where the event time is null."""
        return WindowSql(start=f"IF({event} IS NULL, NULL, {EARLIEST}L)")

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Return the latest time in SQL, in microseconds; null where the start is null."""
        return f"IF({start} IS NULL, NULL, {LATEST}L)"

    def next_start(self, start: int) -> int:  # noqa: ARG002 -- every aligned window's signature
        """Return the end of event time: no window follows this one."""
        return LATEST

    def describe(self) -> list[str | int]:
        """Return the kind, which is hashed into the result fingerprint: all global windows are equal."""
        return ["global"]
