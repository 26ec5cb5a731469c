"""Comparisons of results: of the same windows at two versions of a table, and of both paths at batch's newest cut.

Final windows and repeated batch runs are compared by digests, both paths by the reconciler.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or our constant
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import duckdb
import pyarrow as pa

from cutover import acceptance_files
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import CutoverError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.dimensions import joined_versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.quoting import identifier
from cutover.reconcile.attribution import cells
from cutover.reconcile.attribution.attribution import attribute_causes
from cutover.reconcile.comparison import sides
from cutover.reconcile.comparison.diff import diff_relations
from cutover.reconcile.comparison.layout import Layout, SharedTable, agreement_of, make_default_comparison, wide_columns
from cutover.reconcile.preconditions import damage, seal
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.acceptance import Acceptance, apply_rules, count_accepted_rows, place_of
from cutover.reconcile.verify.facts.facts import Finals, Paths, RepeatedRuns, VerifyFacts
from cutover.reconcile.verify.facts.source import ROWS, Source
from cutover.reconcile.verify.model import MOST, Unknown
from cutover.records.fold import finish_sql
from cutover.records.watermark import is_closed_sql


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
    return None if damage.find_missing_file((log.table,)) else log


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
