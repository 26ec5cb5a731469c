"""Drills of alerts on the input, on the log and on the driver.

Input: late, malformed, future, duplicate or filtered records, unknown fields, a single key, no records. Log: open
transaction, broker down, short retention, new partitions, lost records, recreated topic. Driver: it ended while records
arrive, or another driver has committed.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from cutover import driver_state
from cutover.errors import CutoverError
from cutover.infra.drills.stack import PARTITIONS, PIPELINE, Action, Drill, Stack, no_action
from cutover.infra.processes.supervisor import Supervisor

SENT_RECORDS = 6
REQUEST_SECONDS = 30.0
HOUR = 3_600_000  # milliseconds


def kill_broker(stack: Stack) -> None:
    """Kill the broker and its supervisor, which would restart it."""
    supervisor = Supervisor(stack.home)
    identity = supervisor.identity()
    pids = [state.pid for state in supervisor.states() if state.pid]
    for pid in ([identity.pid] if identity is not None else []) + pids:
        os.kill(pid, signal.SIGKILL)


def _request(stack: Stack, send_request: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
    """Send an administrative request to the cluster, and wait for its result."""
    client = AdminClient({"bootstrap.servers": stack.client.bootstrap, "log_level": 0})
    for future in send_request(client).values():
        future.result(REQUEST_SECONDS)


def add_partitions(stack: Stack) -> None:
    """Double the topic's partitions, and send records to all of them."""
    new_partitions = NewPartitions(stack.topic, 2 * PARTITIONS)
    _request(stack, lambda client: client.create_partitions([new_partitions]))
    send_to_all_partitions(stack)


def send_to_all_partitions(stack: Stack) -> None:
    """Send a record to each partition, by a producer that has seen the new ones."""
    sender = stack.records.make_producer()
    for partition in range(2 * PARTITIONS):
        stack.records.send(1, partition=partition, sender=sender)


def _set_retention(stack: Stack, milliseconds: int) -> None:
    entry = ConfigEntry("retention.ms", str(milliseconds), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, stack.topic, incremental_configs=[entry])
    _request(stack, lambda client: client.incremental_alter_configs([resource]))


def shorten_retention(stack: Stack) -> None:
    """Set the topic's retention to an hour."""
    _set_retention(stack, HOUR)


def restore_retention(stack: Stack) -> None:
    """Set the topic's retention to unlimited, as the runbook requests from its owner."""
    _set_retention(stack, -1)


def delete_unread(stack: Stack) -> None:
    """Send records while no driver runs, and delete all but the last one of each partition."""
    stack.records.send(SENT_RECORDS * PARTITIONS)
    ends = stack.client.latest(stack.topic)
    positions = [TopicPartition(stack.topic, partition, end - 1) for partition, end in ends.items()]
    _request(stack, lambda client: client.delete_records(positions))


def recreate_topic(stack: Stack) -> None:
    """Delete the topic, create it again under the same name, and send records, also of windows after the old ones."""
    stack.stop_driver()
    stack.client.delete_topic(stack.topic)
    stack.make_topic()
    stack.records.send_history()
    first_time = time.time() + 60
    for seconds in range(0, 120, 5):
        stack.records.send(PARTITIONS, at=first_time + seconds, logged=first_time + seconds)


class OpenTransaction:
    """Transaction that a producer leaves open, until its owner ends it."""

    def __init__(self) -> None:
        self._commit: Callable[[], object] = lambda: None

    def begin(self, stack: Stack) -> None:
        """Send records in a transaction and leave it open; send further records outside of it."""
        sender = stack.records.make_producer(**{"transactional.id": "drill", "transaction.timeout.ms": 600_000})
        sender.init_transactions(REQUEST_SECONDS)
        sender.begin_transaction()
        stack.records.send(SENT_RECORDS, sender=sender)
        stack.records.send(SENT_RECORDS)
        self._commit = lambda: sender.commit_transaction(REQUEST_SECONDS)

    def end(self, stack: Stack) -> None:
        """Commit the transaction, as the runbook requests from its owner, and wait for the stream."""
        self._commit()
        stack.await_read()


_TRANSACTION = OpenTransaction()


def find_driver_pid(stack: Stack) -> int:
    """Return the process id of the running driver.

    Raises:
        CutoverError: No driver is running.
    """
    for driver in driver_state.list_drivers(stack.settings.run_dir):
        if driver.alive:
            return driver.identity.pid
    msg = "Drill: expected a running driver, got none."
    raise CutoverError(msg)


def kill_driver(stack: Stack) -> None:
    """Kill the driver and send records, which remain unread."""
    os.kill(find_driver_pid(stack), signal.SIGKILL)
    stack.records.send(SENT_RECORDS)


def resume_suspended_driver(stack: Stack) -> None:
    """Suspend the driver, commit an epoch by a driver of another home, and resume the first one with unread records."""
    pid = find_driver_pid(stack)
    os.kill(pid, signal.SIGSTOP)
    try:
        stack.records.send(SENT_RECORDS)
        stack.require(
            f"cutover stream {PIPELINE} --drain",
            CUTOVER_HOME=str(stack.root / "second-home"),
            CUTOVER_LAKE=stack.settings.lake_uri,
            CUTOVER_KAFKA__BOOTSTRAP_SERVERS=stack.client.bootstrap,
        )
        stack.records.send(SENT_RECORDS)
    finally:
        os.kill(pid, signal.SIGCONT)


LOG_DRILLS = (
    Drill(name="StreamNotRunning", title="the driver is killed while records arrive", inject=kill_driver),
    Drill(
        name="StreamFenced",
        title="the driver is suspended, a driver of another home commits, and the first one resumes",
        inject=resume_suspended_driver,
    ),
    Drill(
        name="OpenTransactionHoldsLog",
        title="a producer leaves a transaction open",
        inject=_TRANSACTION.begin,
        external_repair=_TRANSACTION.end,
    ),
    Drill(name="KafkaUnreachable", title="the broker and its supervisor are killed", inject=kill_broker),
    Drill(
        name="RetentionHeadroomLow",
        title="the topic's retention is set to an hour",
        inject=shorten_retention,
        external_repair=restore_retention,
    ),
    Drill(
        name="PartitionsChanged",
        title="two partitions are added to the topic",
        inject=add_partitions,
        external_repair=send_to_all_partitions,
        scale={"rate_seconds": 30.0},
        is_isolated=True,
    ),
    Drill(
        name="LogDataLost",
        title="unread records are deleted while the driver is stopped",
        inject=delete_unread,
        needs_driver=False,
        is_isolated=True,
    ),
    Drill(
        name="TopicIdentityChanged",
        title="the topic is deleted and created again",
        inject=recreate_topic,
        definition={"max_ahead": "10 seconds"},  # so that windows of the old log end soon after its latest record
        is_isolated=True,
    ),
)


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


INPUT_DRILLS = (
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
