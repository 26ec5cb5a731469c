"""Alerts on event time: the watermark runs ahead of the log, stands while records come, or nobody sends."""

from collections.abc import Iterator
from itertools import takewhile

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.result.text import duration
from cutover.reconcile.watch.alerts.alert import Alert, Rule, alert
from cutover.reconcile.watch.facts import WatchFacts, known
from cutover.reconcile.watch.lag import LagSample, ahead_micros, holder


def _is_open(facts: WatchFacts) -> bool:
    """Return whether event time goes on: there is an epoch, and the newest one did not seal the version."""
    return facts.newest is not None and not facts.newest.final


def _check_ahead(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that no honest record can have brought the watermark where it is; a huge `max_ahead` is no excuse."""
    if not _is_open(facts):
        return
    sample = facts.sample
    watermark = None if facts.newest is None else facts.newest.watermark_after
    if sample is None or watermark is None or not sample.newest:
        return
    ahead = (watermark - max(sample.newest.values())) / 1e6
    if watermark > max(sample.newest.values()) + ahead_micros(facts.pipeline, facts.limits):
        yield alert("WatermarkAheadOfClock", f"the watermark is {duration(ahead)} ahead of the newest log timestamp")


def _check_watermark(facts: WatchFacts) -> Iterator[Alert]:
    """Yield which partition holds the watermark while records are read: since the first that did not move it."""
    if not _is_open(facts):
        return
    records = known(facts.records)
    newest = records[-1]
    same = list(takewhile(lambda r: r.watermark_after == newest.watermark_after, reversed(records)))
    # The oldest of them is the one that brought the watermark there, unless there is none yet.
    read = [record for record in same if record.records and (newest.watermark_after is None or record is not same[-1])]
    if not read or _age(read[0], facts) > facts.limits.held_seconds:
        return
    stood = _age(read[-1], facts)
    if stood > facts.limits.held_seconds:
        yield alert(
            "WatermarkHeld", f"records are read and the watermark stands for {duration(stood)}{_name_holder(facts)}"
        )


def _name_holder(facts: WatchFacts) -> str:
    if not isinstance(facts.look, LagSample):
        return ""  # the log does not answer, so the partitions are unknown
    partition = holder(facts.look)
    return ": no partition had a valid event time yet" if partition is None else f": partition {partition} holds it"


def _age(record: EpochRecord, facts: WatchFacts) -> float:
    return facts.ages.get(record.epoch, 0.0)


def _check_input(facts: WatchFacts) -> Iterator[Alert]:
    """Yield that everything is read and nothing came for the definition's idle time."""
    if not _is_open(facts):
        return
    sample = facts.sample
    if sample is None or any(end > sample.epoch.end.get(p, 0) for p, end in _ends(sample).items()):
        return
    quiet = facts.quiet_seconds
    if quiet is not None and quiet * 1e6 > facts.pipeline.lateness.idle_after_micros:
        yield alert("NoInput", f"nothing was sent for {duration(quiet)}")


def _ends(sample: LagSample) -> dict[int, int]:
    return {p: max(end, sample.high.get(p, 0)) for p, end in sample.ends.items()}


RULES = (
    Rule(check=_check_ahead, decides=("WatermarkAheadOfClock",)),
    Rule(check=_check_watermark, decides=("WatermarkHeld",)),
    Rule(check=_check_input, decides=("NoInput",)),
)
