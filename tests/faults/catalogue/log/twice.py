"""Records that are sent twice, as a producer does whose acknowledgement got lost: each counts once, on both paths."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from cutover.definition import Policy
from cutover.reconcile.result.finding import Verdict
from cutover.records.classes import Class
from tests.faults.fault import Fault
from tests.faults.refused import count_of, positions
from tests.faults.running.rig import Rig
from tests.integration.streaming import rig as small
from tests.integration.streaming.rig import Event

RECORDS = 60
STRICT = Policy(max_late_share=1.0, max_duplicate_share=0.01)
Repeat = Callable[[Rig, Sequence[Event]], None]


def at_once(rig: Rig, events: Sequence[Event]) -> None:
    """Repeat each record behind the others: in the same epoch or the next ones."""
    small.send(rig.settings, rig.topic, events)


def elsewhere(rig: Rig, events: Sequence[Event]) -> None:
    """Repeat each record in the other partition, once a driver has read the first ones."""
    rig.drain()
    small.send(rig.settings, rig.topic, [replace(event, partition=1 - event.partition) for event in events])


def after_a_restart(rig: Rig, events: Sequence[Event]) -> None:
    """Repeat each record in its partition once a driver has read the first ones and has ended."""
    rig.drain()
    small.send(rig.settings, rig.topic, events)


def after_a_kill(rig: Rig, events: Sequence[Event]) -> None:
    """Repeat each record once a driver was killed just behind the commit of the epoch that holds some of them."""
    driver = rig.start(block=("epoch.committed", 1))
    driver.marker()
    driver.kill()
    small.send(rig.settings, rig.topic, events)


def send_twice(rig: Rig, *, repeat: Repeat, cap: int) -> None:
    """Send records that the oracle knows, and each of them once more; then others."""
    rig.define(policy=STRICT, record_id="id", cap=cap)
    events = rig.draw(RECORDS)
    rig.send(events)
    repeat(rig, events)
    rig.send(rig.draw(RECORDS // 2))
    rig.drain()


def both_are_in_the_log(rig: Rig) -> bool:
    """The log holds as many records more than were sent for the first time."""
    acked = sum(oracle_record.outcome == "acked" for oracle_record in rig.oracle.records)
    return sum(rig.client.latest(rig.topic).values()) == acked + RECORDS


def each_repeat_is_in_both_ledgers(rig: Rig) -> Iterator[str]:
    """One of each two is a duplicate, none is late, and no window differs."""
    if count_of(rig, Class.DUPLICATE) != RECORDS:
        yield f"expected {RECORDS} duplicates, the epochs counted {count_of(rig, Class.DUPLICATE)}"
    stream, batch = (positions(rig, view, Class.DUPLICATE) for view in ("ledger", "batch_ledger"))
    if len(stream) != RECORDS:
        yield f"expected {RECORDS} duplicates in the stream's ledger, got {len(stream)}"
    if not batch:
        yield "expected duplicates in the ledger of batch, got none"
    if count_of(rig, Class.LATE):
        yield f"{count_of(rig, Class.LATE)} rows are late"


def _twice(variant: str, title: str, repeat: Repeat, *, cap: int = 20) -> Fault:
    return Fault(
        id="F16",
        variant=variant,
        family="input",
        title=f"each record is sent twice: {title}",
        inject=partial(send_twice, repeat=repeat, cap=cap),
        happened=both_are_in_the_log,
        holds=(each_repeat_is_in_both_ledgers,),
        verdicts=frozenset({Verdict.CONSISTENT}),
        alert="DuplicateRateHigh",
        stays=True,
    )


FAULTS = (
    _twice("epoch", "in one epoch", at_once, cap=10_000),
    _twice("next", "in later epochs", at_once),
    _twice("restart", "after a restart", after_a_restart),
    _twice("killed", "after its driver was killed behind a commit", after_a_kill),
    _twice("partition", "in the other partition, after a restart", elsewhere),
)
