"""One window for all of event time, from 1000-01-01 to 9000-01-01: it closes once all input is in."""

from dataclasses import dataclass

from cutover.definition.windows.window_fn import EARLIEST, LATEST, AlignedWindowFn, Interval, WindowSql


@dataclass(frozen=True, slots=True)
class Global(AlignedWindowFn):
    """One window for all of event time."""

    @property
    def reach(self) -> None:
        """No watermark of a stream that goes on passes the end of all time."""
        return None

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:  # noqa: ARG002 -- every window's signature
        """Give the one window, from the earliest time to the latest."""
        return (Interval(EARLIEST, LATEST),)

    def starts_sql(self, event: str) -> WindowSql:
        """Give the earliest time; null where there is no event time."""
        return WindowSql(start=f"IF({event} IS NULL, NULL, {EARLIEST}L)")

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Give the latest time, in microseconds; null where the start is."""
        return f"IF({start} IS NULL, NULL, {LATEST}L)"

    def following(self, start: int) -> int:  # noqa: ARG002 -- every aligned window's signature
        """Return the end of event time: there is no window after this one."""
        return LATEST

    def describe(self) -> list[str | int]:
        """Hashed into the result fingerprint; there is nothing to tell two of them apart."""
        return ["global"]
