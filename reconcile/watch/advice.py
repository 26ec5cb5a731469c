"""Which runbooks a status calls for: each with what was seen; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cutover.definition.pipeline import Policy
from cutover.lake.epochs import EpochRecord
from reconcile.report.text import number, share
from reconcile.watch.lag import Driver, Lag

MALFORMED_SHARE = 0.01
"""Malformed records / all records of the newest epochs, above which somebody should look."""

DISK_BYTES = 1 << 30
"""Free bytes below which a commit may soon not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One page to open, and why."""

    runbook: str
    because: str


def of_lag(verdict: Lag, driver: Driver) -> tuple[Advice, ...]:
    """Return the page of a stream that does not run as it should: the driver's own if it named one."""
    if verdict is Lag.REWOUND:
        return (Advice(runbook="LogDataLost", because="the log ends before the position, or the position went back"),)
    ended_well = driver.state == "STOPPED" and driver.error is None
    if verdict not in {Lag.STOPPED, Lag.STALLED} or (verdict is Lag.STOPPED and ended_well):
        return ()
    because = "no driver lives" if verdict is Lag.STOPPED else "records are unread and nothing is committed"
    return (Advice(runbook=driver.runbook or "StreamNotRunning", because=because),)


def of_records(records: Sequence[EpochRecord], late_share: float, policy: Policy) -> tuple[Advice, ...]:
    """Return the pages that the newest epochs call for."""
    found = []
    if late_share > policy.max_late_share:
        because = f"late share {share(late_share)}, the policy allows {share(policy.max_late_share)}"
        found.append(Advice(runbook="LateRateHigh", because=because))
    read = sum(record.records for record in records)
    malformed = sum(record.counts.get("malformed", 0) for record in records)
    if read and malformed / read > MALFORMED_SHARE:
        because = f"{share(malformed / read)} of {number(read)} records are malformed"
        found.append(Advice(runbook="MalformedRateHigh", because=because))
    unknown = sum(record.unknown for record in records)
    if unknown:
        because = f"{number(unknown)} of {number(read)} records carry a field that the schema does not name"
        found.append(Advice(runbook="SchemaChanged", because=because))
    return tuple(found)


def of_disk(free: int | None) -> tuple[Advice, ...]:
    """Return the page of a disk that fills; None: the lake is not on a disk of this machine."""
    if free is None or free >= DISK_BYTES:
        return ()
    return (Advice(runbook="DiskHeadroomLow", because=f"{free / DISK_BYTES:.2f} GiB are free at the lake"),)
