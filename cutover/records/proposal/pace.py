"""How fast records come and how far out of order: what `cutover init` proposes lateness, window and epochs from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SECOND = 1_000_000
NICE = (
    (1, "1 second"),
    (5, "5 seconds"),
    (10, "10 seconds"),
    (30, "30 seconds"),
    (60, "1 minute"),
    (300, "5 minutes"),
    (600, "10 minutes"),
    (1_800, "30 minutes"),
    (3_600, "1 hour"),
    (3 * 3_600, "3 hours"),
    (6 * 3_600, "6 hours"),
    (12 * 3_600, "12 hours"),
    (86_400, "1 day"),
    (2 * 86_400, "2 days"),
    (7 * 86_400, "7 days"),
    (30 * 86_400, "30 days"),
)
WINDOWS = ((60, "minutes=1"), (300, "minutes=5"), (900, "minutes=15"), (3_600, "hours=1"), (86_400, "days=1"))
USUAL = 0.99  # of the records are within `out_of_orderness`
IN_A_WINDOW = 10  # records of a key, at least, in the window that is proposed
EPOCHS_IN_A_WINDOW = 20
FEWEST, MOST = 1_000, 50_000


class SampleTime(NamedTuple):
    """When a record happened and came; microseconds since 1970."""

    event: int
    at: int | None  # None: not known
    partition: int = 0  # whose order it stands in


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What to propose, and from what; durations as a definition writes them."""

    out_of_orderness: str = "10 minutes"
    allowed: str = "1 hour"
    max_ahead: str = "1 hour"
    window: str = "hours=1"  # of `Fixed`
    epoch_rows: int = MOST
    seen: str = ""  # what was measured; empty: nothing could be
    windows_seen: str = ""


def pace(times: Sequence[SampleTime], keys: int) -> Pace:
    """Propose lateness, window and epochs; nothing where fewer than two records are known.

    Args:
        times: Of each record, in the order of the source. Disorder is that of each partition alone, since a watermark
            is the least of what the partitions have reached.
        keys: Different values of the key.
    """
    if len(times) < 2:  # noqa: PLR2004 -- one record has no distance to another
        return Pace()
    known = all(arrival.at is not None for arrival in times)
    ordered = sorted(times, key=lambda arrival: arrival.at or 0) if known else times
    behind = sorted(_measure_delays(ordered))
    usual, worst = behind[min(len(behind) - 1, int(len(behind) * USUAL))], behind[-1]
    ahead = max((arrival.event - arrival.at for arrival in times if arrival.at is not None), default=0)
    events = [arrival.event for arrival in times]
    window, rows = _window(events, keys)
    return Pace(
        out_of_orderness=nice(usual),
        allowed=nice(max(0, worst - usual)),
        max_ahead=nice(max(3_600 * SECOND, ahead)),
        window=window,
        epoch_rows=rows,
        seen=_sentence(times, usual, worst, known=known),
        windows_seen=f"{len(times):,} records of {keys:,} keys within {_span(max(events) - min(events))}",
    )


def nice(micros: int) -> str:
    """Return the shortest round duration that is no shorter."""
    return next(
        (text for seconds, text in NICE if micros <= seconds * SECOND), f"{-(-micros // (86_400 * SECOND))} days"
    )


def _measure_delays(ordered: Sequence[SampleTime]) -> list[int]:
    """Return how far each event lies behind the newest one that had arrived before it in its partition."""
    newest: dict[int, int] = {}
    found = []
    for arrival in ordered:
        newest[arrival.partition] = max(newest.get(arrival.partition, arrival.event), arrival.event)
        found.append(newest[arrival.partition] - arrival.event)
    return found


def _window(events: Sequence[int], keys: int) -> tuple[str, int]:
    """Return the shortest window in which a key has some records, and the records of an epoch."""
    span = max(1, max(events) - min(events))
    each = {text: len(events) * seconds * SECOND / span for seconds, text in WINDOWS}  # records a window
    chosen = next((text for text, records in each.items() if records >= IN_A_WINDOW * max(1, keys)), WINDOWS[-1][1])
    rows = round(each[chosen] / EPOCHS_IN_A_WINDOW, -3)
    return chosen, int(min(MOST, max(FEWEST, rows)))


def _sentence(times: Sequence[SampleTime], usual: int, worst: int, *, known: bool) -> str:
    order = f"{USUAL:.0%} of the sample are at most {_span(usual)} out of order, the worst {_span(worst)}"
    if not known:
        return f"by the source's order {order}"
    delays = sorted(arrival.at - arrival.event for arrival in times if arrival.at is not None)
    return f"records arrive {_span(delays[0])} to {_span(delays[-1])} after they happened; {order}"


def _span(micros: int) -> str:
    seconds = micros / SECOND
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
