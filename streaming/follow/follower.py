"""Follower: an engine whose epochs are the micro-batches of a team's own query, and the loop that drives it.

A job counts as stopped once it has made no batch for a time that is learned (`JobPace`), since a checkpoint does not
say whether its query runs all the time or is started every night: twice the longest time between two batches of the
last four weeks. A job that has been seen for less than a week may be one that rests over a weekend.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cutover.engine import spark
from cutover.errors import LogError
from cutover.events import log
from cutover.lake.epochs.delivery import compute_next_epoch
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import FollowedBatch
from cutover.log.cut import Cut
from cutover.positions import followed_job
from cutover.positions.followed_job import read_offsets
from cutover.records.reading.scan import read_records
from cutover.streaming.microbatch import aggregate
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.dedup_state import LookupResult
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.process.context import DriverContext, find_cause
from cutover.streaming.process.time_policy import FollowedTimePolicy
from cutover.streaming.sink.committer import Committer
from cutover.streaming.source import query
from cutover.streaming.source.start_offsets import StartOffsets
from cutover.timestamps import MICROSECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY, WEEK = MICROSECONDS["day"], 7 * MICROSECONDS["day"]
DAYS_KEPT = 28
FIRST_GAP = 2 * DAY
"""Shortest time between two batches that is assumed of a job in its first week."""

FACTOR = 2


@dataclass(slots=True)
class JobPace:
    """Times between the batches of a job, of which only the longest one of each day is kept."""

    _first: int | None = None  # when its first batch was planned, microseconds
    _latest: int = 0
    _longest_by_day: dict[int, int] = field(default_factory=dict)

    def note(self, planned_at: int) -> None:
        """Note when the next batch was planned, in microseconds; a clock that was set back adds nothing."""
        if self._first is None:
            self._first = self._latest = planned_at
        gap, self._latest = planned_at - self._latest, max(planned_at, self._latest)
        day = self._latest // DAY
        if day not in self._longest_by_day:
            for old in [other for other in self._longest_by_day if other <= day - DAYS_KEPT]:
                del self._longest_by_day[old]
        self._longest_by_day[day] = max(gap, self._longest_by_day.get(day, 0))

    def estimate_silence(self) -> float | None:
        """Return for how many seconds the job may make no batch; None before its first one."""
        if self._first is None:
            return None
        longest = max(self._longest_by_day.values())
        longest = longest if self._latest - self._first >= WEEK else max(longest, FIRST_GAP)
        return FACTOR * longest / 1e6


class Follower(MicrobatchEngine):
    """Engine that repeats batches of a job, one epoch each."""

    def __init__(
        self, context: DriverContext, committer: Committer, beginning: StartOffsets, time_policy: FollowedTimePolicy
    ) -> None:
        super().__init__(replace(context, time_policy=time_policy), committer, beginning)
        self._time_policy = time_policy
        self._batch: FollowedBatch | None = None  # the one that is repeated
        self._pace = JobPace()
        self._noted_batch = -1  # newest one that the pace knows

    @property
    def newest_batch(self) -> int:
        """Return the number of the newest batch that an epoch repeats; -1 before the first."""
        newest = self.committer.newest
        return -1 if newest is None or newest.job_batch is None else newest.job_batch

    def follow(self, session: "SparkSession", batch: FollowedBatch) -> None:
        """Repeat one batch: read its offsets, judge its records by its watermark, commit an epoch.

        Raises:
            CutoverError: Records are missing, or the epoch cannot be committed.
        """
        starts, ends = read_offsets(batch.starts), read_offsets(batch.ends)
        with self.lock:
            self._batch, self._time_policy.watermark = batch, batch.watermark
            if self.newest_batch < 0:
                self.position = starts
            ranges = {p: (self.position.get(p, 0), end) for p, end in ends.items() if end > self.position.get(p, 0)}
            if ranges:
                columns = ("value", "partition", "offset", "timestamp", "_right")
                self._process_epoch(read_records(session, self.context.lake, (ranges,)).select(*columns), batch.number)
            else:
                self.tick(self._advance({}, self.position))
        self.context.beat.update(job_unread_since=None)

    def note_batches(self, batches: Sequence[FollowedBatch]) -> None:
        """Note when the job planned the batches that are new among all archived ones, which are ascending."""
        for batch in batches[bisect_right(batches, self._noted_batch, key=lambda batch: batch.number) :]:
            self._pace.note(batch.planned_at)
            self._noted_batch = batch.number

    def poll(self) -> None:
        """Read the log's ends, and note since when the job has not read them; only the job advances time."""
        with self.lock:
            self.continuity.note_ends(self.continuity.read_ends(dict(self.position)), prove=True)
            beat = self.context.beat
            # All batches are repeated, so what is unread by us is unread by the job, which reads when it likes.
            unread_since = None if beat.now.unread_since is None else beat.now.job_unread_since or beat.now.unread_since
            beat.update(unread_since=None, job_unread_since=unread_since, job_silence=self._pace.estimate_silence())
            self.compactor.step()

    def _commit(
        self, epoch_partials: aggregate.EpochPartials, record: EpochRecord, lookup_result: LookupResult | None = None
    ) -> None:
        """Commit an epoch with the number of the batch that it repeats."""
        number = None if self._batch is None else self._batch.number
        super()._commit(epoch_partials, replace(record, job_batch=number), lookup_result)

    def _plan(self, number: int) -> EpochPlan:
        """Return the offsets of the batch, and the watermark that judged it."""
        batch = self._batch
        if batch is None or batch.number != number:
            msg = f"Follower: expected batch {number} to be the current one."
            raise ValueError(msg)
        end = read_offsets(batch.ends)
        return EpochPlan(
            epoch=compute_next_epoch(self.committer.newest),
            start=dict.fromkeys(end, 0) | self.position,
            end=dict(self.position) | end,
            clipped=False,
            watermark=self._find_judging_watermark(batch),
        )

    def _find_judging_watermark(self, batch: FollowedBatch) -> int | None:
        """Find the watermark by which the job judged a batch; 0, the beginning of 1970, before its first one."""
        if not self._time_policy.closes:
            return None
        is_single = followed_job.get_stream(self.context.lake).single_watermark
        return batch.watermark if is_single else batch.judged_by


def open_follower(context: DriverContext, committer: Committer, beginning: StartOffsets) -> Follower:
    """Open the follower of a pipeline's job.

    Raises:
        CutoverError: The checkpoint cannot be read, or is that of another job.
    """
    checkpoint = followed_job.read_followed_checkpoint(context.lake)
    time_policy = FollowedTimePolicy(closes=followed_job.drops_late_records(context.lake, checkpoint))
    return Follower(context, committer, beginning, time_policy)


def follow_job(context: DriverContext, follower: Follower, *, drain: bool, aim: Cut | None = None) -> bool:
    """Repeat the job's batches as they commit, until a stop is requested; of a drain, those that have committed.

    Args:
        context: Of the driver.
        follower: Engine that repeats the batches.
        drain: Stop once all committed batches are repeated.
        aim: Repeat only batches that end at this cut or before; None: all.

    Returns:
        Whether a drain has repeated all of them.

    Raises:
        CutoverError: The job can no longer be followed; says why.
    """
    session = spark.session(context.lake.settings, app=f"cutover-{context.pipeline.name}")
    follower.recorder.begin_query(session)
    context.beat.update(state="RUNNING")
    archive = followed_job.JobArchive(context.lake, context.clock)
    while not context.stopping.is_set():
        follower.note_batches(archive.update())
        for batch in _list_pending(archive.batches, follower.newest_batch, aim):
            if context.stopping.is_set():
                return False
            _follow_batch(context, follower, session, batch)
        _poll(context, follower)
        if drain:
            return True
        if (context.place / "stop").exists():
            context.stopping.set()
        context.stopping.wait(context.lake.settings.stream.trigger_seconds)
    return False


def _follow_batch(context: DriverContext, follower: Follower, session: "SparkSession", batch: FollowedBatch) -> None:
    """Repeat one batch; an error of Spark or of the log is raised as what it means.

    A signal to the whole process group stops Spark's JVM as well as this process: the next driver repeats the batch.
    """
    try:
        follower.follow(session, batch)
    except Exception as error:
        is_jvm_gone = query.jvm_gone(session)
        if is_jvm_gone and context.stopping.is_set():
            log.info("stopped_with_jvm", pipeline=context.pipeline.name, job_batch=batch.number)
            return
        cause = find_cause(error, context, follower.committer, jvm_gone=is_jvm_gone)
        if cause is error:
            raise
        raise cause from error


def _list_pending(archived: Sequence[FollowedBatch], newest: int, aim: Cut | None) -> list[FollowedBatch]:
    """List the batches that no epoch repeats yet, and that end at a cut or before."""
    return [
        batch
        for batch in archived
        if batch.number > newest
        and (aim is None or all(end <= aim.offsets.get(p, 0) for p, end in read_offsets(batch.ends).items()))
    ]


def _poll(context: DriverContext, follower: Follower) -> None:
    try:
        follower.poll()
    except LogError as error:
        if error.runbook != "KafkaUnreachable":
            raise
        log.warning("kafka_unreachable", pipeline=context.pipeline.name, waiting_before="look")
