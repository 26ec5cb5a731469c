"""The untouched copy of a pipeline's tables: rows of both sides, compared windows, and existing differences."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.lake.batch_runs import Range
from cutover.lake.epochs.row_kinds import RowKind
from cutover.lake.paths import batch_uri
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.compare import compare_at_cut
from cutover.reconcile.comparison import sides
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.preconditions import seal
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.finding import Finding
from cutover.reconcile.selftest.plants import Choice, PlantColumns, PlantKind, PlantSide
from cutover.reconcile.selftest.table_rows import read_table_rows
from cutover.reconcile.verdict.acceptance import Place, place_of
from cutover.records.classes import Class
from cutover.settings import Settings

ROWS_LISTED = 200_000
"""Rows that a comparison lists for a self-test: a report lists fewer, and an omitted row could not be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Table of one side: its location, its rows, and the rows that a plant may change."""

    uri: str
    kind: str | None
    rows: pa.Table
    candidates: Sequence[int]  # rows of judged windows up to the cut

    def draw(self, kind: PlantKind, random: Random) -> list[int]:
        """Draw some candidates in the way that the kind of defect requires."""
        count = random.randint(1, min(kind.max_rows, len(self.candidates)))
        if kind.choice is Choice.ANY:
            return sorted(random.sample(self.candidates, count))
        start = random.randrange(len(self.candidates))
        near = [*self.candidates[start : start + max(count, 2)]]
        if kind.choice is Choice.PAIRS:
            return near[:2] if len(near) > 1 else []
        epochs = self.rows["_epoch"].take(pa.array(near, pa.int64())).to_pylist()
        return [row for row, epoch in zip(near, epochs, strict=True) if epoch == epochs[0]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanCopy:
    """Copy of the lake from which every trial starts."""

    pipeline: Pipeline
    settings: Settings  # of the copy
    finding: Finding
    skipped_ranges: tuple[Range, ...]
    layout: Layout
    columns: Mapping[PlantSide, PlantColumns]
    tables: Mapping[PlantSide, TableRows]
    late: pa.Table  # late rows up to the cut
    log: LogReader | None
    unexplained_places: frozenset[Place]  # of differences without a cause before anything is planted
    causes: Mapping[Place, frozenset[str]]  # of listed differences
    epoch: int  # of the cut

    def is_judged(self, start: int) -> bool:
        """Return whether windows that start then (microseconds) are compared."""
        return not any(range_start <= start < range_end for range_start, range_end in self.skipped_ranges)


def open_clean_copy(settings: Settings, pipeline: Pipeline, log: LogReader | None) -> CleanCopy:
    """Compare an unchanged copy and read its rows.

    Raises:
        LakeError: The sides cannot be compared, so the reconciler cannot be tested on them either.
    """
    outcome = compare_at_cut(settings, pipeline, ComparisonRequest(log=log, listed_rows=ROWS_LISTED))
    finding, skipped_ranges = outcome.finding, outcome.skipped_ranges
    evidence, causes = _find_evidence(settings, pipeline, finding), _list_known_causes(pipeline, finding)
    with sides.open_sides(settings, pipeline, evidence) as opened:
        layout = opened.layout
    order = ("window_start", *pipeline.key, "_epoch")
    stream = read_table_rows(evidence.version.uri, kind=RowKind.PARTIAL, order=order)
    late = f"_class = '{Class.LATE}' AND _epoch <= {evidence.run.epoch}"
    batch = read_table_rows(batch_uri(settings, pipeline), kind=None, order=order)
    cut = evidence.run.epoch
    return CleanCopy(
        pipeline=pipeline,
        settings=settings,
        finding=finding,
        skipped_ranges=skipped_ranges,
        layout=layout,
        columns={
            side: _list_columns(pipeline, layout, rows)
            for side, rows in ((PlantSide.STREAM, stream), (PlantSide.BATCH, batch))
        },
        tables={
            PlantSide.STREAM: TableRows(
                uri=evidence.version.uri,
                kind=RowKind.PARTIAL,
                rows=stream,
                candidates=_candidates(stream, skipped_ranges, cut),
            ),
            PlantSide.BATCH: TableRows(
                uri=batch_uri(settings, pipeline),
                kind=None,
                rows=batch,
                candidates=_candidates(batch, skipped_ranges, cut),
            ),
        },
        late=read_table_rows(evidence.version.uri, kind=RowKind.LEDGER, order=order, condition=late),
        log=log,
        unexplained_places=frozenset(place_of(cell) for cell in finding.differences if UNEXPLAINED in cell.cause),
        causes=causes,
        epoch=cut,
    )


def _find_evidence(settings: Settings, pipeline: Pipeline, finding: Finding) -> SealEvidence:
    evidence = seal.evaluate_seal(settings, pipeline, epoch=None).evidence
    if evidence is None or not finding.seal.holds or not finding.windows.compared:
        msg = f"Self-test of `{pipeline.name}`: expected two sides that can be compared, got: {finding.sentence}"
        raise LakeError(msg + f"\nHint: `cutover reconcile {pipeline.name}` shows what to do.", runbook="NotComparable")
    return evidence


def _list_known_causes(pipeline: Pipeline, finding: Finding) -> Mapping[Place, frozenset[str]]:
    causes = list_causes(finding)
    if len(causes) > ROWS_LISTED // 2:
        msg = f"Self-test of `{pipeline.name}`: expected at most {ROWS_LISTED // 2:,} rows that differ before anything"
        msg += f" is planted, got {len(causes):,}.\nHint: `cutover report {pipeline.name}` says why they differ."
        raise LakeError(msg)
    return causes


def list_causes(finding: Finding) -> Mapping[Place, frozenset[str]]:
    """Collect the causes that a report names, by (window, key)."""
    causes: dict[Place, set[str]] = defaultdict(set)
    for cell in finding.differences:
        causes[place_of(cell)].add(cell.cause)
    return {place: frozenset(names) for place, names in causes.items()}


def _list_columns(pipeline: Pipeline, layout: Layout, rows: pa.Table) -> PlantColumns:
    compared = {value.name for value in layout.values if not value.is_implied}
    states = {name for name in rows.column_names if not name.startswith("_") and "window_" not in name}
    names = (compared | (states - {*pipeline.key})) & {*rows.column_names} - {"window_end"}
    return PlantColumns(key=pipeline.key, values=tuple(sorted(names)))


def _candidates(rows: pa.Table, skipped_ranges: tuple[Range, ...], cut: int) -> list[int]:
    starts = rows["window_start"].cast(pa.int64()).to_numpy()
    is_candidate = rows["_epoch"].to_numpy() <= cut
    for start, end in skipped_ranges:
        is_candidate &= ~((starts >= start) & (starts < end))
    return [int(row) for row in np.flatnonzero(is_candidate)]
