"""Sources of the facts: the epoch log, opened at one version, and the log, whose records are counted by epoch.

The driver retains the files of an old version for hours, longer than a run takes, so no pin is needed. Of the log's
records only counts and the newest timestamps are read, no values.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import TypeVar

import duckdb

from cutover.counts import count_clause
from cutover.definition.windows.window_fn import WindowFn
from cutover.engine import queries
from cutover.errors import LakeError, LogError
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import find_incomplete_ranges
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import high_water, lost_records, table_weights
from cutover.lake.integrity.lost_records import LostRecords, format_lost, record_bounds
from cutover.lake.integrity.same_log import check_log_unchanged
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import COUNTED, kind_sql
from cutover.log.kafka import LogClient
from cutover.log.record_batches import OffsetRange
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution import attribution
from cutover.reconcile.preconditions import seal
from cutover.reconcile.verify.facts.facts import LogCounts, VerifyFacts

ROWS = "stream_log"
ALL_ROWS = "rows_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """Options of a run of the checks."""

    now: datetime  # decides which pins are in force
    seed: int = 0
    exhaustive: bool = False  # recompute and count all retained epochs, not a sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Open epoch log: view `stream_log` has its rows without epoch records; `ledger` and `doubtful` derive from it."""

    lake: PipelineLake
    version: Version
    log: EpochLog
    connection: duckdb.DuckDBPyConnection
    request: VerifyRequest


def open_source(lake: PipelineLake, request: VerifyRequest) -> tuple[Source, VerifyFacts]:
    """Open a pipeline's current version and read the facts of its epoch records.

    Raises:
        LakeError: There is no current version, or one of its files is missing or cannot be read.
    """
    version = table_weights.check_epoch_log(lake, versions.find_current_version(lake))
    # Before the log is opened, as its driver continues to commit.
    witnesses = high_water.list_witnesses(lake, version)
    log = EpochLog(version.uri)
    _reject_missing_files(log)
    connection = queries.open_duckdb(queries.make_reader_limits(lake.settings))
    source = Source(lake=lake, version=version, log=log, connection=connection, request=request)
    try:
        records = tuple(log.records())
        delta.bind(connection, ALL_ROWS, log.table)
        connection.execute(f"CREATE TEMP VIEW {ROWS} AS SELECT * FROM {ALL_ROWS} WHERE {kind_sql(*COUNTED)}")  # noqa: S608 -- ours
        attribution.create_ledger_tables(connection, lake.pipeline, records)
    except duckdb.Error as error:
        raise explain_unreadable(log, error) from error
    facts = VerifyFacts(
        stream=version.app_id,
        pipeline=lake.pipeline,
        records=records,
        transaction=log.transaction(version.app_id),
        witnesses=witnesses,
        losses=losses.list_of_version(lake.settings, version),
        table_version=log.version,
    )
    return source, facts


def explain_unreadable(log: EpochLog, error: duckdb.Error) -> LakeError | duckdb.Error:
    """Return the damage that made a query fail; the query's error if every file can be read."""
    breach = seal.find_damaged_file((log.table,))
    return error if breach is None else LakeError(breach.message, runbook=breach.runbook)


def _reject_missing_files(log: EpochLog) -> None:
    breach = seal.find_missing_file((log.table,))
    if breach is not None:
        raise LakeError(breach.message, runbook=breach.runbook)


Result = TypeVar("Result")
MOST = 2_000_000  # offsets that are counted unless a run is exhaustive
ATTEMPTS = 3  # to read a log whose start moves during the read


@dataclass(frozen=True, slots=True, kw_only=True)
class SameLog:
    """Current state of the log that the epochs were read from."""

    client: LogClient
    topic: str
    isolation: str  # isolation level of the epochs' reads
    earliest: Mapping[int, int]  # partition -> first retained offset
    incomplete: Mapping[int, Sequence[OffsetRange]] = field(default_factory=dict)  # recorded as having lost records

    def holds(self, record: EpochRecord) -> bool:
        """Return whether the log still holds every record that an epoch read."""
        spans = ((p, record.start.get(p, 0), end) for p, end in record.end.items())
        return all(
            start >= self.earliest.get(p, 0)
            and not any(
                incomplete_start < end and start < incomplete_end
                for incomplete_start, incomplete_end in self.incomplete.get(p, ())
            )
            for p, start, end in spans
            if end > start
        )

    def ranges(self, records: Sequence[EpochRecord]) -> dict[int, tuple[int, int]]:
        """Return the offsets of each partition that some retained epochs have read, from the log's current start.

        An epoch that read nothing starts where the previous one ended, and the log may have lost what follows there.
        """
        starts = {p: _start_of(records, p) for p in records[-1].end}
        return {p: (max(start, self.earliest.get(p, 0)), records[-1].end[p]) for p, start in starts.items()}


def _start_of(records: Sequence[EpochRecord], partition: int) -> int:
    """Return the offset at which the first of some epochs with a partition begins to read it."""
    return next((r.start.get(partition, 0) for r in records if partition in r.end), 0)


def read_retained(source: Source, facts: VerifyFacts, read: Callable[[SameLog], Result]) -> Result:
    """Read the log; again from its new start if retention deleted records during the read.

    Raises:
        LogError: No broker answers, the topic was replaced by another log, or retention is faster than every attempt.
    """
    log = same_log(source.lake, facts)
    for _ in range(ATTEMPTS):
        try:
            return read(log)
        except LogError:
            previous, log = log, same_log(source.lake, facts)
            if log.earliest == previous.earliest:
                raise
    return read(log)


def same_log(lake: PipelineLake, facts: VerifyFacts) -> SameLog:
    """Describe the log that these epochs were read from.

    Raises:
        LogError: No broker answers, the topic was replaced by another log, or it holds other records than those read.
    """
    records = facts.records
    newest, client = records[-1], LogClient(lake.settings)
    description = client.describe(newest.topic)
    if (description.cluster_id, description.topic_id) != (newest.cluster_id, newest.topic_id):
        expected = f"expected {newest.topic_id} as in the epochs"
        msg = f"Topic `{newest.topic}` now has topic id {description.topic_id}, {expected}."
        raise LogError(msg, runbook="TopicIdentityChanged")
    check_log_unchanged(lake.name, client, newest, lambda: records)
    earliest = client.earliest(newest.topic)
    incomplete_ranges = find_incomplete_ranges(facts.losses, newest.topic_id)
    return SameLog(
        client=client, topic=newest.topic, isolation=newest.isolation, earliest=earliest, incomplete=incomplete_ranges
    )


def count_log_records(source: Source, facts: VerifyFacts) -> LogCounts:
    """Count the records of the newest epochs, or of all retained epochs if the run is exhaustive.

    Raises:
        LogError: No broker answers, or the topic was replaced by another log.
    """
    if not facts.records:
        return LogCounts(records={}, newest={}, is_complete=True)
    return read_retained(source, facts, partial(_count_retained, source, facts))


def _count_retained(source: Source, facts: VerifyFacts, log: SameLog) -> LogCounts:
    retained = select_retained(facts.records, log)
    counted_epochs = retained if source.request.exhaustive else select_newest(retained, MOST)
    records, newest = _count_records(log, counted_epochs)
    totals = {r.epoch: sum(records[r.epoch, p] for p in r.end) for r in counted_epochs}
    window = facts.pipeline.window
    losses = find_lost_epochs(
        log, [r for r in counted_epochs if totals[r.epoch] < record_bounds(r.counts, window)[0]], window
    )
    lost_epochs = {loss.epoch for loss in losses}
    return LogCounts(
        records={at: n for at, n in records.items() if at[0] not in lost_epochs},
        newest=newest,
        is_complete=len(counted_epochs) == len(facts.records),
        omission=_describe_omission(facts.records, retained, counted_epochs),
        lost_records=format_lost(losses),
    )


def find_lost_epochs(log: SameLog, records: Sequence[EpochRecord], window: WindowFn) -> tuple[LostRecords, ...]:
    """Return the epochs whose missing records the log has lost; other epochs recorded a wrong count.

    Raises:
        LogError: No broker answers, or retention is faster than the count.
    """
    losses = lost_records.find_lost(log.client, records, (), window, max_offsets=lost_records.ALL)
    return tuple(loss for loss in losses if loss.is_explained)


def select_retained(records: Sequence[EpochRecord], log: SameLog) -> Sequence[EpochRecord]:
    """Return the newest epochs whose records the log holds without exception."""
    incomplete_places = [index for index, record in enumerate(records) if not log.holds(record)]
    return records[incomplete_places[-1] + 1 if incomplete_places else 0 :]


def select_newest(records: Sequence[EpochRecord], limit: int) -> Sequence[EpochRecord]:
    """Return as many of the newest epochs as together have read at most `limit` offsets."""
    spans = [sum(end - r.start.get(p, 0) for p, end in r.end.items()) for r in reversed(records)]
    fitting = sum(total <= limit for total in accumulate(spans))
    return records[len(records) - fitting :]


def _count_records(log: SameLog, records: Sequence[EpochRecord]) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """Return the records by epoch and partition, and the newest log timestamp up to the end of each epoch."""
    counts = {(r.epoch, p): 0 for r in records for p in r.end}
    if not records:
        return counts, {}
    newest: dict[int, int] = {}
    ends = {p: [r.end.get(p, 0) for r in records] for p in records[-1].end}
    for p, offset, logged in log.client.positions(log.topic, log.ranges(records), log.isolation):
        record = records[bisect_right(ends[p], offset)]
        epoch = record.epoch
        counts[epoch, p] += offset >= record.start.get(p, 0)
        if logged > newest.get(epoch, -1):
            newest[epoch] = logged
    so_far = accumulate((newest.get(r.epoch, -1) for r in records), max)
    return counts, {r.epoch: at for r, at in zip(records, so_far, strict=True) if at >= 0}


def _describe_omission(
    records: Sequence[EpochRecord], retained: Sequence[EpochRecord], sampled: Sequence[EpochRecord]
) -> str:
    lost_count, older_count = len(records) - len(retained), len(retained) - len(sampled)
    texts = []
    if lost_count:
        texts.append(
            f"Epochs up to {records[lost_count - 1].epoch} cannot be counted again: their records have left the log."
        )
    if older_count:
        older = count_clause(older_count, "older epoch", "was", "were")
        texts.append(f"{older} not counted again; `--all` counts all.")
    return " ".join(texts)
