"""Facts from the rows of the epoch log: totals, commits, foreign changes, reopened windows."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant

from collections.abc import Mapping
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.integrity import table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.tables import delta
from cutover.reconcile.verify.facts import results
from cutover.reconcile.verify.facts.facts import (
    EpochCommit,
    LedgerFault,
    Reopened,
    RowTotals,
    VerifyFacts,
)
from cutover.reconcile.verify.facts.segments import segments
from cutover.reconcile.verify.facts.source import ROWS, Source
from cutover.records.classes import Class
from cutover.records.closing import compute_late_margin
from cutover.records.reference import UncountedPair
from cutover.settings import Settings

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


def compute_totals(source: Source, facts: VerifyFacts) -> RowTotals:
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
        for c in delta.history(source.log.table)
    )
    return tuple(newest_first)[::-1]


def _parse_restore_version(commit: Mapping[str, Any]) -> int | None:
    """Parse the version that a RESTORE names; None if it names a time, and for all other commits."""
    version = str(commit.get("operationParameters", {}).get("version"))
    return int(version) if commit.get("operation") == "RESTORE" and version.isdigit() else None


def list_foreign_changes(source: Source, facts: VerifyFacts) -> tuple[str, ...]:
    """List the changes of other writers to rows of the pipeline's tables."""
    del facts
    return list_foreign(source.settings, source.pipeline)


def list_foreign(settings: Settings, pipeline: Pipeline) -> tuple[str, ...]:
    """Describe each change by another writer; if a table cannot be read, those found before it.

    Raises:
        LakeError: A table cannot be read, and no earlier table was changed.
    """
    foreign = []
    try:
        for change, _ in table_weights.find_changes(settings, pipeline):
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
