"""Lakes of a given size, filled by the paths: events are sent, drained by the driver, and recomputed by batch."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.workloads import events
from benchmarks.workloads.drivers import read_latest_epoch
from cutover.batch import recompute
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.tables import delta
from cutover.pipeline_lake import BATCH_TABLES, PipelineLake
from cutover.streaming import driver
from cutover.streaming.compaction import compactor, merge
from cutover.streaming.compaction.merge import MergedGroup
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Committer
from cutover.streaming.sink.files import File

CAP = 100_000
PASSES = 3  # partial rows per (window, key) before a fold


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeWorkload:
    """Lake of a pipeline whose stream has read its whole topic and closed every window."""

    lake: PipelineLake
    rows: int  # events

    @property
    def version(self) -> Version:
        """Current version of the stream."""
        version = versions.find_current_version(self.lake)
        if version is None:
            msg = f"Pipeline `{self.lake.name}`: expected an epoch log, found none."
            raise AssertionError(msg)
        return version

    def delete_batch(self) -> None:
        """Delete the tables of batch, so that the next run computes everything."""
        for table in BATCH_TABLES:
            shutil.rmtree(Path(self.lake.batch_uri(table)), ignore_errors=True)

    def recompute(self) -> None:
        """Run the batch path over all windows."""
        self.delete_batch()
        recompute.recompute_windows(self.lake)

    def fold(self) -> MergedGroup:
        """Merge all accepted partial aggregates into one file, without committing it."""
        return merge.merge_group(self.lake, self.version.uri, self._partials())

    def copy_compacted(self) -> "LakeWorkload":
        """Copy the lake and commit a fold in the copy, as the driver does between two epochs."""
        settings = self.lake.settings
        folder = settings.home / "compacted"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(settings.lake_uri, folder)
        copy = replace(self, lake=self.lake.with_settings(lake=str(folder)))
        copy.compact()
        return copy

    def compact(self) -> None:
        """Commit a fold of all accepted partial aggregates."""
        committer = Committer(self.version, "benchmark", delta.open_table(self.version.uri), reload_every=100)
        merged = self.fold()
        if not committer.replace_files(
            [merged.action, *(files.make_removal(file) for file in merged.group)], reason="fold"
        ):
            msg = f"Pipeline `{self.lake.name}`: expected the fold to be committed."
            raise AssertionError(msg)

    def _partials(self) -> list[File]:
        files = compactor.list_files(delta.open_table(self.version.uri))
        return [file for file in files if file.kind == "partial"]


def make_event_lake(bench: Bench, count: int) -> LakeWorkload:
    """Return a lake over the events of the streaming figures, created once per run."""
    return bench.once(f"events-{count}", lambda: _make(bench, f"events_{count}", events.generate_events(count)))


def make_cell_lake(bench: Bench, cells: int) -> LakeWorkload:
    """Return a lake of `cells` (window, key) rows, each of three partial rows, created once per run."""
    keys = min(10_000, cells)
    return bench.once(
        f"cells-{cells}", lambda: _make(bench, f"cells_{cells}", events.generate_cells(cells, PASSES, keys=keys))
    )


def _make(bench: Bench, name: str, generated_events: Iterator[tuple[int, bytes]]) -> LakeWorkload:
    settings, pipeline = bench.settings, events.define(bench.settings, name, cap=CAP, out_of_orderness="1 day")
    lake = PipelineLake(settings, pipeline)
    record = read_latest_epoch(lake)
    if record is not None and record.final:  # in a home that was kept
        return LakeWorkload(lake=lake, rows=sum(record.end.values()))
    rows = events.fill(settings, name, generated_events)
    driver.run_driver(lake, until="final")
    return LakeWorkload(lake=lake, rows=rows)
