"""Results of the same windows at two versions of a table, by digests: what was final, what was computed twice."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import duckdb
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.dimensions import joined_versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.quoting import identifier
from cutover.reconcile.comparison.diff import diff
from cutover.reconcile.comparison.layout import Layout, agreement_of, value_of, wide_columns
from cutover.reconcile.preconditions import damage
from cutover.reconcile.verify.facts.facts import Finals, Twice, VerifyFacts
from cutover.reconcile.verify.facts.source import ROWS, Source
from cutover.reconcile.verify.model import Unknown
from cutover.records.closing import is_closed_sql
from cutover.records.fold import finish_sql


def register(
    connection: duckdb.DuckDBPyConnection, name: str, rows: Mapping[int, int | None], columns: tuple[str, str]
) -> None:
    """Bind a view of two columns of integers."""
    values = {columns[0]: list(rows), columns[1]: list(rows.values())}
    connection.register(name, pa.table(values, schema=pa.schema([(column, pa.int64()) for column in columns])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The windows of two results, and those in which they differ (starts, microseconds)."""

    windows: int
    changed: tuple[int, ...]


def compare_results(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, first: str, second: str) -> Compared:
    """Compare two results by the digests of their windows, and row by row where these differ.

    Args:
        connection: Holds both relations: `window_start`, the key, and values; `_epoch` is no part of a result.
        pipeline: Its key and measures.
        first: Name of a relation.
        second: Name of the other one.
    """
    described = connection.execute(f"DESCRIBE {identifier(first)}").fetchall()
    types = {str(row[0]): str(row[1]) for row in described}
    keys = ("window_start", *pipeline.key)
    aside = {*keys, "_epoch", *(() if pipeline.window.merges else ("window_end",))}
    names = [name for name in types if name not in aside]
    same = all(state.column in types for state in compile_pipeline(pipeline).states)
    values = tuple(agreement_of(pipeline, value_of(name, types[name]), same=same) for name in names)
    layout = Layout(keys=keys, values=values, group="window_start", wide=wide_columns(types))
    found = diff(connection, layout, first, second, into="apart")
    rows = connection.execute("SELECT DISTINCT epoch_us(window_start) FROM apart ORDER BY 1").fetchall()
    return Compared(windows=found.groups, changed=tuple(start for (start,) in rows))


def finals(source: Source, facts: VerifyFacts) -> Finals | Unknown:
    """Compare the windows that were final at the oldest version that a reader saw and that can still be read."""
    by_number = {record.epoch: record for record in facts.records}
    seen = {w.table_version: w.epoch for w in facts.seen if w.table_version is not None and w.epoch in by_number}
    for version, epoch in sorted(seen.items()):
        older = readable(source.version.uri, version) if version < facts.table_version else None
        if older is not None:
            return _finals(source, facts, older, by_number[epoch])
    return Unknown(why="No earlier version of the table that a reader has seen can still be read.")


def readable(uri: str, version: int) -> EpochLog | None:
    """Return the epoch log at an older version; None if its log or its files are gone."""
    try:
        log = EpochLog(uri, version)
    except CutoverError:
        return None
    return None if damage.find_missing((log.table,)) else log


def _finals(source: Source, facts: VerifyFacts, older: EpochLog, record: EpochRecord) -> Finals:
    closed = is_closed_sql(facts.pipeline, record.watermark_after)
    connection = source.connection
    older.relation(connection, "older_log", epoch=record.epoch)
    for name, rows in (("older_fold", "older_log"), ("newer_fold", ROWS)):
        folded = finish_sql(facts.pipeline, rows)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM ({folded}) WHERE {closed}")
    results = compare_results(connection, facts.pipeline, "older_fold", "newer_fold")
    return Finals(version=older.version, epoch=record.epoch, windows=results.windows, changed=results.changed)


def twice(source: Source, facts: VerifyFacts) -> tuple[Twice, ...]:
    """Compare the windows that two batch runs, one after the other, computed at the same cut.

    What a repair changed at the same cut a reader has looked at, and it is recorded.
    """
    runs = [run for run in batch_runs.runs(source.settings, facts.pipeline) if run.batch_version is not None]
    pairs = ((a, b) for a, b in pairwise(runs) if same_cut(a, b) and b.repair is None)
    found = (_compare_twice(source, facts, *pair) for pair in pairs)
    return tuple(pair for pair in found if pair is not None)


def same_cut(batch_run: BatchRun, second: BatchRun) -> bool:
    """Return whether two runs had the same log, cut, definitions and dimensions, and wrote versions of their own."""
    told = [
        (run.topic_id, dict(run.cut), run.result_fingerprint, run.batch_fingerprint, run.isolation)
        for run in (batch_run, second)
    ]
    joined_alike = not any(
        joined_versions.find_diverging_offsets(of, second.dimensions.get(name, ()))
        for name, of in batch_run.dimensions.items()
    )
    return told[0] == told[1] and joined_alike and batch_run.batch_version != second.batch_version


def _compare_twice(source: Source, facts: VerifyFacts, batch_run: BatchRun, second: BatchRun) -> Twice | None:
    both = overlap(batch_run.computed, second.computed)
    inside = (f"(epoch_us(window_start) >= {int(a)} AND epoch_us(window_end) <= {int(b)})" for a, b in both)
    where = " OR ".join(inside) or "false"
    uri = batch_uri(source.settings, facts.pipeline)
    for run, name in ((batch_run, "batch_first"), (second, "batch_second")):
        try:
            delta.relation(source.connection, f"{name}_all", uri, version=run.batch_version)
        except CutoverError:
            return None  # its files are gone
        source.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {name}_all WHERE {where}")
    results = compare_results(source.connection, facts.pipeline, "batch_first", "batch_second")
    return Twice(first_run=batch_run.run_id, second_run=second.run_id, windows=results.windows, changed=results.changed)


def overlap(first: Sequence[Range], second: Sequence[Range]) -> list[Range]:
    """Return the ranges that lie in ranges of both runs."""
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in first for b in second)
    return sorted((start, end) for start, end in pairs if start < end)
