"""Another version of a dimension in a copy, as if only batch had joined a range of offsets with it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyarrow import parquet

from cutover.definition.model.joins import Lookup
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.dimensions import dimension, joined_versions, load
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.lake.paths import batch_uri
from cutover.lake.tables.schemas import IndexKind, batch_schema
from cutover.reconcile.attribution import refold
from cutover.reconcile.attribution.dimension import Suspects, find_last_run, find_suspects
from cutover.reconcile.attribution.refold import RefoldPart
from cutover.reconcile.selftest.clean_copy import CleanCopy
from cutover.reconcile.selftest.copied_lake import link_tree
from cutover.reconcile.selftest.plants import PlantSide, change_value
from cutover.reconcile.selftest.table_rows import read_table_rows, replace_table_rows
from cutover.settings import Settings

_FOLDED = ("planted_once", "planted_twice")  # tables of a refold, equal here


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVersion:
    """Rows of a dimension that only batch joined with, and the resulting rows of its table."""

    table: str  # the dimension's name
    rows: pa.Table  # all of them
    run: BatchRun  # with the new version for a range of offsets
    removed_rows: tuple[int, ...] = ()  # rows of batch's table, of the affected windows
    replacement: pa.Table  # in their place


def list_lookups(pipeline: Pipeline) -> tuple[str, ...]:
    """List the lookups whose dimension the lake holds; none for sessions, which are never recomputed."""
    if pipeline.window.merges:
        return ()
    return tuple(name for name, lookup in pipeline.lookups.items() if lookup.is_named and _list_columns(lookup))


def _list_columns(lookup: Lookup) -> list[str]:
    """List the columns that a lookup adds to rows, without the key of the dimension."""
    return [name for name in lookup.columns if name not in lookup.on.values()]


def draw_version(clean: CleanCopy, random: Random) -> OtherVersion | None:
    """Change rows of a dimension and fold the rows that batch would then have; None if no window is affected."""
    name = random.choice(list_lookups(clean.pipeline))
    lookup, home = clean.pipeline.lookups[name], clean.settings.home
    runs = batch_runs.read_effective_runs(clean.settings, clean.pipeline)
    run = next((run for run in reversed(runs) if run.computed and run.dimensions.get(name)), None)
    if run is None:
        return None
    with TemporaryDirectory(prefix="draw-", dir=home.parent) as folder:
        link_tree(home, Path(folder))
        settings = clean.settings.model_copy(update={"home": Path(folder)})
        rows = _change_rows(dimension.own_uri(settings, lookup.table), lookup, random)
        version = _load(settings, lookup.table, rows)
        span, changed_spans = _change_span(run.dimensions[name], version, random)
        other = replace(run, dimensions={**run.dimensions, name: changed_spans})
        suspects = _find_windows(clean, runs[: runs.index(run) + 1], span)
        if not suspects:
            return None
        replacement = _fold(settings, clean.pipeline, other, suspects)
    starts = {start for suspect in suspects for start in suspect.windows}
    batch = clean.tables[PlantSide.BATCH].rows["window_start"].cast(pa.int64()).to_pylist()
    removed_rows = tuple(row for row, start in enumerate(batch) if start in starts)
    return OtherVersion(table=lookup.table, rows=rows, run=other, removed_rows=removed_rows, replacement=replacement)


def write_version(settings: Settings, pipeline: Pipeline, version: OtherVersion) -> None:
    """Write a new version of the dimension into a copy, and record that the batch run joined with it."""
    _load(settings, version.table, version.rows)
    uri = batch_uri(settings, pipeline, "batch_index")
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
    column = random.choice(_list_columns(lookup))
    rows = table.to_pylist()
    for number in random.sample(range(len(rows)), random.randint(1, len(rows))):
        rows[number] = rows[number] | {column: change_value(rows[number][column], random)}
    return pa.Table.from_pylist(rows, schema=table.schema)


def _load(settings: Settings, name: str, rows: pa.Table) -> int:
    with TemporaryDirectory(dir=settings.home) as folder:
        file = Path(folder) / f"{name}.parquet"
        parquet.write_table(rows, file)
        return load.load(settings, name, file).version


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
    with queries.connect() as connection:
        place = (span.partition, span.first, span.next)
        return find_suspects(clean.settings, clean.pipeline, connection, runs, window_starts, [place])


def _fold(settings: Settings, pipeline: Pipeline, run: BatchRun, suspects: Sequence[Suspects]) -> pa.Table:
    """Fold batch's rows of some windows, with their records joined to the versions that a run records."""
    parts = [
        RefoldPart(windows=suspect.windows, reads=suspect.reads, by_stream=run.dimensions, by_batch=run.dimensions)
        for suspect in suspects
    ]
    with queries.connect() as connection:
        refold.make_tables(connection, settings, pipeline, parts, into=_FOLDED)
        rows: pa.Table = connection.sql(f"SELECT *, {run.epoch} AS _epoch FROM {_FOLDED[1]}").to_arrow_table()  # noqa: S608 -- ours
    schema = batch_schema(pipeline)
    return rows.select(schema.names).cast(schema)
