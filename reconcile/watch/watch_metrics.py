"""What `cutover watch` tells: every alert, firing or not, and when somebody looked last."""

import re
from collections.abc import Iterator
from datetime import datetime

from cutover.metrics import text_files
from cutover.metrics.families import MetricSample, render
from cutover.reconcile.watch.alerts.catalogue import ALERTS, ALERTS_BY_NAME
from cutover.reconcile.watch.status import WatchStatus
from cutover.settings import Settings

_NAME = re.compile(r"[A-Z][A-Za-z]{0,62}\Z")  # of a page; a driver's own file names one


def samples(found: WatchStatus) -> Iterator[MetricSample]:
    """Yield the numbers of one look; nothing of what is not known."""
    name = found.pipeline
    yield from _alerts(found)
    looked = datetime.fromisoformat(found.at).timestamp()
    yield MetricSample("cutover_watch_last_look_timestamp_seconds", (name,), looked)
    if found.driver is not None:
        yield MetricSample("cutover_watch_driver_alive", (name,), float(found.driver.alive))
    if found.late_share is not None:
        yield MetricSample("cutover_watch_late_ratio", (name,), found.late_share)
    if found.watermark_lag_seconds is not None:
        yield MetricSample("cutover_watch_watermark_lag_seconds", (name,), found.watermark_lag_seconds)
    for one in found.partitions:
        yield MetricSample("cutover_watch_unread_offsets", (name, str(one.partition)), one.unread)


def _alerts(found: WatchStatus) -> Iterator[MetricSample]:
    """Yield every decided alert of the list, and what fires beside it: a page of another name, as errors name them.

    A driver that failed fires as `StreamNotRunning` too where what it named wakes nobody by itself.
    """
    firing = {one.name: one.severity for one in found.alerts if _NAME.match(one.name)}
    if found.driver is not None and found.driver.state == "FAILED" and set(firing) - set(ALERTS_BY_NAME):
        firing["StreamNotRunning"] = "page"
    for alert, severity in {**firing, **{spec.name: spec.severity for spec in ALERTS}}.items():
        if alert in found.undecided and alert not in firing:
            continue
        yield MetricSample("cutover_alert_firing", (found.pipeline, alert, severity), float(alert in firing))


def tell(settings: Settings, found: WatchStatus) -> None:
    """Replace the file of metrics by what one look has found; one that cannot be written is a warning."""
    text_files.put(settings, "watch", found.pipeline, render(samples(found)))
