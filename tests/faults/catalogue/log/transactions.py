"""Transactions in the log: aborted, over two epochs, left open. A reader of committed records sees none of it."""

from collections.abc import Iterator
from dataclasses import replace

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.faults.catalogue.log.kafka import catches_up
from tests.faults.fault import Fault
from tests.faults.refused import says, text_of
from tests.faults.running import producer
from tests.faults.running.rig import Rig
from tests.integration.streaming.rig import Event


def transaction(rig: Rig, name: str) -> Producer:
    """Return a producer inside a new transaction."""
    options = {"transactional.id": f"{rig.topic}-{name}", "transaction.timeout.ms": 600_000}
    transactional = producer.new(str(rig.settings.kafka.bootstrap_servers), **options)
    transactional.init_transactions(30)
    transactional.begin_transaction()
    return transactional


def abort_and_commit_among_others(rig: Rig) -> None:
    """Five records aborted and five committed, plain ones around them."""
    rig.send(rig.draw(30))
    aborting, committing = transaction(rig, "aborting"), transaction(rig, "committing")
    rig.send(rig.draw(5), by=aborting, outcome="aborted")
    rig.send(rig.draw(5), by=committing)
    rig.send(rig.draw(10))
    aborting.abort_transaction(30)
    committing.commit_transaction(30)
    rig.send(rig.draw(30))
    rig.drain()


def abort_over_two_epochs(rig: Rig) -> None:
    """One transaction of more records than an epoch takes, aborted; plain ones in between."""
    rig.define(cap=10)
    rig.send(rig.draw(15))
    aborting = transaction(rig, "aborting")
    for _ in range(3):
        rig.send([e for e in rig.draw(20) if e.partition == 0], by=aborting, outcome="aborted")
        rig.send(rig.draw(4))
    aborting.abort_transaction(30)
    rig.send(rig.draw(15))
    rig.drain()


def leave_one_open(rig: Rig) -> None:
    """A transaction stays open in partition 0 while others send; then it is committed."""
    rig.send(rig.draw(30))
    driver = rig.background()
    rig.until(lambda: rig.unread() == 0)
    hanging = transaction(rig, "hanging")
    rig.send([_in(0, e) for e in rig.draw(5)], by=hanging)
    rig.send(rig.draw(40))
    stable, high = rig.client.latest(rig.topic), rig.client.high_watermarks(rig.topic)
    rig.note("held", [stable[0], high[0]])
    rig.until(lambda: (rig.records()[-1].end[1]) == high[1])
    rig.note("text", text_of(rig, "OpenTransactionHoldsLog"))
    rig.note("read meanwhile", rig.records()[-1].end[0])
    hanging.commit_transaction(30)
    catches_up(rig, driver)


def _in(partition: int, event: Event) -> Event:
    return replace(event, partition=partition)


def an_uncommitted_reader_sees_more(rig: Rig) -> bool:
    """The records of the aborted transaction are in the log."""
    aborted = [(s.partition, s.offset) for s in rig.oracle.records if s.outcome == "aborted" and s.offset is not None]
    consumer = Consumer(
        {
            "bootstrap.servers": rig.settings.kafka.bootstrap_servers,
            "group.id": "faults",
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        return bool(aborted) and all(_is_there(consumer, TopicPartition(rig.topic, p, o)) for p, o in aborted)
    finally:
        consumer.close()


def _is_there(consumer: Consumer, position: TopicPartition) -> bool:
    consumer.assign([position])
    message = consumer.poll(10)
    return message is not None and message.error() is None and message.offset() == position.offset


def the_log_was_held(rig: Rig) -> bool:
    """The last stable offset was below the high watermark."""
    stable, high = rig.evidence["held"]
    return bool(stable < high)


def it_waited_for_the_transaction(rig: Rig) -> Iterator[str]:
    """Nothing behind the open transaction was read before its end, everything after it."""
    stable, _ = rig.evidence["held"]
    if rig.evidence["read meanwhile"] != stable:
        yield f"expected partition 0 read up to {stable}, was {rig.evidence['read meanwhile']}"


def some_epoch_spans_more_offsets_than_records(rig: Rig) -> Iterator[str]:
    """Gaps in the offsets are seen, and are no finding."""
    spans = [sum(end - r.start.get(p, 0) for p, end in r.end.items()) > r.records for r in rig.records()]
    if sum(spans) < 1:
        yield "no epoch spans an offset that is no data"


def aborted_records_lie_in_two_epochs(rig: Rig) -> Iterator[str]:
    """Offsets of the aborted records show it."""
    aborted = [s.offset for s in rig.oracle.records if s.outcome == "aborted" and s.offset is not None]
    epochs = {r.epoch for r in rig.records() for o in aborted if r.start.get(0, 0) <= o < r.end[0]}
    if len(epochs) < 2:
        yield f"all lie in {epochs}"


FAULTS = (
    Fault(
        id="F10",
        variant="a",
        family="kafka",
        title="transactions aborted and committed among plain records",
        inject=abort_and_commit_among_others,
        happened=an_uncommitted_reader_sees_more,
        holds=(some_epoch_spans_more_offsets_than_records,),
    ),
    Fault(
        id="F10",
        variant="b",
        family="kafka",
        title="an aborted transaction over two epochs",
        inject=abort_over_two_epochs,
        happened=an_uncommitted_reader_sees_more,
        holds=(aborted_records_lie_in_two_epochs, some_epoch_spans_more_offsets_than_records),
    ),
    Fault(
        id="F10",
        variant="c",
        family="kafka",
        title="a transaction is left open, and committed later",
        inject=leave_one_open,
        happened=the_log_was_held,
        holds=(
            it_waited_for_the_transaction,
            says(lambda rig: [f"partition 0 has been held at offset {rig.evidence['held'][0]}"]),
        ),
        alert="OpenTransactionHoldsLog",
        limits={"open_seconds": 2.0},
    ),
)
