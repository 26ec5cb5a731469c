"""Alerts on what producers send: late, malformed, ahead of time, twice, other fields, for one key only, nothing."""

import time

from cutover.infra.drills.drill import Act, Drill, nothing
from cutover.infra.drills.stack import Stack

FEW, BURST, USUAL = 6, 30, 400
QUARTER, YEAR = 900.0, 365 * 86_400.0
LARGE_EPOCH = 20


def send_on(stack: Stack) -> None:
    """Send good records again, more than there were bad ones: the producer was mended."""
    stack.records.send(USUAL)
    stack.await_read()


def send_late(stack: Stack) -> None:
    """Send records of a quarter of an hour ago, whose windows have closed."""
    stack.records.send(BURST, at=time.time() - QUARTER, logged=time.time())
    stack.await_read()


def send_malformed(stack: Stack) -> None:
    """Send bytes that are no JSON."""
    stack.records.send(BURST, raw=b"{broken")
    stack.await_read()


def send_future(stack: Stack) -> None:
    """Send records dated a year ahead."""
    stack.records.send(BURST, at=time.time() + YEAR, logged=time.time())
    stack.await_read()


def send_twice(stack: Stack) -> None:
    """Send records, and the same ids with the same times once more."""
    at = time.time()
    stack.records.send(BURST, first_id=1_000_000, at=at)
    stack.records.send(BURST, first_id=1_000_000, at=at)
    stack.await_read()


def send_filtered(stack: Stack) -> None:
    """Send records that the definition's filter leaves out."""
    stack.records.send(BURST, carrier="TEST")
    stack.await_read()


def send_one_key(stack: Stack) -> None:
    """Send ten epochs and more with one key only."""
    for _ in range(12):
        stack.records.send(60, carrier="AA", flush=False)
    stack.records.send(1, carrier="AA")
    stack.await_read()


def send_all_keys(stack: Stack) -> None:
    """Send an epoch with all keys: the default key is gone."""
    stack.records.send(240)
    stack.await_read()


def send_records(stack: Stack) -> None:
    """Send some records to each partition."""
    stack.records.send(FEW)


def send_unknown_field(stack: Stack) -> None:
    """Send records with a field that the schema does not name."""
    stack.records.send(BURST, extra={"tail": "N101"})
    stack.await_read()


def send_to_one_partition(stack: Stack) -> None:
    """Send on to one partition alone: the other one's newest event holds the watermark until it is idle."""
    stack.records.send(FEW, partition=0)


def _of_share(name: str, title: str, inject: Act) -> Drill:
    return Drill(name=name, title=title, inject=inject, heal=send_on)


DRILLS = (
    _of_share("MalformedRateHigh", "a producer sends bytes that are no JSON", send_malformed),
    _of_share("FutureEvents", "a producer's clock is a year ahead", send_future),
    _of_share("DuplicateRateHigh", "a file is sent twice", send_twice),
    Drill(
        name="FilteredRateHigh",
        title="a producer sends only records that the filter excludes",
        inject=send_filtered,
        heal=send_on,
        scale={"filtered_records": FEW},
    ),
    _of_share("LateRateHigh", "a producer holds its records back for a quarter of an hour", send_late),
    Drill(
        name="KeySkewHigh",
        title="a producer sends one key only",
        inject=send_one_key,
        heal=send_all_keys,
        scale={"one_key_records": LARGE_EPOCH},
    ),
    Drill(
        name="SchemaChanged",
        title="a producer sends a field that the schema does not name",
        inject=send_unknown_field,
        heal=send_on,
        scale={"rate_seconds": 12.0},
    ),
    Drill(
        name="NoInput",
        title="no producer sends for longer than `idle_after`",
        before=send_records,
        inject=nothing,
        heal=send_records,
    ),
    Drill(
        name="WatermarkHeld",
        title="one partition receives no records while the other one does",
        before=send_records,
        inject=nothing,
        go_on=send_to_one_partition,
        heal=send_records,
    ),
)
