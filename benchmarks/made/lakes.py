"""Lakes of a wanted size, made by the paths themselves: events sent, drained by the driver to the end, recomputed."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.made.drivers import newest
from cutover.batch import recompute
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.compaction import compactor, merge
from cutover.streaming.compaction.merge import MergedGroup
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Committer
from cutover.streaming.sink.files import File

CAP = 100_000
PASSES = 3  # partial rows that each (window, key) has before it is folded


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A pipeline whose stream has read all of its topic and closed every window."""

    settings: Settings
    pipeline: Pipeline
    rows: int  # events

    @property
    def version(self) -> Version:
        """Return the stream's version."""
        found = versions.current(self.settings, self.pipeline)
        if found is None:
            msg = f"Pipeline `{self.pipeline.name}`: expected an epoch log, found none."
            raise AssertionError(msg)
        return found

    def forget_batch(self) -> None:
        """Take what batch has written away, so that the next run computes everything."""
        for table in ("batch", "batch_index", "batch_ledger"):
            shutil.rmtree(Path(batch_uri(self.settings, self.pipeline, table)), ignore_errors=True)

    def recompute(self) -> None:
        """Run the batch path over everything."""
        self.forget_batch()
        recompute.run(self.settings, self.pipeline)

    def fold(self) -> MergedGroup:
        """Write the one file that all accepted partials become; nobody sees it yet."""
        return merge.merge_group(self.settings, self.pipeline, self.version.uri, self._partials())

    def compacted(self) -> "Lake":
        """Return a copy in which such a fold is committed, as the driver does between two epochs."""
        place = self.settings.home / "compacted"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.settings.lake_uri, place)
        copy = replace(self, settings=self.settings.model_copy(update={"lake": str(place)}))
        copy.compact()
        return copy

    def compact(self) -> None:
        """Commit a fold of all accepted partials."""
        committer = Committer(self.version, "benchmark", delta.open_table(self.version.uri), reload_every=100)
        done = self.fold()
        if not committer.replace_files([done.action, *(files.remove(file) for file in done.group)], why="fold"):
            msg = f"Pipeline `{self.pipeline.name}`: expected the fold to be committed."
            raise AssertionError(msg)

    def _partials(self) -> list[File]:
        files = compactor.list_files(delta.open_table(self.version.uri))
        return [file for file in files if file.kind == "partial"]


def of_events(bench: Bench, count: int) -> Lake:
    """Return a lake over the events that the streaming figures read; made once a run."""
    return bench.once(f"events-{count}", lambda: _made(bench, f"events_{count}", events.stream_of(count)))


def of_cells(bench: Bench, cells: int) -> Lake:
    """Return a lake of so many (window, key) rows, each of three partial rows of three epochs; made once a run."""
    keys = min(10_000, cells)
    return bench.once(
        f"cells-{cells}", lambda: _made(bench, f"cells_{cells}", events.cells_of(cells, PASSES, keys=keys))
    )


def _made(bench: Bench, name: str, sent: Iterator[tuple[int, bytes]]) -> Lake:
    settings, pipeline = bench.settings, events.define(bench.settings, name, cap=CAP, out_of_orderness="1 day")
    record = newest(settings, pipeline)
    if record is not None and record.final:  # of an installation that was kept
        return Lake(settings=settings, pipeline=pipeline, rows=sum(record.end.values()))
    rows = events.fill(settings, name, sent)
    driver.run(settings, pipeline, until="final")
    return Lake(settings=settings, pipeline=pipeline, rows=rows)
