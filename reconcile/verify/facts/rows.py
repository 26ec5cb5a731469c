"""Facts from the rows of the epoch log and of the batch path: totals, commits, foreign changes, duplicates.

In batch's ledger and index each offset is scanned once and each position listed once. In the epoch log a segment is the
epochs whose accepted rows share one epoch number: folded rows carry the number of the last epoch. It also shows windows
that were reopened.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind
from cutover.pipeline_lake import BatchTable, PipelineLake
from cutover.reconcile.verify.facts import results
from cutover.reconcile.verify.facts.facts import (
    BatchLedger,
    DoubledPosition,
    EpochCommit,
    LedgerFault,
    Reopened,
    RescannedOffsets,
    RowTotals,
    VerifyFacts,
)
from cutover.reconcile.verify.facts.source import ROWS, Source
from cutover.records.classes import Class
from cutover.records.reference import UncountedPair
from cutover.records.watermark import compute_late_margin

# Duplicates are those of the windows that a run computed: each run that computes a window again lists them again.
_DOUBLED = f"""
    SELECT position.partition, position."offset", epoch_us(window_start), count(*), list_sort(list(DISTINCT _run))
    FROM (SELECT *, unnest(_positions) AS position FROM batch_ledger_rows WHERE _positions IS NOT NULL)
    GROUP BY position.partition, position."offset", window_start, CASE WHEN _class = '{Class.DUPLICATE}' THEN _run END
    HAVING count(*) > 1 ORDER BY 1, 2, 3
"""

# A run that started from scratch deleted the rows of earlier runs.
_PRESENT = f"""
    SELECT _run FROM batch_ledger_rows UNION SELECT _run FROM batch_index_rows WHERE _kind = '{IndexKind.RANGE}'
"""

LEDGER = "SELECT _class, _partition, _offset, epoch_us(window_start), epoch_us(event_time), reason FROM ledger"
LABELS = f"SELECT DISTINCT _epoch FROM {ROWS} WHERE _class = '{Class.ACCEPTED}'"
_END = "epoch_us(window_end)"
_PAIRS = f"""
    SELECT _epoch, _class, sum(_n)::BIGINT, sum(coalesce(len(_positions), 0))::BIGINT FROM {ROWS} GROUP BY 1, 2
"""
_DOUBTFUL = """
    SELECT why, count(*), min((_epoch, _partition, _offset)) AS first FROM doubtful GROUP BY why ORDER BY why
"""
_REOPENED = f"""
    SELECT _epoch, epoch_us(window_start) AS opens, any_value(watermark) AS closing, sum(_n)::BIGINT
    FROM {ROWS} JOIN segments ON _epoch = last
    WHERE _class = '{Class.ACCEPTED}' AND {{first_end}} + ? <= watermark GROUP BY 1, 2 ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive epochs whose accepted pairs are all in rows that carry the last epoch's number."""

    first_epoch: int
    last_epoch: int


def read_batch_ledger(source: Source, facts: VerifyFacts) -> BatchLedger:
    """Find positions listed more than once in the ledger of the newest recorded run, and offsets scanned twice.

    Raises:
        LakeError: A table of the batch path cannot be read.
    """
    del facts
    lake = source.lake
    runs = [run for run in batch_runs.read_effective_runs(lake) if run.ledger_version is not None]
    if not runs:
        return BatchLedger()
    tables: tuple[tuple[BatchTable, int | None], ...] = (
        ("batch_ledger", runs[-1].ledger_version),
        ("batch_index", None),
    )
    with queries.open_duckdb(queries.make_reader_limits(source.lake.settings)) as connection:
        for name, version in tables:
            delta.relation(connection, f"{name}_rows", lake.batch_uri(name), version=version)
        doubled = connection.execute(_DOUBLED).fetchall()
        present = {str(run_id) for (run_id,) in connection.execute(_PRESENT).fetchall()}
    return BatchLedger(
        doubled=tuple(
            DoubledPosition(partition=partition, offset=offset, window_start=start, rows=count, runs=tuple(run_ids))
            for partition, offset, start, count, run_ids in doubled
        ),
        rescanned=tuple(_find_rescanned([run for run in runs if run.run_id in present])),
    )


def _find_rescanned(runs: Sequence[BatchRun]) -> Iterator[RescannedOffsets]:
    """Yield the offsets that two runs scanned, whose records are therefore counted twice."""
    for partition in sorted({partition for run in runs for partition in run.scanned}):
        scans = sorted((*run.scanned[partition], run.run_id) for run in runs if partition in run.scanned)
        for (_, first_end, first_run), (second_start, second_end, second_run) in pairwise(scans):
            if second_start < first_end:
                yield RescannedOffsets(
                    partition=partition,
                    start=second_start,
                    end=min(first_end, second_end),
                    runs=(first_run, second_run),
                )


def segments(records: Sequence[EpochRecord], labels: Iterable[int]) -> tuple[Segment, ...]:
    """Split epochs into a segment for each epoch number that accepted rows carry, ascending.

    A fold leaves rows only under the last of its epochs, so rows cover all epochs since the preceding number. Leading
    epochs that counted nothing are left out: the later the first epoch of a segment, the tighter its watermark bounds
    the rows.
    """
    borders = sorted(set(labels))
    return tuple(
        Segment(first_epoch=_find_first_epoch(records, previous, border), last_epoch=border)
        for previous, border in zip([-1, *borders], borders, strict=False)
    )


def _find_first_epoch(records: Sequence[EpochRecord], previous: int, border: int) -> int:
    counting = (r.epoch for r in records if previous < r.epoch <= border and r.counts.get(Class.ACCEPTED, 0))
    return min(counting, default=border)


def compute_row_totals(source: Source, facts: VerifyFacts) -> RowTotals:
    """Sum the rows of the table by epoch and class."""
    del facts
    totals = source.connection.execute(_PAIRS).fetchall()
    doubts = source.connection.execute(_DOUBTFUL).fetchall()
    return RowTotals(
        pairs={(epoch, name): int(n) for epoch, name, n, _ in totals},
        positions={(epoch, name): int(positions) for epoch, name, _, positions in totals},
        doubts=tuple(_make_ledger_fault(fault, rows, *place) for fault, rows, place in doubts),
    )


def _make_ledger_fault(
    fault: str, rows: int, epoch: int | None, partition: int | None, offset: int | None
) -> LedgerFault:
    return LedgerFault(fault=fault, rows=rows, epoch=epoch, partition=partition, offset=offset)


def read_commits(source: Source, facts: VerifyFacts) -> tuple[EpochCommit, ...]:
    """Read the commits that the table's history retains, oldest first."""
    del facts
    newest_first = (
        EpochCommit(
            version=int(c["version"]),
            operation=str(c.get("operation")),
            mark=c.get("userMetadata"),
            restored_version=_parse_restore_version(c),
        )
        for c in delta.list_commits(source.log.table)
    )
    return tuple(newest_first)[::-1]


def _parse_restore_version(commit: Mapping[str, Any]) -> int | None:
    """Parse the version that a RESTORE names; None if it names a time, and for all other commits."""
    version = str(commit.get("operationParameters", {}).get("version"))
    return int(version) if commit.get("operation") == "RESTORE" and version.isdigit() else None


def list_foreign_changes(source: Source, facts: VerifyFacts) -> tuple[str, ...]:
    """List the changes of other writers to rows of the pipeline's tables."""
    del facts
    return list_foreign(source.lake)


def list_foreign(lake: PipelineLake) -> tuple[str, ...]:
    """Describe each change by another writer; if a table cannot be read, those found before it.

    Raises:
        LakeError: A table cannot be read, and no earlier table was changed.
    """
    foreign = []
    try:
        for change, _ in table_weights.list_table_changes(lake):
            if change.kind is Kind.FOREIGN:
                foreign.append(change.sentence)
    except LakeError:
        if not foreign:
            raise
    return tuple(foreign)


def find_reopened(source: Source, facts: VerifyFacts) -> tuple[Reopened, ...]:
    """Find accepted rows of windows that were closed before the epochs that the rows cover."""
    watermarks = {record.epoch: record.watermark_before for record in facts.records}
    epoch_segments = segments(facts.records, (label for (label,) in source.connection.execute(LABELS).fetchall()))
    closing = {segment.last_epoch: watermarks.get(segment.first_epoch) for segment in epoch_segments}
    results.bind_integers(source.connection, "segments", closing, ("last", "watermark"))
    window = facts.pipeline.window
    # Among the rows that were merged into a session, the earliest was closed last.
    first_end = f"epoch_us(window_start) + {window.reach}" if window.merges else _END
    query = _REOPENED.format(first_end=first_end)
    rows = source.connection.execute(query, [compute_late_margin(facts.pipeline)]).fetchall()
    return tuple(Reopened(epoch=e, window_start=w, watermark=m, pairs=int(n)) for e, w, m, n in rows)


def query_ledger(source: Source, condition: str) -> frozenset[UncountedPair]:
    """Query the ledger by a condition; one pair for each record and window."""
    rows = source.connection.execute(f"{LEDGER} WHERE {condition}").fetchall()
    return frozenset(
        UncountedPair(cls=Class(name), partition=p, offset=o, window_start=start, event_time=event, reason=reason)
        for name, p, o, start, event, reason in rows
    )
