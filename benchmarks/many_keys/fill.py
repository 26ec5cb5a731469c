"""Filling of the topic with many keys, before the measurement.

python -m benchmarks.many_keys.fill --bootstrap HOST:PORT --keys 5000000
"""

import argparse
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.many_keys.driver import TOPIC, settings_of
from cutover.log.kafka import LogClient
from cutover.settings import Settings

START_MILLIS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
PARTITIONS = 2


def fill(settings: Settings, keys: int, passes: int) -> None:
    """Create the topic and send each key once per pass, so that the epochs of a pass have different keys.

    Raises:
        AssertionError: The log does not have all records.
    """
    client = LogClient(settings)
    client.create_topic(TOPIC, partitions=PARTITIONS, config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": client.bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(keys * passes):
        send_record(producer, number, number % keys)
    producer.flush(300)
    record_count = sum(client.latest(TOPIC).values())
    if record_count != keys * passes:
        msg = f"expected {keys * passes} records, the log holds {record_count}"
        raise AssertionError(msg)


def send_record(producer: Producer, number: int, key: int) -> None:
    """Send one record; wait while the client's buffer is full."""
    value = b'{"id":%d,"k":"key-%08d","v":%d,"at":%d}' % (number, key, number % 1_009, START_MILLIS + number % 60_000)
    while True:
        try:
            producer.produce(TOPIC, value, partition=number % PARTITIONS)
        except BufferError:
            producer.poll(0.05)
        else:
            return


def main() -> None:
    """Fill the topic of a running broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--passes", type=int, default=1)
    args = parser.parse_args()
    fill(settings_of(Path(), args.bootstrap, 1), args.keys, args.passes)


if __name__ == "__main__":
    main()
