"""Facts from the rows of the epoch log and of the batch path: totals, commits, foreign changes, duplicates, results.

In batch's ledger and index each offset is scanned once and each position listed once. In the epoch log a segment is the
epochs whose accepted rows share one epoch number: folded rows carry the number of the last epoch. It also shows windows
that were reopened.

Results are compared: final windows at two versions of a table and repeated batch runs by digests, both paths at batch's
newest cut by the reconciler.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa

from cutover import acceptance_files
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import CutoverError, LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.dimensions import joined_versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import table_weights
from cutover.lake.integrity.foreign_commits import Kind
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind
from cutover.pipeline_lake import BatchTable, PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.attribution import cells
from cutover.reconcile.attribution.attribution import attribute_causes
from cutover.reconcile.comparison import sides
from cutover.reconcile.comparison.diff import diff_relations
from cutover.reconcile.comparison.layout import Layout, SharedTable, agreement_of, make_default_comparison, wide_columns
from cutover.reconcile.preconditions import seal
from cutover.reconcile.result.finding import Difference, place_of
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.decision import Acceptance, apply_rules, count_accepted_rows
from cutover.reconcile.verify.facts.facts import (
    MOST,
    BatchLedger,
    DoubledPosition,
    EpochCommit,
    Finals,
    LedgerFault,
    Paths,
    Reopened,
    RepeatedRuns,
    RescannedOffsets,
    RowTotals,
    Unknown,
    VerifyFacts,
)
from cutover.reconcile.verify.facts.source import ROWS, Source
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.records.reference import UncountedPair
from cutover.records.watermark import compute_late_margin, is_closed_sql

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
    bind_integers(source.connection, "segments", closing, ("last", "watermark"))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultComparison:
    """Number of windows of two results, and the starts of those that differ (microseconds)."""

    windows: int
    changed_windows: tuple[int, ...]


def bind_integers(
    connection: duckdb.DuckDBPyConnection, name: str, rows: Mapping[int, int | None], columns: tuple[str, str]
) -> None:
    """Bind a view of two columns of integers."""
    values = {columns[0]: list(rows), columns[1]: list(rows.values())}
    connection.register(name, pa.table(values, schema=pa.schema([(column, pa.int64()) for column in columns])))


def compare_results(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, expected: str, actual: str
) -> ResultComparison:
    """Compare two results by the digests of their windows, and row by row where these differ.

    Args:
        connection: Holds both relations: `window_start`, the key, and values; `_epoch` is not part of a result.
        pipeline: Its key and measures.
        expected: Name of a relation.
        actual: Name of the other relation.
    """
    columns = connection.execute(f"DESCRIBE {identifier(expected)}").fetchall()
    types = {str(row[0]): str(row[1]) for row in columns}
    keys = ("window_start", *pipeline.key)
    excluded = {*keys, "_epoch", *(() if pipeline.window.merges else ("window_end",))}
    names = [name for name in types if name not in excluded]
    has_all_states = all(state.column in types for state in compile_pipeline(pipeline).states)
    values = tuple(
        agreement_of(pipeline, make_default_comparison(name, types[name]), same_definition=has_all_states)
        for name in names
    )
    layout = Layout(keys=keys, values=values, group="window_start", wide=wide_columns(types))
    difference = diff_relations(connection, layout, expected, actual, into="different")
    rows = connection.execute("SELECT DISTINCT epoch_us(window_start) FROM different ORDER BY 1").fetchall()
    return ResultComparison(windows=difference.groups, changed_windows=tuple(start for (start,) in rows))


def compare_finals(source: Source, facts: VerifyFacts) -> Finals | Unknown:
    """Compare the final windows of the oldest version that a reader has seen and that can still be read."""
    by_number = {record.epoch: record for record in facts.records}
    epochs_by_version = {
        w.table_version: w.epoch for w in facts.witnesses if w.table_version is not None and w.epoch in by_number
    }
    for version, epoch in sorted(epochs_by_version.items()):
        older = open_epoch_log(source.version.uri, version) if version < facts.table_version else None
        if older is not None:
            return _finals(source, facts, older, by_number[epoch])
    return Unknown(reason="No earlier version of the table that a reader has seen can still be read.")


def open_epoch_log(uri: str, version: int) -> EpochLog | None:
    """Open the epoch log at an older version; return None if its commits or files were deleted."""
    try:
        log = EpochLog(uri, version)
    except CutoverError:
        return None
    return None if seal.find_missing_file((log.table,)) else log


def _finals(source: Source, facts: VerifyFacts, older: EpochLog, record: EpochRecord) -> Finals:
    closed = is_closed_sql(facts.pipeline, record.watermark_after)
    connection = source.connection
    older.relation(connection, "older_log", epoch=record.epoch)
    for name, rows in (("older_fold", "older_log"), ("newer_fold", ROWS)):
        folded = finish_sql(facts.pipeline, rows)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM ({folded}) WHERE {closed}")
    results = compare_results(connection, facts.pipeline, "older_fold", "newer_fold")
    return Finals(
        version=older.version, epoch=record.epoch, windows=results.windows, changed_windows=results.changed_windows
    )


def compare_repeated_runs(source: Source, facts: VerifyFacts) -> tuple[RepeatedRuns, ...]:
    """Compare the windows that two consecutive batch runs computed at the same cut.

    Repairs are excluded: their changes at the same cut are reviewed and recorded.
    """
    runs = [run for run in batch_runs.read_effective_runs(source.lake) if run.batch_version is not None]
    pairs = ((a, b) for a, b in pairwise(runs) if have_same_cut(a, b) and b.repair is None)
    comparisons = (_compare_runs(source, facts, *pair) for pair in pairs)
    return tuple(comparison for comparison in comparisons if comparison is not None)


def have_same_cut(left: BatchRun, right: BatchRun) -> bool:
    """Return whether two runs had the same log, cut, definitions and dimensions, and wrote different versions."""
    identities = [
        (run.topic_id, dict(run.cut), run.result_fingerprint, run.batch_fingerprint, run.isolation)
        for run in (left, right)
    ]
    joined_alike = not any(
        joined_versions.find_diverging_offsets(offsets, right.dimensions.get(name, ()))
        for name, offsets in left.dimensions.items()
    )
    return identities[0] == identities[1] and joined_alike and left.batch_version != right.batch_version


def _compare_runs(source: Source, facts: VerifyFacts, first_run: BatchRun, second_run: BatchRun) -> RepeatedRuns | None:
    ranges = intersect_ranges(first_run.computed, second_run.computed)
    in_ranges = (f"(epoch_us(window_start) >= {int(a)} AND epoch_us(window_end) <= {int(b)})" for a, b in ranges)
    condition = " OR ".join(in_ranges) or "false"
    uri = source.lake.batch_uri()
    for run, name in ((first_run, "batch_first"), (second_run, "batch_second")):
        try:
            delta.relation(source.connection, f"{name}_all", uri, version=run.batch_version)
        except CutoverError:
            return None  # its files were deleted
        source.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {name}_all WHERE {condition}")
    results = compare_results(source.connection, facts.pipeline, "batch_first", "batch_second")
    return RepeatedRuns(
        first_run=first_run.run_id,
        second_run=second_run.run_id,
        windows=results.windows,
        changed_windows=results.changed_windows,
    )


def intersect_ranges(ranges: Sequence[Range], other_ranges: Sequence[Range]) -> list[Range]:
    """Return the intersections of the ranges of two runs."""
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in ranges for b in other_ranges)
    return sorted((start, end) for start, end in pairs if start < end)


def evaluate_path_agreement(source: Source, facts: VerifyFacts) -> Paths | Unknown:
    """Compare both paths and list the differences without a cause, or return why they cannot be compared."""
    del facts
    lake = source.lake
    examined = seal.evaluate_seal(lake, epoch=None, epoch_log=source.log)
    evidence = examined.evidence
    if evidence is None:
        return Unknown(reason=examined.seal.breaches[0].message)
    with sides.open_sides(lake, evidence) as opened:
        try:
            attribution = attribute_causes(lake, evidence, opened)
        except seal.SealError as error:
            return Unknown(reason=error.breach.message)
        if attribution.unproven is not None:
            return Unknown(reason=attribution.unproven.message)
        opened, findings = attribution.sides, attribution.findings  # noqa: PLW2901 -- the same sides, with all stages
        if not findings.plain.groups:
            return Unknown(reason=f"No closed window at the cut of epoch {evidence.run.epoch} can be compared.")
        differences, accepted = _read_unexplained(source, opened) if findings.unexplained else ((), 0)
        rows = queries.fetch_number(opened.connection, f"SELECT count(*) FROM {SharedTable.EXPECTED}")
        texts = tuple(dict.fromkeys(map(_describe_difference, differences)))
        suffix = "further rows of both paths differ without a cause."
        more = findings.unexplained - accepted - len({(d.window_start, format_columns(d.key)) for d in differences})
        return Paths(
            epoch=evidence.run.epoch,
            windows=findings.plain.groups,
            rows=rows,
            late_rows=findings.causes["late"].rows,
            unexplained=(
                *texts,
                *([f"{more:,} {suffix}"] if more > 0 else []),
            ),
            incomplete=opened.incomplete_windows,
            accepted=accepted,
        )


def _read_unexplained(source: Source, opened: sides.Sides) -> tuple[tuple[Difference, ...], int]:
    """Read the first cells without a cause that no rule accepts, and count the rows that rules accept."""
    now = history.find_rule_time(source.lake, source.request.now)
    rules = Acceptance(rules=acceptance_files.load_acceptance_rules(source.lake), now=now)
    differences, accepted = apply_rules(rules, cells.read_cells(opened, condition="_explained = 0"))
    unaccepted = [cell for cell in differences if cell.accepted_by is None]
    places = list(dict.fromkeys(place_of(cell) for cell in unaccepted))[: MOST + 1]
    return tuple(cell for cell in unaccepted if place_of(cell) in places), count_accepted_rows(accepted)


def _describe_difference(difference: Difference) -> str:
    place = f"Window {difference.window_start}, {format_columns(difference.key)}, {difference.measure}"
    values = f"expected {difference.batch} as in batch, got {difference.streaming}"
    return f"{place}: {values} and no cause for it ({difference.kind})."
