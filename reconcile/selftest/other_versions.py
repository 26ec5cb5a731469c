"""Another version of a dimension, in a copy: as if batch alone had joined a stretch of the log with it."""

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
from cutover.reconcile.selftest.table_rows import put_rows, read_rows
from cutover.settings import Settings

_FOLDED = ("planted_once", "planted_twice")  # tables of a refold, equal here


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVersion:
    """Rows of a dimension that batch alone joined with, and what it made of them."""

    table: str  # the dimension's name
    rows: pa.Table  # all of them
    run: BatchRun  # with the new version for a stretch of offsets
    gone: tuple[int, ...] = ()  # rows of batch's table, of the windows in reach
    made: pa.Table  # in their place


def list_lookups(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the lookups that can be planted: of dimensions that the lake holds; sessions are never recomputed."""
    if pipeline.window.merges:
        return ()
    return tuple(name for name, lookup in pipeline.lookups.items() if lookup.is_named and _list_columns(lookup))


def _list_columns(lookup: Lookup) -> list[str]:
    """Return the columns that rows take, without those that the dimension is known by."""
    return [name for name in lookup.columns if name not in lookup.on.values()]


def draw(clean: CleanCopy, random: Random) -> OtherVersion | None:
    """Change rows of a dimension, and let Spark fold what batch would then have; None: no window is in reach."""
    name = random.choice(list_lookups(clean.pipeline))
    lookup, home = clean.pipeline.lookups[name], clean.settings.home
    known = batch_runs.read_effective_runs(clean.settings, clean.pipeline)
    run = next((run for run in reversed(known) if run.computed and run.dimensions.get(name)), None)
    if run is None:
        return None
    with TemporaryDirectory(prefix="draw-", dir=home.parent) as folder:
        link_tree(home, Path(folder))
        settings = clean.settings.model_copy(update={"home": Path(folder)})
        rows = _change_rows(dimension.own_uri(settings, lookup.table), lookup, random)
        version = _load(settings, lookup.table, rows)
        span, changed = _change_span(run.dimensions[name], version, random)
        other = replace(run, dimensions={**run.dimensions, name: changed})
        suspects = _find_windows(clean, known[: known.index(run) + 1], span)
        if not suspects:
            return None
        made = _fold(settings, clean.pipeline, other, suspects)
    starts = {start for suspect in suspects for start in suspect.windows}
    batch = clean.tables[PlantSide.BATCH].rows["window_start"].cast(pa.int64()).to_pylist()
    gone = tuple(row for row, start in enumerate(batch) if start in starts)
    return OtherVersion(table=lookup.table, rows=rows, run=other, gone=gone, made=made)


def put(settings: Settings, pipeline: Pipeline, version: OtherVersion) -> None:
    """Write the dimension's rows as a new version into a copy, and that the batch run joined with it."""
    _load(settings, version.table, version.rows)
    uri = batch_uri(settings, pipeline, "batch_index")
    rows = read_rows(uri, kind=None, order=("_kind", "_run", "_partition", "window_start", "first_offset"))
    told = [
        row | {"_record": version.run.to_json()}
        if (row["_kind"], row["_run"]) == (IndexKind.RUN, version.run.run_id)
        else row
        for row in rows.to_pylist()
    ]
    put_rows(uri, pa.Table.from_pylist(told, schema=rows.schema), kind=None)


def _change_rows(uri: str, lookup: Lookup, random: Random) -> pa.Table:
    """Return a dimension's newest rows, one column of some of them changed."""
    table = read_rows(uri, kind=None, order=tuple(lookup.on.values()))
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
    """Return a stretch of offsets with the new version, and all spans with it."""
    term = random.choice(spans)
    first = random.randrange(term.first, term.next)
    one = replace(term, first=first, next=random.randint(first + 1, term.next), version=version)
    around = (replace(term, next=one.first), one, replace(term, first=one.next))
    others = [span for span in spans if span != term]
    return one, joined_versions.merge_spans([*others, *(span for span in around if span.first < span.next)])


def _find_windows(clean: CleanCopy, runs: Sequence[BatchRun], span: VersionSpan) -> list[Suspects]:
    """Return the windows of batch that the last of some runs computed and that hold records of some offsets."""
    rows = clean.tables[PlantSide.BATCH].rows
    starts, ends = (rows[name].cast(pa.int64()).to_numpy() for name in ("window_start", "window_end"))
    windows = dict(zip(map(int, starts), map(int, ends), strict=True))
    mine = [start for start, end in windows.items() if find_last_run(runs, start, end) == len(runs) - 1]
    with queries.connect() as connection:
        place = (span.partition, span.first, span.next)
        return find_suspects(clean.settings, clean.pipeline, connection, runs, mine, [place])


def _fold(settings: Settings, pipeline: Pipeline, run: BatchRun, suspects: Sequence[Suspects]) -> pa.Table:
    """Return batch's rows of some windows, their records joined as a run records it."""
    parts = [
        RefoldPart(windows=suspect.windows, reads=suspect.reads, by_stream=run.dimensions, by_batch=run.dimensions)
        for suspect in suspects
    ]
    with queries.connect() as connection:
        refold.make_tables(connection, settings, pipeline, parts, into=_FOLDED)
        rows: pa.Table = connection.sql(f"SELECT *, {run.epoch} AS _epoch FROM {_FOLDED[1]}").to_arrow_table()  # noqa: S608 -- ours
    schema = batch_schema(pipeline)
    return rows.select(schema.names).cast(schema)
