"""The seal: one log, one cut, one set of settings on both sides, readable tables; otherwise the data is not compared.

Windows that batch knows from records that were deleted before a version of the stream began are not compared. Files
that a table lists and that cannot be read are found, with their contents, after a read has failed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from cutover.definition.compile.fingerprint import batch_fingerprint, result_fingerprint
from cutover.definition.windows.kinds import Sessions
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, merge_intervals
from cutover.engine import queries
from cutover.engine.schema_store import read_digests
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.control import losses, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs import delivery
from cutover.lake.epochs.delivery import NO_FAULTS, DeliveryFaults
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import foreign_commits, high_water, table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.integrity.high_water import Witness
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.lake.tables.checksums import FileDamagedError
from cutover.lake.tables.schemas import COUNTED, IndexKind
from cutover.log.cut import Cut, LogId
from cutover.log.topic_partitions import split_cut
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.preconditions import checks
from cutover.reconcile.preconditions.checks import ClassCounts, SealFacts, breaches
from cutover.reconcile.result.finding import ComparedLog, Fingerprints, Seal, SealBreach, TablesRead
from cutover.timestamps import format_micros

RUNBOOK = "TableUnreadable"
_CODES = {"EpochHistoryBroken": "history", foreign_commits.RUNBOOK: foreign_commits.Kind.FOREIGN.value}


def find_missing_file(tables_read: Sequence[DeltaTable]) -> SealBreach | None:
    """Return the breach of the first listed file that is not there."""
    for table in tables_read:
        for root, action in _files(table):
            if not delta.file_path(root, action).is_file():
                return _breach(table, root, action, "is listed and not there")
    return None


def find_damaged_file(tables_read: Sequence[DeltaTable]) -> SealBreach | None:
    """Return the breach of the first file that cannot be read to its end; None if all can."""
    for table in tables_read:
        root, action = delta.local_root(table), delta.find_damaged(table)
        if root is not None and action is not None:
            return _breach(table, root, action, "cannot be read")
    return None


def find_overflow_breach(name: str, error: duckdb.Error) -> SealBreach | None:
    """Return the breach of totals over keys or windows that no type holds; None if that is not why a query failed."""
    if not isinstance(error, duckdb.OutOfRangeException):
        return None
    text = f"Tables of {name}: expected measures whose totals fit into 38 digits, got: {str(error).splitlines()[0]}."
    return make_unreadable_breach(text)


def make_damage_breach(error: LakeError) -> SealBreach:
    """Keep the error's text and file; its runbook decides the code, `unreadable` where it names none."""
    breach = make_unreadable_breach(error.text, error.file if isinstance(error, FileDamagedError) else None)
    code = _CODES.get(error.runbook or RUNBOOK)
    return breach if code is None else replace(breach, code=code, runbook=error.runbook)


def make_unreadable_breach(message: str, file: str | None = None) -> SealBreach:
    """Code `unreadable`, with the damaged file's path where it is known."""
    return SealBreach(code="unreadable", message=message, runbook=RUNBOOK, file=file)


def _files(table: DeltaTable) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield folder and add action of each file of a local table; an object store answers when it is read."""
    root = delta.local_root(table)
    if root is None:
        return
    for action in delta.actions(table):
        yield root, action


def _breach(table: DeltaTable, root: Path, action: dict[str, Any], problem: str) -> SealBreach:
    path = str(action["path"])
    contents = delta.describe_contents(table, path)
    text = f"Table `{root}`, version {table.version()}: file `{path}`{f' ({contents})' if contents else ''} {problem}."
    return make_unreadable_breach(text, path)


_WINDOWS = f"""
    SELECT DISTINCT epoch_us(window_start), epoch_us(window_end) FROM batch_index
    JOIN starts ON starts.partition = _partition AND first_offset < starts.first
    JOIN runs ON runs.run = _run
    WHERE _kind = '{IndexKind.RANGE}' ORDER BY 1
"""  # noqa: S608 -- a constant

_BOOKS = """
    SELECT _class, sum(_n) FILTER (_epoch <= ?), sum(_n) FROM books_all GROUP BY 1
"""

_UNACCOUNTED = """
    WITH held AS (
        SELECT DISTINCT epoch_us(window_start) AS opens, epoch_us(window_end) AS ends, _epoch AS found FROM batch),
    left_so AS (SELECT opens, ends, arg_max(epoch, turn) AS wanted FROM (SELECT DISTINCT opens, ends FROM held)
                JOIN spans ON opens >= first AND ends <= last GROUP BY opens, ends)
    SELECT opens, found FROM held LEFT JOIN left_so USING (opens, ends)
    WHERE found IS DISTINCT FROM wanted ORDER BY opens, found LIMIT 1
"""


class SealError(LakeError):
    """There is nothing to compare, or it cannot be read; carries the breach that the report shows."""

    def __init__(self, breach: SealBreach) -> None:
        super().__init__(breach.message, runbook=breach.runbook)
        self.breach = breach


@dataclass(frozen=True, slots=True, kw_only=True)
class SealEvidence:
    """Evidence from which both sides are read: the version, epochs, batch run, counts and losses at the cut."""

    version: Version
    epoch_log: EpochLog
    records: tuple[EpochRecord, ...]  # up to the cut
    run: BatchRun
    batch: DeltaTable
    books: ClassCounts
    losses: tuple[Loss, ...] = ()  # accepted, of this version and of those before it
    delivered: DeliveryFaults = NO_FAULTS  # what came twice or never, up to the cut
    unread: tuple[Range, ...] = ()  # windows with records that went before this version began

    @property
    def watermark(self) -> int | None:
        """Return the stream's watermark at the cut, microseconds."""
        return self.records[-1].watermark_after if self.records else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The seal, the tables it was examined from, and the evidence if it holds."""

    seal: Seal
    evidence: SealEvidence | None
    tables: TablesRead = field(default_factory=TablesRead)


def find_unread_windows(lake: PipelineLake, start: Mapping[int, int], runs: Sequence[BatchRun]) -> tuple[Range, ...]:
    """Return the windows that hold records before the offsets at which the stream's first epoch starts.

    Of sessions: the stretches of time, by whose touch a session may have such records.

    A version begins where the log does: what retention took before, an earlier version has read, and batch.

    Args:
        lake: Pipeline whose batch index is read.
        start: Partition -> offset at which epoch 0 of the version starts.
        runs: Batch runs over the same log.
    """
    start_offsets = {partition: offset for partition, offset in start.items() if offset}
    uri = lake.batch_uri("batch_index")
    if not start_offsets or not delta.exists(uri):
        return ()
    with queries.open_duckdb() as connection:
        delta.relation(connection, "batch_index", uri)
        schema = pa.schema([("partition", pa.int32()), ("first", pa.int64())])
        offsets = {"partition": list(start_offsets), "first": list(start_offsets.values())}
        connection.register("starts", pa.table(offsets, schema=schema))
        connection.register("runs", pa.table({"run": pa.array([run.run_id for run in runs], pa.string())}))
        intervals = [Interval(*row) for row in connection.execute(_WINDOWS).fetchall()]
    if isinstance(lake.pipeline.window, Sessions):  # the index knows stretches of time that hold rows
        return merge_intervals(Interval(start, end - 1 + lake.pipeline.window.gap_micros) for start, end in intervals)
    return _join_windows(intervals, lake.pipeline.window)


def _join_windows(windows: Sequence[Interval], window: AlignedWindowFn) -> tuple[Range, ...]:
    """Return windows that follow one another as one range: first start, last end."""
    ranges: list[Range] = []
    following = None
    for start, end in windows:
        if start == following:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
        following = window.next_start(start)
    return tuple(ranges)


def evaluate_seal(lake: PipelineLake, *, epoch: int | None, epoch_log: EpochLog | None = None) -> Examined:
    """Judge whether the newest batch run (or the one at `epoch`) and the stream can be compared, without raising.

    Args:
        lake: Pipeline to compare.
        epoch: The cut's; None: the newest.
        epoch_log: The current version's, where it is open already. None: its current version is opened.
    """
    try:
        facts, evidence = _gather(lake, epoch, epoch_log)
    except SealError as error:
        return Examined(seal=Seal(epoch=epoch, holds=False, breaches=(error.breach,)), evidence=None)
    except LakeError as error:
        return Examined(seal=Seal(epoch=epoch, holds=False, breaches=(make_damage_breach(error),)), evidence=None)
    seal_breaches = breaches(facts)
    seal = _seal(facts, evidence, seal_breaches)
    return Examined(seal=seal, evidence=None if seal_breaches else evidence, tables=_tables(evidence))


def _gather(lake: PipelineLake, epoch: int | None, opened: EpochLog | None) -> tuple[SealFacts, SealEvidence]:
    version = versions.find_current_version(lake)
    # Read before the log is opened, since its driver continues; a table that existed and is missing is no new one.
    # With a log that was opened earlier there are no witnesses: they may know a later epoch than it shows.
    witnesses = () if version is None or opened is not None else high_water.list_witnesses(lake, version)
    if version is None or not (witnesses or delta.exists(version.uri)):
        text = f"Pipeline `{lake.name}`: expected an epoch log under this definition, found none."
        text += versions.describe_changes(lake, version)
        text += f" `{lake.pipeline.driver_command} --drain`, then"
        text += f" `cutover batch {lake.name}`, makes both sides."
        raise SealError(SealBreach(code="no_stream", message=text, runbook="NotComparable"))
    _reject_foreign(lake)
    run = _choose(lake, version, epoch)
    epoch_log = opened or EpochLog(version.uri)
    batch = _as_read(lake, run)
    try:
        return _facts(lake, version, run, epoch_log, batch, witnesses)
    except duckdb.Error as error:
        breach = find_damaged_file((epoch_log.table, batch))
        if breach is None:
            raise
        raise SealError(breach) from error


def _facts(
    lake: PipelineLake,
    version: Version,
    run: BatchRun,
    epoch_log: EpochLog,
    batch: DeltaTable,
    witnesses: Sequence[Witness],
) -> tuple[SealFacts, SealEvidence]:
    records = tuple(epoch_log.records())
    books = _books(epoch_log, run.epoch)
    runs = batch_runs.read_effective_runs(lake)
    attempts = delivery.read_attempts(epoch_log, records)
    facts = SealFacts(
        stream=version.app_id,
        definition=result_fingerprint(lake.pipeline),
        batch_definition=batch_fingerprint(lake.pipeline),
        records=records,
        transaction=epoch_log.transaction(version.app_id),
        doubts=high_water.find_inconsistencies(version, epoch_log.table, records, witnesses),
        losses=losses.list_of_version(lake.settings, version),
        run=run,
        unaccounted=_find_unaccounted(batch, runs, run),
        books=books,
        pairs=delivery.sum_effective_counts(records, attempts),
        settings=checks.read_settings(lake.pipeline, records, runs, run, read_digests(lake.settings, lake.pipeline)),
    )
    evidence = SealEvidence(
        version=version,
        epoch_log=epoch_log,
        records=facts.up_to_cut,
        run=run,
        batch=batch,
        books=books,
        losses=losses.list_up_to(lake.settings, version),
        delivered=delivery.find_delivery_faults(facts.up_to_cut, attempts),
        unread=find_unread_windows(
            lake, records[0].start if records else {}, [r for r in runs if r.topic_id == run.topic_id]
        ),
    )
    return facts, evidence


def _reject_foreign(lake: PipelineLake) -> None:
    """Refuse to compare where another writer changed or took away a table of the pipeline.

    Raises:
        SealError: Names the table, and how to repair it.
    """
    foreign = next(
        (candidate for candidate in table_weights.list_table_changes(lake) if candidate[0].kind is not Kind.HARMLESS),
        None,
    )
    if foreign is not None:
        change, mends = foreign
        raise SealError(SealBreach(code=change.kind.value, message=change.message(mends), runbook=change.runbook))


def _as_read(lake: PipelineLake, run: BatchRun) -> DeltaTable:
    """Return the batch table as a run left it.

    Its newest version, if that holds the rows of the run: files that others rewrote may be gone from the one before.
    """
    uri = lake.batch_uri()
    newest, runs = delta.open_table(uri), batch_runs.read_effective_runs(lake)
    table_change = table_weights.find_batch_change(newest, "batch", runs)
    holds = runs[-1].run_id == run.run_id and (table_change is None or table_change.kind is Kind.HARMLESS)
    return newest if holds else delta.open_table(uri, run.batch_version)


def _choose(lake: PipelineLake, version: Version, epoch: int | None) -> BatchRun:
    """Return the batch run of this stream version at the newest cut that published a table, or that at `epoch`.

    The newest cut, not the newest run: a run may have been asked to compute at an older one.
    """
    runs = [run for run in batch_runs.read_effective_runs(lake) if run.batch_version is not None]
    fitting = [run for run in runs if run.stream_version == version.number and epoch in {None, run.epoch}]
    if fitting:
        return max(fitting, key=lambda run: (run.epoch, run.sequence))
    at = "" if epoch is None else f" at the cut of epoch {epoch}"
    cut = "" if epoch is None else f" --cut {epoch}"
    text = f"Pipeline `{lake.name}`: expected a batch run{at} beside {version.app_id}, found none"
    text += f" (the newest is at epoch {runs[-1].epoch} of stream-{runs[-1].stream_version})." if runs else "."
    text += versions.describe_changes(lake, version)
    text += f" `cutover batch {lake.name}{cut}{versions.format_option(version.number)}` computes one."
    raise SealError(SealBreach(code="no_batch", message=text, runbook="NotComparable"))


def _books(epoch_log: EpochLog, epoch: int) -> ClassCounts:
    connection = queries.open_duckdb()
    delta.bind(connection, "books_all", epoch_log.table, kinds=COUNTED)
    rows = connection.execute(_BOOKS, [epoch]).fetchall()
    return ClassCounts(
        up_to_cut={str(name): int(at_cut or 0) for name, at_cut, _ in rows},
        in_all={str(name): int(total or 0) for name, _, total in rows},
    )


def _find_unaccounted(batch: DeltaTable, all_runs: Sequence[BatchRun], run: BatchRun) -> tuple[str, int] | None:
    """Return the first window of the batch table that the last recorded run over it did not leave as it is.

    Epochs of another stream version are other numbers, so that no epoch is compared with the cut's.
    """
    ids = [all_run.run_id for all_run in all_runs]
    earlier_runs = all_runs[: ids.index(run.run_id) + 1]
    spans = [
        {"turn": turn, "epoch": earlier_run.epoch, "first": start, "last": end}
        for turn, earlier_run in enumerate(earlier_runs)
        for start, end in earlier_run.computed
    ]
    connection = queries.open_duckdb()
    delta.bind(connection, "batch", batch)
    fields = [pa.field(name, pa.int64()) for name in ("turn", "epoch", "first", "last")]
    connection.register("spans", pa.Table.from_pylist(spans, schema=pa.schema(fields)))
    row = connection.execute(_UNACCOUNTED).fetchone()
    return None if row is None else (str(format_micros(row[0])), int(row[1]))


def _logs(run: BatchRun) -> tuple[ComparedLog, ...]:
    """Return the topics that were read, each with its own part of the cut."""
    log = LogId(cluster_id=run.cluster_id, topic=run.topic, topic_id=run.topic_id)
    topic_cuts = split_cut(Cut(log=log, offsets=run.cut))
    return tuple(
        ComparedLog(
            topic=topic_cut.log.topic,
            topic_id=topic_cut.log.topic_id,
            cluster_id=topic_cut.log.cluster_id,
            cut={str(partition): offset for partition, offset in sorted(topic_cut.offsets.items())},
        )
        for topic_cut in topic_cuts
    )


def _seal(facts: SealFacts, evidence: SealEvidence, seal_breaches: tuple[SealBreach, ...]) -> Seal:
    run, record = facts.run, facts.at_cut
    return Seal(
        epoch=run.epoch,
        logs=_logs(run),
        fingerprints=Fingerprints(
            definition=facts.definition,
            streaming=tuple(sorted({r.result_fingerprint for r in facts.up_to_cut})),
            batch=run.result_fingerprint,
            lateness=evidence.version.lateness_fingerprint,
            batch_definition=run.batch_fingerprint,
        ),
        stream_version=evidence.version.number,
        isolation=run.isolation,
        watermark=format_micros(record.watermark_after if record else None),
        epochs=len(facts.up_to_cut),
        holds=not seal_breaches,
        breaches=seal_breaches,
    )


def _tables(evidence: SealEvidence) -> TablesRead:
    return TablesRead(
        stream=evidence.epoch_log.version,
        batch=int(evidence.batch.version()),
        batch_ledger=evidence.run.ledger_version,
        batch_run=evidence.run.run_id,
    )
