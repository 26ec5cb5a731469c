"""Consecutive epochs of one stream, which tests corrupt with `replace`."""

from cutover.lake.epochs.epoch_log import EpochRecord

MINUTE = 60_000_000
COUNTS = {"malformed": 0, "filtered": 0, "future": 0, "late": 0, "accepted": 10}


def epoch(number: int, **changes: object) -> EpochRecord:
    """Build an epoch that reads 5 records of each of two partitions and advances the watermark by a minute."""
    ends = {0: 5 * number + 5, 1: 5 * number + 5}
    at = (number + 1) * MINUTE
    values: dict[str, object] = {
        "epoch": number,
        "run_id": "pid-1-a",
        "topic": "clicks",
        "topic_id": "topic-1",
        "cluster_id": "cluster-1",
        "start": {p: end - 5 for p, end in ends.items()},
        "end": ends,
        "max_event": dict.fromkeys(ends, at + 5 * MINUTE),
        "watermark_before": number * MINUTE if number else None,
        "watermark_after": at,
        "counts": COUNTS,
        "records": 10,
        "result_fingerprint": "f",
        "lateness_fingerprint": "l",
    }
    return EpochRecord(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests


def chain_of(number: int) -> list[EpochRecord]:
    """Build consecutive epochs, each starting where the previous one ended."""
    return [epoch(n) for n in range(number)]
