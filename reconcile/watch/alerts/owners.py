"""Who is asked first by an alert, and which alerts say one thing: for routing, beside the severities."""

from collections.abc import Mapping
from typing import Literal

from cutover.reconcile.watch.alerts.alert import SEVERITIES

Owner = Literal["platform", "pipeline", "producers"]

_PLATFORM = ("KafkaUnreachable", "OpenTransactionHoldsLog", "RetentionHeadroomLow", "DiskHeadroomLow", "ClockSkew")
_PRODUCERS = (
    "NoInput",
    "LateRateHigh",
    "MalformedRateHigh",
    "FutureEvents",
    "DuplicateRateHigh",
    "SchemaChanged",
    "WatermarkHeld",
    "WatermarkAheadOfClock",
)
OWNERS: Mapping[str, Owner] = {
    name: "platform" if name in _PLATFORM else "producers" if name in _PRODUCERS else "pipeline" for name in SEVERITIES
}
"""Platform: broker and machines. Producers: who sends the records. Pipeline: who answers for its results."""

MUTES: Mapping[str, tuple[str, ...]] = {
    "LogDataLost": ("StreamNotRunning", "ReconcilerNotRunning", "BatchNotFresh", "NotComparable"),
    "TopicIdentityChanged": ("StreamNotRunning", "ReconcilerNotRunning", "BatchNotFresh", "NotComparable"),
    "StreamFenced": ("StreamNotRunning",),
    "EpochHistoryBroken": ("StreamNotRunning", "ReconcilerNotRunning", "NotComparable"),
    "TableUnreadable": ("ReconcilerNotRunning", "BatchNotFresh", "NotComparable"),
    "ForeignWrite": ("NotComparable", "ReconcilerNotRunning"),
    "StreamNotRunning": ("KafkaUnreachable", "NoInput", "WatermarkHeld", "BatchNotFresh", "ReconcilerNotRunning"),
    "KafkaUnreachable": ("NoInput", "OpenTransactionHoldsLog", "BatchNotFresh", "ReconcilerNotRunning"),
    "SealBroken": ("NotComparable", "ReconcilerNotRunning"),
    "WatermarkHeld": ("NoInput",),
}
"""An alert, and those of the same pipeline that follow from it or come with it: they are not sent while it is. What
mutes is never less urgent than what it mutes; `KafkaUnreachable` does not mute the page that it leads to."""
