"""One key with most of the records, and ten times the keys: the watcher says so before a limit is reached."""

from collections import Counter
from collections.abc import Iterator

from tests.faults.fault import Fault
from tests.faults.running.clocks import WrongClock
from tests.faults.running.rig import Rig

EPOCHS, RECORDS = 12, 40
HOUR = 3600.0
ONE, OTHERS = "a", "bcd"
MOSTLY = ONE * 27 + OTHERS
"""Nine of ten records."""


def send_one_key(rig: Rig) -> None:
    """Send epochs of which one key has nine of ten records."""
    rig.define(cap=2 * RECORDS)
    for _ in range(EPOCHS):
        rig.send(rig.draw(RECORDS, keys=MOSTLY))
        rig.drain()
    rig.note("histogram", [f"{key}: {number}" for key, number in sorted(_histogram(rig).items())])
    rig.note("share", _histogram(rig)[ONE] / _histogram(rig).total())


def _histogram(rig: Rig) -> Counter[str]:
    return Counter(str(oracle_record.key[0]) for oracle_record in rig.oracle.records if oracle_record.key)


def one_key_has_most(rig: Rig) -> bool:
    """More than four of five of what was sent."""
    return bool(rig.evidence["share"] > 0.8)


def send_more_keys(rig: Rig) -> None:
    """Send some keys in the hours before, as the driver's clock has it, and ten times as many in this one."""
    few, many = [f"key {n}" for n in range(4)], [f"key {n}" for n in range(40)]
    rig.define(cap=5 * RECORDS)
    for hours in (2, 1):
        rig.send(rig.draw(RECORDS, keys=few))
        rig.drain(clock=WrongClock(-(hours + 0.1) * HOUR))
    rig.send(rig.draw(5 * RECORDS, keys=many))
    rig.drain()
    rig.note("rows", [record.rows for record in rig.records() if record.records])


def epochs_have_more_rows(rig: Rig) -> bool:
    """Three times as many in the newest hour as in each of those before."""
    *earlier_rows, newest_rows = rig.evidence["rows"]
    return bool(newest_rows > 3 * max(earlier_rows))


def the_alert_says_how_much(rig: Rig) -> Iterator[str]:
    """In numbers."""
    texts = [alert.text for alert in rig.firing if alert.name in {"KeySkewHigh", "TableGrowthHigh"}]
    if not texts or not all(any(sign.isdigit() for sign in text) for text in texts):
        yield f"expected a number, got {texts}"


FAULTS = (
    Fault(
        id="F19",
        variant="one-key",
        family="input",
        title="nine of ten records on one key",
        inject=send_one_key,
        happened=one_key_has_most,
        holds=(the_alert_says_how_much,),
        alert="KeySkewHigh",
        stays=True,
        limits={"one_key_records": RECORDS // 2},
    ),
    Fault(
        id="F19",
        variant="many-keys",
        family="input",
        title="ten times the keys, in epochs of five times the size",
        inject=send_more_keys,
        happened=epochs_have_more_rows,
        holds=(the_alert_says_how_much,),
        alert="TableGrowthHigh",
        stays=True,
        limits={"growth_hours": 1, "growth_rows": 20, "batch_schedules": 9.0},  # the batch path is not in this
    ),
)
