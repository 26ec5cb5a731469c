"""Who sends records in a drill: whole ones with the log's clock, and what is wrong with them by choice."""

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
    """Sends records into one topic; each has an id of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self.topic, self._next_id = bootstrap, topic, 0
        self._producer = self.make_producer()

    def make_producer(self, **options: object) -> Producer:
        """Return a producer of this log, with options of its own such as `transactional.id`."""
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

    def send(  # noqa: PLR0913 -- each is one way in which a record may be wrong
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
        by: Producer | None = None,
        flush: bool = True,
    ) -> None:
        """Send records, dealt out over partitions and carriers.

        Args:
            count: How many.
            at: Event time, seconds since 1970; None: now.
            logged: Log timestamp; None: the event time, but never later than now.
            partition: None: each in turn.
            carrier: "": each in turn.
            extra: Further fields.
            raw: Bytes in place of a record.
            first_id: Id of the first, to send it once more; None: the next one.
            by: Another producer.
            flush: Whether to wait until the log has them.

        Raises:
            LogError: Not all of them reached the log.
        """
        producer = by or self._producer
        for n in range(count):
            number = self._take_id() if first_id is None else first_id + n
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
            msg = f"Topic {self.topic}: expected all records of the drill in the log, got some without an answer."
            raise LogError(msg)

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1
