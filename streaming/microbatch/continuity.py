"""Whether the log that a driver reads still is the one that it has read: proven anew where that may have changed.

What is read from one leader over one connection is one log. So the leaders that the broker names at every look, and the
connections that ended, say when the newest epoch's marks have to be compared with the log; else nothing is read twice.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from cutover.events import log
from cutover.lake.integrity import same_log
from cutover.log.cut import LogEnd
from cutover.log.mark import Marks
from cutover.log.marks import MarkReader
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink.committer import Committer


class LogProof(NamedTuple):
    """What was in force when the log was last known to be the one that was read."""

    leaders: Mapping[int, int]  # partition -> leader epoch
    cuts: int  # connections of the driver's client that had ended


class Continuity:
    """Keeps the newest proof. The stream's lock keeps its callers apart."""

    def __init__(self, context: DriverContext, committer: Committer, topic: str) -> None:
        self._rim, self._committer, self._topic = context, committer, topic
        self._reader = MarkReader(context.client, topic, context.pipeline.source.isolation)
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="marks")
        self._proof: LogProof | None = None

    @property
    def proof(self) -> LogProof:
        """Return the newest proof; the first one is made at the first question.

        Raises:
            LogError: As `prove`.
        """
        return self._proof or self.prove(self._rim.client.log_ends(self._topic))

    def is_due(self, ends: Mapping[int, LogEnd]) -> bool:
        """Return whether something may have changed the log since it was proven."""
        return self._proof != self._make_proof(ends)

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
                known = same_log.recorded_history(self._committer.version.uri)
                same_log.refuse_changed(self._rim.pipeline.name, self._rim.client, newest, known)
            if self._proof is not None:
                log.info("log_proven", pipeline=self._rim.pipeline.name, leaders=dict(now.leaders))
            self._proof = now
        return now

    def mark(self, plan: EpochPlan) -> "Future[Marks]":
        """Read the marks of an epoch while its records are read."""
        return self._beside.submit(self._reader.last, self._ranges(plan))

    def is_from_one_log(self, since: LogProof, plan: EpochPlan, marks: Marks) -> bool:
        """Return whether a plan's records were all read from one log, and its marks too.

        Args:
            since: The proof before they were read. There is a newer one by now where it was due.
            plan: The epoch's.
            marks: What was read beside it.
        """
        now = self.proof
        if now == since:
            return True
        if any(now.leaders.get(p) != leader for p, leader in since.leaders.items()):
            return False
        return self._reader.last(self._ranges(plan)) == marks

    def _make_proof(self, ends: Mapping[int, LogEnd]) -> LogProof:
        return LogProof({p: end.leader_epoch for p, end in ends.items()}, self._rim.client.cuts)

    @staticmethod
    def _ranges(plan: EpochPlan) -> dict[int, tuple[int, int]]:
        return {p: (plan.start.get(p, 0), end) for p, end in plan.end.items()}
