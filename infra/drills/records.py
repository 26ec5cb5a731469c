"""Producer of a drill: sends valid records by default, and records with chosen defects."""

import json
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from cutover.errors import LogError

PARTITIONS = 2
CARRIERS: Sequence[str | None] = ("AA", "UA", None)
HISTORY_SECONDS, HISTORY_RECORDS = 1_200, 240
FLUSH_SECONDS = 30.0


class Records:
    """Producer of records for one topic; each record has a unique id unless one is given."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self.topic, self._next_id = bootstrap, topic, 0
        self._producer = self.make_producer()

    def make_producer(self, **options: object) -> Producer:
        """Make a Kafka producer for this log, with further options such as `transactional.id`."""
        producer_config = {
            "bootstrap.servers": self._bootstrap,
            "linger.ms": 1,
            "enable.idempotence": True,
            "log_level": 0,
        }
        return Producer({**producer_config, **options})

    def send_history(self) -> None:
        """Send the records of the last twenty minutes, in order of their times."""
        start = time.time() - HISTORY_SECONDS
        for n in range(HISTORY_RECORDS):
            self.send(1, at=start + n * HISTORY_SECONDS / HISTORY_RECORDS, flush=False)
        self.send(2 * PARTITIONS)

    def send(  # noqa: PLR0913 -- each parameter is one possible defect of a record
        self,
        count: int,
        *,
        at: float | None = None,
        logged: float | None = None,
        partition: int | None = None,
        carrier: str | None = "",
        extra: dict[str, Any] | None = None,
        raw: bytes | None = None,
        first_id: int | None = None,
        sender: Producer | None = None,
        flush: bool = True,
    ) -> None:
        """Send records, distributed over partitions and carriers.

        Args:
            count: Number of records.
            at: Event time, seconds since 1970; None: now.
            logged: Log timestamp, seconds since 1970; None: the event time, but not later than now.
            partition: Partition of all records; None: round robin.
            carrier: Carrier of all records; "": round robin.
            extra: Further fields.
            raw: Bytes to send in place of the record.
            first_id: Id of the first record, to send records twice; None: the next unused id.
            sender: Another producer.
            flush: Wait until the broker has acknowledged all records.

        Raises:
            LogError: A record was not acknowledged.
        """
        producer = sender or self._producer
        for n in range(count):
            number = self._allocate_id() if first_id is None else first_id + n
            now = time.time()
            event = now if at is None else at
            row = {"id": number, "carrier": carrier if carrier != "" else CARRIERS[number % 3], "at": int(event * 1000)}
            producer.produce(
                self.topic,
                raw if raw is not None else json.dumps(row | (extra or {})).encode(),
                partition=number % PARTITIONS if partition is None else partition,
                timestamp=int(1000 * (min(event, now) if logged is None else logged)),
            )
        if flush and producer.flush(FLUSH_SECONDS):
            msg = f"Topic {self.topic}: expected all records of the drill to be acknowledged, some were not."
            raise LogError(msg)

    def _allocate_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1
