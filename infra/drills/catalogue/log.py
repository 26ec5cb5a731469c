"""Alerts on the log: held by a transaction, silent, kept too short, with more partitions, with holes, made again."""

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

from cutover.infra.drills.drill import Drill
from cutover.infra.drills.records import PARTITIONS
from cutover.infra.drills.stack import Stack
from cutover.infra.processes.supervisor import Supervisor

FEW = 6
ASK_SECONDS = 30.0
HOUR = 3_600_000  # milliseconds


def kill_broker(stack: Stack) -> None:
    """Kill the broker and whoever would start it again."""
    supervisor = Supervisor(stack.home)
    identity = supervisor.identity()
    pids = [state.pid for state in supervisor.states() if state.pid]
    for pid in ([identity.pid] if identity is not None else []) + pids:
        os.kill(pid, signal.SIGKILL)


def _change(stack: Stack, ask: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
    """Ask the cluster for a change, and wait until it is made."""
    client = AdminClient({"bootstrap.servers": stack.client.bootstrap, "log_level": 0})
    for answer in ask(client).values():
        answer.result(ASK_SECONDS)


def add_partitions(stack: Stack) -> None:
    """Give the topic twice as many partitions, and send to all of them."""
    new_partitions = NewPartitions(stack.topic, 2 * PARTITIONS)
    _change(stack, lambda client: client.create_partitions([new_partitions]))
    send_to_new(stack)


def send_to_new(stack: Stack) -> None:
    """Send to each partition, by a producer that knows of those that came."""
    sender = stack.records.make_producer()
    for partition in range(2 * PARTITIONS):
        stack.records.send(1, partition=partition, by=sender)


def _keep(stack: Stack, milliseconds: int) -> None:
    entry = ConfigEntry("retention.ms", str(milliseconds), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, stack.topic, incremental_configs=[entry])
    _change(stack, lambda client: client.incremental_alter_configs([resource]))


def shorten_retention(stack: Stack) -> None:
    """Let the topic keep records for an hour only."""
    _keep(stack, HOUR)


def keep_records(stack: Stack) -> None:
    """Let the topic keep records of any age, as its owner was asked to."""
    _keep(stack, -1)


def delete_unread(stack: Stack) -> None:
    """Send records that nobody reads, and delete most of them."""
    stack.records.send(FEW * PARTITIONS)
    ends = stack.client.latest(stack.topic)
    places = [TopicPartition(stack.topic, p, end - 1) for p, end in ends.items()]
    _change(stack, lambda client: client.delete_records(places))


def make_again(stack: Stack) -> None:
    """Delete the topic, make it again under its name, and send to it: also to windows that the old one never fed."""
    stack.stop_driver()
    stack.client.delete_topic(stack.topic)
    stack.make_topic()
    stack.records.send_history()
    later = time.time() + 60
    for seconds in range(0, 120, 5):
        stack.records.send(PARTITIONS, at=later + seconds, logged=later + seconds)


class OpenTransaction:
    """A producer that begins a transaction, and ends it when its owner was asked."""

    def __init__(self) -> None:
        self._end: Callable[[], object] = lambda: None

    def begin(self, stack: Stack) -> None:
        """Send records in a transaction and leave it open; others send behind it."""
        sender = stack.records.make_producer(**{"transactional.id": "drill", "transaction.timeout.ms": 600_000})
        sender.init_transactions(ASK_SECONDS)
        sender.begin_transaction()
        stack.records.send(FEW, by=sender)
        stack.records.send(FEW)
        self._end = lambda: sender.commit_transaction(ASK_SECONDS)

    def end(self, stack: Stack) -> None:
        """Commit it, as its owner was asked to, and let the stream read on."""
        self._end()
        stack.await_read()


_TRANSACTION = OpenTransaction()

DRILLS = (
    Drill(
        name="OpenTransactionHoldsLog",
        title="a producer leaves a transaction open",
        inject=_TRANSACTION.begin,
        heal=_TRANSACTION.end,
    ),
    Drill(name="KafkaUnreachable", title="the broker and its supervisor are killed", inject=kill_broker),
    Drill(
        name="RetentionHeadroomLow",
        title="the topic's retention is set to one hour",
        inject=shorten_retention,
        heal=keep_records,
    ),
    Drill(
        name="PartitionsChanged",
        title="the topic gets two more partitions",
        inject=add_partitions,
        heal=send_to_new,
        scale={"rate_seconds": 30.0},
        fresh=True,
    ),
    Drill(
        name="LogDataLost",
        title="unread records are deleted while the driver is stopped",
        inject=delete_unread,
        driver=False,
        fresh=True,
    ),
    Drill(
        name="TopicIdentityChanged",
        title="the topic is deleted and created again",
        inject=make_again,
        definition={"max_ahead": "10 seconds"},  # how far beyond its newest record the old log may have fed windows
        fresh=True,
    ),
)
