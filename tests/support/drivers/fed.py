"""A driver whose micro-batches a test cuts: all but Spark's own query is the product's, over a real log and table.

What Spark's query does is done by hand: the end offsets are noted where the driver reads them, and its function is
called with the records up to there. So an epoch ends where the test says, and a start costs no query.
"""

import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from cutover.clock import Point
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log import topic_partitions
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.reading.scan import read_records
from cutover.streaming import driver
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat, run_folder
from cutover.streaming.sink.committer import new_run_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDLE_EPOCHS = 30
"""More than compaction leaves alone."""


class HandClock:
    """The machine's wall clock, and seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        """Return the wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self.seconds


def _offsets_by_topic(log: str, end: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """Return the offsets as Spark notes them: by topic."""
    offsets: dict[str, dict[str, int]] = {topic: {} for topic in topic_partitions.split_topics(log)}
    for partition, offset in end.items():
        place = topic_partitions.make_topic_partition(log, partition)
        offsets[place.topic][str(place.partition)] = offset
    return offsets


class KilledError(BaseException):
    """The driver ends here; nothing that it would have done after this point is done."""


class Fed:
    """One start of a driver, until it is left alone or killed."""

    def __init__(self, spark: "SparkSession", lake: PipelineLake, clock: HandClock) -> None:
        self._spark, self.lake, self.clock = spark, lake, clock
        self.dies_at: Point | None = None
        place = run_folder(lake.settings, lake.name)
        place.mkdir(parents=True, exist_ok=True)
        context = DriverContext(
            lake=lake,
            client=LogClient(lake.settings),
            clock=clock,
            probe=self._probe,
            beat=HeartbeatWriter(place / "heartbeat.json", first_beat(new_run_id(), clock), seconds=1, clock=clock),
            place=place,
        )
        committer, beginning = driver.prepare_stream(context)
        self.stream = MicrobatchEngine(context, committer, beginning)
        self._number = 0

    def anew(self) -> Self:
        """Return another start of the same stream, from what the table and the log say."""
        return type(self)(self._spark, self.lake, self.clock)

    @property
    def newest(self) -> EpochRecord | None:
        """Return the newest epoch that this driver knows to be committed."""
        return self.stream.committer.newest

    def feed(self, end: Mapping[int, int]) -> None:
        """Process a micro-batch from the current position to `end` (next offset of every partition)."""
        log, start = self.stream.log.topic, self.stream.position
        note = self.stream.checkpoint / "offsets" / str(self._number)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("v1\n{}\n" + json.dumps(_offsets_by_topic(log, end)))
        spans = {p: (start.get(p, 0), offset) for p, offset in end.items() if offset > start.get(p, 0)}
        number, self._number = self._number, self._number + 1
        if spans:
            self.stream.process_batch(read_records(self._spark, self.lake, (spans,)), number)

    def feed_and_die(self, end: Mapping[int, int], point: Point) -> None:
        """Process a micro-batch and kill the driver at a point of its epoch. The disk is left as after SIGKILL."""
        self.dies_at = point
        with contextlib.suppress(KilledError):
            self.feed(end)
            assert all(offset <= self.stream.position.get(p, 0) for p, offset in end.items())  # there was no epoch

    def poll(self) -> None:
        """Poll the log's ends as the driver's main thread does between epochs; this can advance time."""
        self.stream.poll()
        self._upkeep()

    def compact(self) -> None:
        """Pass enough epochs without data that earlier ones can be folded, and fold them."""
        for _ in range(IDLE_EPOCHS):
            with self.stream.lock:
                self.stream.tick(self.stream.time)
        for _ in range(3):
            self.poll()

    def _upkeep(self) -> None:
        work = self.stream.compactor._work
        if work is not None:
            work.join()

    def _probe(self, point: Point, epoch: int) -> None:  # noqa: ARG002 -- the probe's signature
        if point == self.dies_at:
            raise KilledError
