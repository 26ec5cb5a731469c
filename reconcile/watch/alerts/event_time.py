"""Alerts on event time: the watermark is ahead of the log, does not move while records are read, or has no input."""

from collections.abc import Iterator
from itertools import takewhile

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.result.text import duration
from cutover.reconcile.watch.alerts.spec import AlertSpec
from cutover.reconcile.watch.facts import WatchFacts, require
from cutover.reconcile.watch.lag import LagSample, compute_max_ahead_micros, find_holding_partition


def _is_open(facts: WatchFacts) -> bool:
    """Return whether event time can advance: there is an epoch, and the newest one did not seal the version."""
    return facts.newest_epoch is not None and not facts.newest_epoch.final


def _find_watermark_ahead(facts: WatchFacts) -> Iterator[str]:
    """Yield that no valid record can have moved the watermark so far, even where `max_ahead` allows any event time."""
    if not _is_open(facts):
        return
    sample = facts.sample
    watermark = None if facts.newest_epoch is None else facts.newest_epoch.watermark_after
    if sample is None or watermark is None or not sample.newest_times:
        return
    ahead = watermark - max(sample.newest_times.values())
    if ahead > compute_max_ahead_micros(facts.pipeline, facts.limits):
        yield f"the watermark is {duration(ahead / 1e6)} ahead of the newest log timestamp"


def _find_held_watermark(facts: WatchFacts) -> Iterator[str]:
    """Yield which partition holds the watermark, timed from the first epoch with records that did not move it."""
    if not _is_open(facts):
        return
    epochs = require(facts.epochs)
    newest = epochs[-1]
    unmoved = list(takewhile(lambda e: e.watermark_after == newest.watermark_after, reversed(epochs)))
    # The oldest of them moved the watermark to its value, unless there is no watermark yet.
    reading = [e for e in unmoved if e.records and (newest.watermark_after is None or e is not unmoved[-1])]
    if not reading or _measure_age(reading[0], facts) > facts.limits.held_seconds:
        return
    held_seconds = _measure_age(reading[-1], facts)
    if held_seconds > facts.limits.held_seconds:
        yield f"records are read and the watermark has not moved for {duration(held_seconds)}{_describe_holder(facts)}"


def _describe_holder(facts: WatchFacts) -> str:
    if not isinstance(facts.sample_fact, LagSample):
        return ""  # the log does not answer, so the partitions are unknown
    partition = find_holding_partition(facts.sample_fact)
    if partition is None:
        return ": no partition had a valid event time yet"
    return f": {facts.format_partition(partition)} holds it"


def _measure_age(epoch: EpochRecord, facts: WatchFacts) -> float:
    return facts.epoch_ages.get(epoch.epoch, 0.0)


def _find_idle_input(facts: WatchFacts) -> Iterator[str]:
    """Yield that everything is read and nothing was sent for the definition's idle time."""
    if not _is_open(facts):
        return
    sample = facts.sample
    if sample is None or _has_unread(sample):
        return
    quiet_seconds = facts.quiet_seconds
    if quiet_seconds is not None and quiet_seconds * 1e6 > facts.pipeline.lateness.idle_after_micros:
        yield f"nothing was sent for {duration(quiet_seconds)}"


def _has_unread(sample: LagSample) -> bool:
    """Return whether a partition has records after the newest epoch, those of open transactions included."""
    ends = {p: max(end, sample.high_watermarks.get(p, 0)) for p, end in sample.end_offsets.items()}
    return any(end > sample.epoch.end.get(p, 0) for p, end in ends.items())


ALERTS = (
    AlertSpec(
        name="WatermarkAheadOfClock",
        severity="page",
        owner="producers",
        symptom="watermark AHEAD_OF_CLOCK",
        rule=_find_watermark_ahead,
        limits=("lateness.max_ahead", "alerts.ahead_seconds"),
        no_drill="its fix is another definition, which a person must choose; the control of F12 of `make faults` "
        "causes it",
    ),
    AlertSpec(
        name="WatermarkHeld",
        severity="ticket",
        owner="producers",
        symptom="watermark HELD_BY a partition",
        rule=_find_held_watermark,
        limits=("alerts.held_seconds",),
        suppresses=("NoInput",),
    ),
    AlertSpec(
        name="NoInput",
        severity="info",
        owner="producers",
        symptom="watermark NO_INPUT",
        rule=_find_idle_input,
        limits=("lateness.idle_after",),
    ),
)
