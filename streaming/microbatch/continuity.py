"""State of a driver's log: its ends, whether it is still the log that was read, and whether it is complete.

Records read from one leader over one connection belong to one log. So the marks of the newest epoch are compared with
the log only if a partition has another leader or a connection has ended; otherwise nothing is read twice.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from cutover.errors import LogError
from cutover.events import log
from cutover.lake.integrity import complete_read, lost_records, same_log
from cutover.lake.integrity.same_log import MarkReader
from cutover.log.cut import LogEnd, LogId, Marks
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.process.context import DriverContext, Health, LogSnapshot
from cutover.streaming.sink.committer import Committer
from cutover.streaming.source import start_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICY_CHECK_SECONDS = 10.0
"""How often a driver reads the clean-up policy of its topics: compaction that begins is noticed before it has removed
what is unread."""


class LogProof(NamedTuple):
    """Proof that the log was the one that was read, at a point in time."""

    leaders: Mapping[int, int]  # partition -> leader epoch
    cuts: int  # connections of the driver's client that had ended


class Continuity:
    """State of a driver's log: newest proof, and ends. The engine's lock serialises its callers."""

    def __init__(self, context: DriverContext, committer: Committer, log_id: LogId) -> None:
        self._context, self._committer, self._log = context, committer, log_id
        self.health = Health(context.beat, context.clock)
        self.high: Mapping[int, int] = {}  # high watermarks at the last look; partition -> offset
        self._looked: Mapping[int, int] = {}  # the same, as the main thread saw it
        self._reader = MarkReader(context.client, log_id.topic, context.pipeline.source.isolation)
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="marks")
        self._proof: LogProof | None = None
        self._policy_checked = context.clock.monotonic()

    @property
    def proof(self) -> LogProof:
        """Return the newest proof; the first call makes one.

        Raises:
            LogError: As `prove`.
        """
        return self._proof or self.prove(self._context.client.log_ends(self._log.topic))

    def prove(self, ends: Mapping[int, LogEnd]) -> LogProof:
        """Compare the log with the newest epoch's marks if that is due, and return what is in force now.

        Args:
            ends: As the broker has just said.

        Raises:
            LogError: The log holds other records than those that were read, or no broker answers.
        """
        now, newest = self._make_proof(ends), self._committer.newest
        if now != self._proof:
            if newest is not None:
                history = same_log.recorded_history(self._committer.version.uri)
                same_log.check_log_unchanged(self._context.pipeline.name, self._context.client, newest, history)
            if self._proof is not None:
                log.info("log_proven", pipeline=self._context.pipeline.name, leaders=dict(now.leaders))
            self._proof = now
        return now

    def read_ends(self, position: Mapping[int, int]) -> Mapping[int, LogEnd]:
        """Return the log's ends, and update the heartbeat with them.

        Args:
            position: Next offset of every partition that the driver has read.

        Raises:
            LogError: No broker answers, or a topic is compacted by now.
        """
        client, topic = self._context.client, self._log.topic
        if self._context.clock.monotonic() - self._policy_checked >= POLICY_CHECK_SECONDS:
            lost_records.check_not_compacted(client, topic)
            self._policy_checked = self._context.clock.monotonic()
        ends = client.log_ends(topic)
        high = {p: end.offset for p, end in ends.items()}
        is_behind = any(end > position.get(p, 0) for p, end in high.items())
        stable = client.latest(topic, self._context.pipeline.source.isolation) if is_behind else {}
        live = [p for p, end in high.items() if end > self._looked.get(p, end)]
        self._looked = high
        newest = {p: at for p, at in client.newest_times(topic).items() if p in live} if live else {}
        self.health.note_look(LogSnapshot(read=position, high=high, stable=stable, newest=newest))
        return ends

    def note_ends(self, ends: Mapping[int, LogEnd], *, prove: bool) -> None:
        """Take in what a look has shown.

        Args:
            ends: As the broker has just said.
            prove: Compare the log with the newest epoch's marks, where something may have changed it.

        Raises:
            LogError: As `prove`.
        """
        # An epoch committed since that reading may have read the ends later.
        self.high = {p: max(end.offset, self.high.get(p, 0)) for p, end in ends.items()}
        if prove and self._proof != self._make_proof(ends):
            self.prove(self._context.client.log_ends(self._log.topic))

    def await_same_log(self) -> bool:
        """Check before a commit that the log is still the one that was read; wait while no broker answers.

        Returns:
            False: a stop was requested while it waited. Nothing is committed; the next driver does it.

        Raises:
            LogError: The topic is another one now, or holds other records than those that were read.
        """
        client, pipeline = self._context.client, self._context.pipeline
        while True:
            try:
                ends = client.log_ends(self._log.topic)
                self.high = {p: end.offset for p, end in ends.items()}
                start_offsets.reject_other(pipeline, self._log.topic_id, client.topic_id(self._log.topic))
                self.prove(ends)
            except LogError as error:
                if error.runbook != "KafkaUnreachable":
                    raise
                self.health.note_silence()
                log.warning("kafka_unreachable", pipeline=pipeline.name, waiting_before="commit")
                if self._context.stopping.wait(1.0):
                    return False
            else:
                self.health.note_answer()
                return True

    def check_complete(self, session: "SparkSession", plan: EpochPlan, records: int) -> None:
        """Raise if the log lacks records in an epoch's range, before anything of the epoch is committed.

        Args:
            session: That has read the records.
            plan: The epoch's.
            records: Number of records that were read.

        Raises:
            LakeError: The table of losses or the epoch log cannot be read.
            LogError: Records are missing that no recorded loss names, or no broker answers.
        """
        log_read = complete_read.ReadLog(
            lake=self._context.lake,
            version=self._committer.version,
            client=self._context.client,
            log_id=self._log,
        )
        complete_read.check_complete(session, log_read, [((self._ranges(plan),), records)])

    def mark(self, plan: EpochPlan) -> "Future[Marks]":
        """Read the marks of an epoch while its records are read."""
        return self._beside.submit(self._reader.read_last, self._ranges(plan))

    def is_from_one_log(self, proof: LogProof, plan: EpochPlan, marks: Marks) -> bool:
        """Return whether a plan's records were all read from one log, and its marks too.

        Args:
            proof: The proof before they were read. There is a newer one by now where it was due.
            plan: The epoch's.
            marks: High watermarks that were read at the same time.
        """
        now = self.proof
        if now == proof:
            return True
        if any(now.leaders.get(p) != leader for p, leader in proof.leaders.items()):
            return False
        return self._reader.read_last(self._ranges(plan)) == marks

    def _make_proof(self, ends: Mapping[int, LogEnd]) -> LogProof:
        return LogProof({p: end.leader_epoch for p, end in ends.items()}, self._context.client.disconnects)

    @staticmethod
    def _ranges(plan: EpochPlan) -> dict[int, tuple[int, int]]:
        return {p: (plan.start.get(p, 0), end) for p, end in plan.end.items()}
