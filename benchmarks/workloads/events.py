"""Events of all figures, the definition over them, and a producer that verifies the number of sent records."""

import random
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.log.kafka import LogClient
from cutover.log.options import bootstrap_servers
from cutover.settings import Settings

PARTITIONS = 4
KEYS = 200
START_MILLIS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
EVENTS_PER_SECOND = 5_000  # of event time
DISORDER_MILLIS = 20_000
CAP = 50_000  # records per micro-batch: the default of a definition
WINDOW = "Fixed(seconds=10)"
SCHEMA = "id bigint NOT NULL, k string, v bigint, at timestamp NOT NULL"

_DEFINITION = '''"""What the benchmark `{name}` computes."""

from cutover.definition import Count, Fixed, Lateness, Max, Pipeline, Sessions, Sliding, Sum, Topic

{name} = Pipeline(
    name="{name}",
    source=Topic(name="{name}", schema="{schema}", event_time="at", time_format="millis"),
    key=("k",),
    window={window},
    measures={{"n": Count(), "total": Sum("v"), "worst": Max("v"), "ids": Sum("id")}},
    lateness=Lateness(out_of_orderness="{out_of_orderness}", allowed="0 seconds", max_ahead="3650 days"),
    max_rows_per_epoch={cap},
)
'''


def define(
    settings: Settings, name: str, *, cap: int, out_of_orderness: str = "1 minute", window: str = WINDOW
) -> Pipeline:
    """Write a definition whose topic has its name, and load it."""
    settings.pipelines.mkdir(parents=True, exist_ok=True)
    text = _DEFINITION.format(name=name, schema=SCHEMA, cap=cap, out_of_orderness=out_of_orderness, window=window)
    (Path(settings.pipelines) / f"{name}.py").write_text(text, encoding="utf-8")
    return catalogue.get(settings, name)


def make_topic(settings: Settings, topic: str) -> None:
    """Create a topic with unlimited retention."""
    LogClient(settings).create_topic(topic, partitions=PARTITIONS, config={"retention.ms": "-1"})


def encode_event(number: int, key: int, amount: int, at_millis: int) -> bytes:
    """Encode an event as JSON."""
    return b'{"id":%d,"k":"key-%d","v":%d,"at":%d}' % (number, key, amount, at_millis)


def encode_live_event(number: int, millis: int) -> bytes:
    """Encode an event of the current time, with all keys in turn."""
    return encode_event(number, number * 7_919 % KEYS, number % 1_000, millis)


def generate_events(
    count: int, *, keys: int = KEYS, per_second: int = EVENTS_PER_SECOND
) -> Iterator[tuple[int, bytes]]:
    """Yield log time (milliseconds) and value of events, up to 20 s out of order, `per_second` of event time."""
    rng = random.Random(7)  # noqa: S311 -- test data, the same every time
    for number in range(count):
        log_time = START_MILLIS + DISORDER_MILLIS + number * 1_000 // per_second
        at = log_time - int(rng.random() * DISORDER_MILLIS)
        yield log_time, encode_event(number, int(rng.random() * keys), int(rng.random() * 1_000), at)


def generate_cells(cells: int, passes: int, *, keys: int = 10_000) -> Iterator[tuple[int, bytes]]:
    """Yield events of `cells` (window, key) rows, one event per row and pass."""
    for turn in range(passes):
        for cell in range(cells):
            at = START_MILLIS + cell // keys * 10_000 + turn
            yield START_MILLIS, encode_event(turn * cells + cell, cell % keys, cell % 1_301, at)


def make_producer(settings: Settings, **changes: str | float) -> Producer:
    """Make an idempotent producer, which preserves the order within a partition."""
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers(settings),
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
            **changes,
        }
    )


def fill(settings: Settings, topic: str, events: Iterator[tuple[int, bytes]]) -> int:
    """Create a topic, send events to its partitions in turn, and return the number of records in the log.

    Raises:
        AssertionError: The log does not contain all of them.
    """
    make_topic(settings, topic)
    sender, sent_count = make_producer(settings), 0
    for sent_count, (log_time, value) in enumerate(events, start=1):
        send_record(sender, topic, value, partition=sent_count % PARTITIONS, millis=log_time)
    unsent = sender.flush(60)
    stored = sum(LogClient(settings).latest(topic).values())
    if unsent or stored != sent_count:
        msg = f"Topic `{topic}`: expected {sent_count} records, got {stored}, with {unsent} unsent."
        raise AssertionError(msg)
    return sent_count


def send_record(sender: Producer, topic: str, value: bytes, *, partition: int, millis: int) -> None:
    """Send one record; wait while the client's buffer is full."""
    while True:
        try:
            sender.produce(topic, value, partition=partition, timestamp=millis)
        except BufferError:
            sender.poll(0.05)
        else:
            return
