"""Alerts on input: late, malformed, future, duplicate or filtered records, unknown fields, a single key, no records."""

import time

from cutover.infra.drills.drill import Action, Drill, no_action
from cutover.infra.drills.stack import Stack

FEW_RECORDS, BAD_RECORDS, MANY_RECORDS = 6, 30, 400
QUARTER_HOUR, YEAR = 900.0, 365 * 86_400.0  # seconds
LARGE_EPOCH = 20


def send_valid(stack: Stack) -> None:
    """Send valid records, many more than the invalid ones, as a repaired producer does."""
    stack.records.send(MANY_RECORDS)
    stack.await_read()


def send_late(stack: Stack) -> None:
    """Send records with event times of 15 minutes ago, whose windows have closed."""
    stack.records.send(BAD_RECORDS, at=time.time() - QUARTER_HOUR, logged=time.time())
    stack.await_read()


def send_malformed(stack: Stack) -> None:
    """Send bytes that are not valid JSON."""
    stack.records.send(BAD_RECORDS, raw=b"{broken")
    stack.await_read()


def send_future(stack: Stack) -> None:
    """Send records whose event times are a year ahead."""
    stack.records.send(BAD_RECORDS, at=time.time() + YEAR, logged=time.time())
    stack.await_read()


def send_twice(stack: Stack) -> None:
    """Send records, and then records with the same ids and times."""
    at = time.time()
    stack.records.send(BAD_RECORDS, first_id=1_000_000, at=at)
    stack.records.send(BAD_RECORDS, first_id=1_000_000, at=at)
    stack.await_read()


def send_filtered(stack: Stack) -> None:
    """Send records that the definition's filter drops."""
    stack.records.send(BAD_RECORDS, carrier="TEST")
    stack.await_read()


def send_one_key(stack: Stack) -> None:
    """Send more than ten epochs of records with a single key."""
    for _ in range(12):
        stack.records.send(60, carrier="AA", flush=False)
    stack.records.send(1, carrier="AA")
    stack.await_read()


def send_all_keys(stack: Stack) -> None:
    """Send an epoch with all keys, as a repaired producer does."""
    stack.records.send(240)
    stack.await_read()


def send_few_records(stack: Stack) -> None:
    """Send some records to each partition."""
    stack.records.send(FEW_RECORDS)


def send_unknown_field(stack: Stack) -> None:
    """Send records with a field that is not in the schema."""
    stack.records.send(BAD_RECORDS, extra={"tail": "N101"})
    stack.await_read()


def send_to_one_partition(stack: Stack) -> None:
    """Send records to one partition only; the other one holds the watermark back until it is idle."""
    stack.records.send(FEW_RECORDS, partition=0)


def _make_share_drill(name: str, title: str, inject: Action) -> Drill:
    """Make the drill of an alert on the share of invalid records, which valid records clear."""
    return Drill(name=name, title=title, inject=inject, external_repair=send_valid)


DRILLS = (
    _make_share_drill("MalformedRateHigh", "a producer sends bytes that are not valid JSON", send_malformed),
    _make_share_drill("FutureEvents", "a producer's clock is a year ahead", send_future),
    _make_share_drill("DuplicateRateHigh", "a file is sent twice", send_twice),
    Drill(
        name="FilteredRateHigh",
        title="a producer sends only records that the filter drops",
        inject=send_filtered,
        external_repair=send_valid,
        scale={"filtered_records": FEW_RECORDS},
    ),
    _make_share_drill("LateRateHigh", "a producer delays its records by 15 minutes", send_late),
    Drill(
        name="KeySkewHigh",
        title="a producer sends a single key",
        inject=send_one_key,
        external_repair=send_all_keys,
        scale={"one_key_records": LARGE_EPOCH},
    ),
    Drill(
        name="SchemaChanged",
        title="a producer sends a field that is not in the schema",
        inject=send_unknown_field,
        external_repair=send_valid,
        scale={"rate_seconds": 12.0},
    ),
    Drill(
        name="NoInput",
        title="no producer sends for longer than `idle_after`",
        sustain_clear=send_few_records,
        inject=no_action,
        external_repair=send_few_records,
    ),
    Drill(
        name="WatermarkHeld",
        title="one of two partitions receives no records",
        sustain_clear=send_few_records,
        inject=no_action,
        sustain_fault=send_to_one_partition,
        external_repair=send_few_records,
    ),
)
