"""Alerts on tables and disks: damaged or changed by another writer, growing, short of space, files of pins at risk."""

from collections.abc import Iterator

from cutover.reconcile.result.text import number
from cutover.reconcile.watch.alerts.spec import AlertSpec, reported_by
from cutover.reconcile.watch.facts import UnknownFact, WatchFacts, require

GIB = 1 << 30


def _find_low_disks(facts: WatchFacts) -> Iterator[str]:
    grown = 0 if isinstance(facts.recent_growth_bytes, UnknownFact) else facts.recent_growth_bytes
    required = max(grown, facts.limits.free_bytes)
    for place, free in require(facts.free_bytes).items():
        if free < required:
            yield f"{free / GIB:.2f} GiB are free at the {place}, {required / GIB:.2f} are needed"
    require(facts.recent_growth_bytes)  # without it no one knows that the space is enough


def _find_fast_growth(facts: WatchFacts) -> Iterator[str]:
    """Yield that the epoch log grows much faster than usual: new keys, smaller windows, rows of single records."""
    growth, limits = require(facts.row_growth), facts.limits
    if growth is None or growth.hours < limits.growth_hours:
        return
    if growth.last_hour > max(limits.growth_times * growth.usual, limits.growth_rows):
        usual = number(round(growth.usual))
        factor = f"{growth.last_hour / growth.usual:.1f} times the {usual} of a usual hour of this week"
        yield f"{number(growth.last_hour)} rows were added in the last hour, {factor}"


def _find_pins_at_risk(facts: WatchFacts) -> Iterator[str]:
    for pin in require(facts.pins):
        if pin.files_until is not None and pin.files_until < pin.expires_at:
            deletable_at = f"{pin.files_until:%Y-%m-%d %H:%M}"
            yield f"{pin.holder} holds epoch {pin.epoch}, its files may be deleted from {deletable_at} UTC"


ALERTS = (
    AlertSpec(
        name="EpochHistoryBroken",
        severity="page",
        owner="pipeline",
        symptom="`transaction says 41, newest epoch row is 40`",
        rule=reported_by(lambda facts: facts.epochs),
        suppresses=("StreamNotRunning", "ReconcilerNotRunning", "NotComparable"),
    ),
    AlertSpec(
        name="ForeignWrite",
        severity="page",
        owner="pipeline",
        symptom="`expected no writer but ours`",
        rule=reported_by(lambda facts: facts.foreign_writes),
        suppresses=("NotComparable", "ReconcilerNotRunning"),
    ),
    AlertSpec(
        name="TableUnreadable",
        severity="page",
        owner="pipeline",
        symptom="`file ... is listed and not there`",
        rule=reported_by(lambda facts: facts.epochs),
        suppresses=("ReconcilerNotRunning", "BatchNotFresh", "NotComparable"),
    ),
    AlertSpec(
        name="DiskHeadroomLow",
        severity="ticket",
        owner="platform",
        symptom="less than 1 GiB free",
        rule=_find_low_disks,
        limits=("alerts.free_bytes",),
        no_drill="it needs a small disk; the fault F21 of `make faults` fills one",
    ),
    AlertSpec(
        name="TableGrowthHigh",
        severity="ticket",
        owner="pipeline",
        symptom="the epoch log grows faster than it used to",
        rule=_find_fast_growth,
        limits=("alerts.growth_times", "alerts.growth_rows", "alerts.growth_hours"),
        no_drill="a usual hour is known only after 24 hours of epochs; the fault F19 of `make faults` plants them",
    ),
    AlertSpec(
        name="PinnedVersionAtRisk",
        severity="ticket",
        owner="pipeline",
        symptom="files of a pinned epoch may be deleted before the pin expires",
        rule=_find_pins_at_risk,
    ),
)
