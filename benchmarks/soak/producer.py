"""Producer of the soak test: a steady stream of small records until the process is terminated.

python -m benchmarks.soak.producer --topic TOPIC --bootstrap HOST:PORT --rate 500
"""

import argparse
import itertools
import json
import random
import time

from confluent_kafka import Producer

from benchmarks.soak import workload

LATE_EVERY = 500  # one record in 500 is a minute late


def main() -> None:
    """Send records until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--rate", type=int, required=True)
    args = parser.parse_args()
    producer = Producer({"bootstrap.servers": args.bootstrap, "linger.ms": 20})
    rng, began = random.Random(7), time.monotonic()  # noqa: S311 -- test data
    for number in itertools.count():
        at = int(time.time() * 1000) - (60_000 if number % LATE_EVERY == LATE_EVERY - 1 else rng.randrange(2_000))
        value = {"id": number, "k": f"key-{rng.randrange(workload.KEYS)}", "v": rng.randrange(1000), "at": at}
        producer.produce(args.topic, json.dumps(value).encode(), partition=number % workload.PARTITIONS)
        ahead = number / args.rate - (time.monotonic() - began)
        producer.poll(max(0.0, ahead))


if __name__ == "__main__":
    main()
