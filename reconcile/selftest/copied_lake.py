"""A copy of what a comparison reads of one pipeline: links to the same files, which no table changes in place.

The untouched copy has the rows of both sides, the compared windows and the existing differences. In a further copy
another version of a dimension is recorded, as if only batch had joined a range of offsets with it. Rows of a copied
table are rewritten as a defect of Cutover would do it: names and weights stay valid.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from cutover import files
from cutover.definition.model.joins import CONTROL_FOLDER, DIMENSIONS_FOLDER, Lookup
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import LakeError, LogError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.dimensions import dimension, joined_versions, load
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import COUNTED, IndexKind, RowKind, batch_schema
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.dimension import (
    RefoldPart,
    Suspects,
    create_refold_tables,
    find_last_run,
    find_suspects,
)
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.compare import ComparisonRequest, compare_at_cut
from cutover.reconcile.comparison import sides
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.preconditions import seal
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.reconcile.result.finding import Finding, Place, place_of
from cutover.records.classes import Class
from cutover.settings import Settings

_PARTITION = "_kind"
COMPARED = (*COUNTED, RowKind.EPOCH, RowKind.ATTEMPT)
"""Kinds of rows of an epoch log that a comparison reads; `cutover verify --files` checks the files of the others."""


def read_table_rows(uri: str, *, kind: str | None, order: Sequence[str], condition: str = "true") -> pa.Table:
    """Read the rows of a table or of one kind, sorted; `condition` is SQL over its columns."""
    table = delta.open_table(uri)
    with queries.open_duckdb() as connection:
        delta.bind(connection, "rows", table, kinds=None if kind is None else (kind,))
        rows: pa.Table = connection.sql(f"FROM rows WHERE {condition}").to_arrow_table()
    ordered: pa.Table = rows.select(delta.read_schema(table).names).sort_by([(name, "ascending") for name in order])
    return ordered


def replace_table_rows(uri: str, rows: pa.Table, *, kind: str | None) -> None:
    """Replace all rows of a table or of one kind, and keep the weight valid so that it does not show the change."""
    table = delta.open_table(uri)
    replaced_files = [
        action for action in delta.actions(table) if kind is None or action[f"partition.{_PARTITION}"] == kind
    ]
    weight = checksums.weight_word(checksums.total(str(action["path"]) for action in replaced_files))
    partition: Mapping[str, str | None] = {} if kind is None else {_PARTITION: kind}
    schema = delta.read_schema(table)
    file_schema = pa.schema([field for field in schema if field.name != _PARTITION or kind is None])
    data = rows.select(file_schema.names).cast(file_schema)
    new_file = data_files.write_data_file(uri, data, checksums.new_stem("planted", weight), partition=partition)
    commits.replace(table, replaced_files, [new_file])


def flip_bit(uri: str, number: float) -> str:
    """Flip one bit of a data file that a comparison reads, and return its path; the file it is linked to is unchanged.

    Args:
        uri: The table's.
        number: From 0 to below 1: which file and which bit.
    """
    table = delta.open_table(uri)
    root = delta.local_root(table)
    files = (
        action for action in delta.actions(table) if action.get(f"partition.{_PARTITION}", COMPARED[0]) in COMPARED
    )
    ordered_files = sorted(files, key=lambda action: str(action["path"]))
    action = ordered_files[int(number * len(ordered_files))]
    path = delta.file_path(Path() if root is None else root, action)
    content = bytearray(path.read_bytes())
    bit = int(number * len(content) * 8)
    content[bit // 8] ^= 1 << (bit % 8)
    path.unlink()
    path.write_bytes(content)
    return str(action["path"])


_LOG = "_delta_log"
_FOLDERS = (CONTROL_FOLDER, DIMENSIONS_FOLDER)

ROWS_LISTED = 200_000
"""Rows that a comparison lists for a self-test: a report lists fewer, and an omitted row could not be checked."""

_FOLDED = ("planted_once", "planted_twice")  # tables of a refold, equal here


class PlantSide(StrEnum):
    """Side whose rows are edited."""

    STREAM = "stream"  # accepted partial rows of the epoch log
    BATCH = "batch"  # the result


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantColumns:
    """Columns that a defect may change."""

    key: tuple[str, ...]
    values: tuple[str, ...]  # measures, states and the number of records, as far as they are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Table of one side: its location, its rows, and the rows that a plant may change."""

    uri: str
    kind: str | None
    rows: pa.Table
    candidates: Sequence[int]  # rows of judged windows up to the cut


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanCopy:
    """Copy of the lake from which every trial starts."""

    lake: PipelineLake  # the copy
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

    @property
    def pipeline(self) -> Pipeline:
        """Definition of the pipeline."""
        return self.lake.pipeline

    def is_judged(self, start: int) -> bool:
        """Return whether windows that start then (microseconds) are compared."""
        return not any(range_start <= start < range_end for range_start, range_end in self.skipped_ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVersion:
    """Rows of a dimension that only batch joined with, and the resulting rows of its table."""

    table: str  # the dimension's name
    rows: pa.Table  # all of them
    run: BatchRun  # with the new version for a range of offsets
    removed_rows: tuple[int, ...] = ()  # rows of batch's table, of the affected windows
    replacement: pa.Table  # in their place


@contextmanager
def open_copy(lake: PipelineLake) -> Iterator[Settings]:
    """Yield settings whose lake is a copy; it is deleted afterwards.

    Raises:
        LakeError: The lake lies in an object store, where nothing can be linked.
    """
    settings, pipeline = lake.settings, lake.pipeline
    if "://" in settings.lake_uri:
        msg = f"Self-test of `{pipeline.name}`: expected a lake in a folder, whose files can be linked, got a store."
        raise LakeError(msg + "\nHint: copy the pipeline's folder and `_control`, and set `lake` to the copy.")
    root = Path(settings.lake_uri)
    # Next to the lake: files can be linked only within one file system.
    parent = files.make_private_folder(root.parent / "selftests")
    with TemporaryDirectory(prefix=f"{pipeline.name}-", dir=parent) as home:
        for name in (pipeline.name, *_FOLDERS):  # its notes of turns before the tables that they are of
            link_tree(root / name, Path(home) / "lake" / name)
        for folder in settings.run_dir.glob(f"{pipeline.name}*"):
            with suppress(FileNotFoundError):  # a heartbeat is replaced while it is read
                shutil.copytree(folder, Path(home) / "run" / folder.name)
        yield _point_to(settings, Path(home))


def _point_to(settings: Settings, home: Path) -> Settings:
    kafka = settings.kafka
    with suppress(LogError):
        kafka = kafka.model_copy(update={"bootstrap_servers": bootstrap_servers(settings)})
    return settings.model_copy(update={"home": home, "lake": None, "kafka": kafka})


def link_tree(source: Path, target: Path) -> None:
    """Link every file of a folder of tables, each table's log before its data: what a log lists exists then.

    Files deleted meanwhile are not listed. The pointer to the last checkpoint comes before the log's other files.
    """
    for folder, _, names in sorted(os.walk(source), key=lambda entry: (_LOG not in entry[0], entry[0])):
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in sorted(names, key=lambda name: (name != "_last_checkpoint", name)):
            with suppress(FileNotFoundError):
                os.link(Path(folder) / name, place / name)


def open_clean_copy(lake: PipelineLake, log: LogReader | None) -> CleanCopy:
    """Compare an unchanged copy and read its rows.

    Raises:
        LakeError: The sides cannot be compared, so the reconciler cannot be tested on them either.
    """
    request = ComparisonRequest(log=log, listed_rows=ROWS_LISTED, compares_jobs=False)
    pipeline, outcome = lake.pipeline, compare_at_cut(lake, request)
    finding, skipped_ranges = outcome.finding, outcome.skipped_ranges
    evidence, causes = _find_evidence(lake, finding), _list_known_causes(pipeline, finding)
    with sides.open_sides(lake, evidence) as opened:
        layout = opened.layout
    order = ("window_start", *pipeline.key, "_epoch")
    stream = read_table_rows(evidence.version.uri, kind=RowKind.PARTIAL, order=order)
    late = f"_class = '{Class.LATE}' AND _epoch <= {evidence.run.epoch}"
    batch = read_table_rows(lake.batch_uri(), kind=None, order=order)
    cut = evidence.run.epoch
    return CleanCopy(
        lake=lake,
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
                uri=lake.batch_uri(),
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


def _find_evidence(lake: PipelineLake, finding: Finding) -> SealEvidence:
    evidence = seal.evaluate_seal(lake, epoch=None).evidence
    if evidence is None or not finding.seal.holds or not finding.windows.compared:
        msg = f"Self-test of `{lake.name}`: expected two sides that can be compared, got: {finding.sentence}"
        raise LakeError(msg + f"\nHint: `cutover reconcile {lake.name}` shows what to do.", runbook="NotComparable")
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


def list_lookups(pipeline: Pipeline) -> tuple[str, ...]:
    """List the lookups whose dimension the lake holds; none for sessions, which are never recomputed."""
    if pipeline.window.merges:
        return ()
    return tuple(name for name, lookup in pipeline.lookups.items() if lookup.is_named and _list_copied_columns(lookup))


def _list_copied_columns(lookup: Lookup) -> list[str]:
    """List the columns that a lookup adds to rows, without the key of the dimension."""
    return [name for name in lookup.columns if name not in lookup.on.values()]


def draw_version(clean: CleanCopy, random: Random) -> OtherVersion | None:
    """Change rows of a dimension and fold the rows that batch would then have; None if no window is affected."""
    name = random.choice(list_lookups(clean.pipeline))
    lookup, home = clean.pipeline.lookups[name], clean.lake.settings.home
    runs = batch_runs.read_effective_runs(clean.lake)
    run = next((run for run in reversed(runs) if run.computed and run.dimensions.get(name)), None)
    if run is None:
        return None
    with TemporaryDirectory(prefix="draw-", dir=home.parent) as folder:
        link_tree(home, Path(folder))
        scratch = clean.lake.with_settings(home=Path(folder))
        rows = _change_rows(dimension.own_uri(scratch.settings, lookup.table), lookup, random)
        version = _load(scratch.settings, lookup.table, rows)
        span, changed_spans = _change_span(run.dimensions[name], version, random)
        other = replace(run, dimensions={**run.dimensions, name: changed_spans})
        suspects = _find_windows(clean, runs[: runs.index(run) + 1], span)
        if not suspects:
            return None
        replacement = _fold(scratch, other, suspects)
    starts = {start for suspect in suspects for start in suspect.windows}
    batch = clean.tables[PlantSide.BATCH].rows["window_start"].cast(pa.int64()).to_pylist()
    removed_rows = tuple(row for row, start in enumerate(batch) if start in starts)
    return OtherVersion(table=lookup.table, rows=rows, run=other, removed_rows=removed_rows, replacement=replacement)


def write_version(lake: PipelineLake, version: OtherVersion) -> None:
    """Write a new version of the dimension into a copy, and record that the batch run joined with it."""
    _load(lake.settings, version.table, version.rows)
    uri = lake.batch_uri("batch_index")
    rows = read_table_rows(uri, kind=None, order=("_kind", "_run", "_partition", "window_start", "first_offset"))
    index_rows = [
        row | {"_record": version.run.to_json()}
        if (row["_kind"], row["_run"]) == (IndexKind.RUN, version.run.run_id)
        else row
        for row in rows.to_pylist()
    ]
    replace_table_rows(uri, pa.Table.from_pylist(index_rows, schema=rows.schema), kind=None)


def _change_rows(uri: str, lookup: Lookup, random: Random) -> pa.Table:
    """Return the latest rows of a dimension, with one column changed in some of them."""
    table = read_table_rows(uri, kind=None, order=tuple(lookup.on.values()))
    column = random.choice(_list_copied_columns(lookup))
    rows = table.to_pylist()
    for number in random.sample(range(len(rows)), random.randint(1, len(rows))):
        rows[number] = rows[number] | {column: change_value(rows[number][column], random)}
    return pa.Table.from_pylist(rows, schema=table.schema)


def _load(settings: Settings, name: str, rows: pa.Table) -> int:
    with TemporaryDirectory(dir=settings.home) as folder:
        file = Path(folder) / f"{name}.parquet"
        parquet.write_table(rows, file)
        return load.load_dimension(settings, name, file).version


def _change_span(
    spans: Sequence[VersionSpan], version: int, random: Random
) -> tuple[VersionSpan, tuple[VersionSpan, ...]]:
    """Draw a range of offsets with the new version, and return it and all spans including it."""
    term = random.choice(spans)
    first_offset = random.randrange(term.first, term.next)
    changed_span = replace(term, first=first_offset, next=random.randint(first_offset + 1, term.next), version=version)
    around = (replace(term, next=changed_span.first), changed_span, replace(term, first=changed_span.next))
    other_spans = [span for span in spans if span != term]
    return changed_span, joined_versions.merge_spans(
        [*other_spans, *(span for span in around if span.first < span.next)]
    )


def _find_windows(clean: CleanCopy, runs: Sequence[BatchRun], span: VersionSpan) -> list[Suspects]:
    """Return the batch windows that the last run computed and that hold records of a range of offsets."""
    rows = clean.tables[PlantSide.BATCH].rows
    starts, ends = (rows[name].cast(pa.int64()).to_numpy() for name in ("window_start", "window_end"))
    windows = dict(zip(map(int, starts), map(int, ends), strict=True))
    window_starts = [start for start, end in windows.items() if find_last_run(runs, start, end) == len(runs) - 1]
    with queries.open_duckdb() as connection:
        place = (span.partition, span.first, span.next)
        return find_suspects(clean.lake, connection, runs, window_starts, [place])


def _fold(lake: PipelineLake, run: BatchRun, suspects: Sequence[Suspects]) -> pa.Table:
    """Fold batch's rows of some windows, with their records joined to the versions that a run records."""
    parts = [
        RefoldPart(windows=suspect.windows, reads=suspect.reads, by_stream=run.dimensions, by_batch=run.dimensions)
        for suspect in suspects
    ]
    with queries.open_duckdb() as connection:
        create_refold_tables(connection, lake, parts, into=_FOLDED)
        rows: pa.Table = connection.sql(f"SELECT *, {run.epoch} AS _epoch FROM {_FOLDED[1]}").to_arrow_table()  # noqa: S608 -- ours
    schema = batch_schema(lake.pipeline)
    return rows.select(schema.names).cast(schema)


def change_value(value: Any, random: Random) -> Any:
    """Return another value of the same kind; of null, which could be of any, null."""
    changes = (change for kind, change in _CHANGES if isinstance(value, kind))
    change = next(changes, None)
    return None if change is None else change(value, random)


_CHANGES: tuple[tuple[type, Callable[[Any, Random], Any]], ...] = (  # the first that fits: a bool is an int, too
    (bool, lambda value, _: not value),
    (int, lambda value, random: value + random.choice((-1, 1, 7, 1000))),
    (float, lambda value, random: value * (1 + 10 ** random.uniform(-6, 0)) + random.choice((0.0, 1.0))),
    (Decimal, lambda value, random: value + Decimal((0, (random.randint(1, 9),), int(value.as_tuple().exponent)))),
    (str, lambda value, _: value[:-1] if len(value) > 1 else value + "x"),
    (datetime, lambda value, random: value + timedelta(seconds=random.choice((-1, 1, 3600)))),
    (date, lambda value, _: value + timedelta(days=1)),
    (list, lambda value, _: value[:-1]),
)
