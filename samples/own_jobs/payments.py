"""Payments of two days at six shops, as JSON with amounts in quotes: some terminals are offline for hours."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "payments"
SHOPS = ("airport", "books", "coffee", "drugs", "energy", "flowers")
START = datetime(2026, 3, 2, tzinfo=UTC)
RECORDS = 12_000
STEP = timedelta(days=2) / RECORDS
PARTITIONS = 2
OFFLINE_SHARE = 0.01
SETTLED_SHARE = 0.9


def list_payments(seed: int = 7) -> Iterator[dict[str, object]]:
    """Yield payments in the order in which they reach the topic."""
    rng = random.Random(seed)  # noqa: S311 -- made-up payments
    arrivals = []
    for number in range(RECORDS):
        paid_at = START + number * STEP
        is_offline = rng.random() < OFFLINE_SHARE
        delay = timedelta(hours=rng.uniform(1, 9)) if is_offline else timedelta(seconds=rng.expovariate(1 / 20))
        payment = {
            "event_id": number,
            "merchant": rng.choice(SHOPS),
            "amount": f"{rng.lognormvariate(3, 1):.2f}",
            "status": "settled" if rng.random() < SETTLED_SHARE else "declined",
            "event_time": paid_at.isoformat().replace("+00:00", "Z"),
        }
        arrivals.append((paid_at + delay, number, payment))
    yield from (payment for _, _, payment in sorted(arrivals, key=lambda arrival: arrival[:2]))


def send_payments(bootstrap: str) -> int:
    """Create the topic, send all payments, and return their number."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, payment in enumerate(list_payments()):
        producer.produce(TOPIC, json.dumps(payment), partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()
    return RECORDS
