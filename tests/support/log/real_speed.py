"""Event time at real speed in plain Python: one instant after the other, every partition asked again at each."""

from collections.abc import Sequence

from cutover.reconcile.advisor.predict import UNKNOWN

Record = tuple[int, int, int | None]  # partition, log time, event time


def simulate(records: Sequence[Record], idle_after: int) -> list[int]:
    """Return, of each record, the least newest event time of all active partitions just before it was appended."""
    appended, latest = [], dict[int, int]()
    for partition, log_time, _ in records:
        latest[partition] = max(log_time, latest.get(partition, log_time))
        appended.append(latest[partition])
    newest, last_append, mark, marks = dict[int, int](), dict[int, int](), UNKNOWN, dict[int, int]()
    for now in sorted({*appended, *(at + idle_after for at in appended)}):
        marks[now] = mark = max(mark, _lowest(newest, last_append, now, idle_after))
        for (partition, _, event), at in zip(records, appended, strict=True):
            if at == now:
                last_append[partition] = now
                if event is not None:
                    newest[partition] = max(event, newest.get(partition, event))
        mark = max(mark, _lowest(newest, last_append, now, idle_after))
    return [marks[at] for at in appended]


def _lowest(newest: dict[int, int], last_append: dict[int, int], now: int, idle_after: int) -> int:
    return min(
        (newest[partition] for partition in newest if now - last_append[partition] < idle_after), default=UNKNOWN
    )


def quantile(values: Sequence[int], share: float) -> int:
    """Return the smallest value that so large a share of the values does not exceed."""
    ordered = sorted(values)
    return next(value for place, value in enumerate(ordered, 1) if place >= share * len(ordered) - 1e-9)
