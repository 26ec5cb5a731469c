"""Dimensions that a run joins records with: for each record the version that the stream recorded for its epoch."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cutover.batch.cut import BatchCut
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.lake.dimensions.rejoin import Rejoin, Spans
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.records.enrich import NO_DIMENSIONS, Dimensions
from cutover.records.reading.scan import Offsets
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BatchEnrichment:
    """Dimensions of one run, with the versions that it joined."""

    def __init__(self, settings: Settings, pipeline: Pipeline, target: BatchCut) -> None:
        self._rejoin = Rejoin(settings, pipeline) if pipeline.lookups else None
        self._known: Spans = {} if self._rejoin is None else self._rejoin.collect_recorded(_records(target))
        self._spans: dict[str, list[VersionSpan]] = defaultdict(list)

    @property
    def spans(self) -> Mapping[str, tuple[VersionSpan, ...]]:
        """Return the joined versions so far, by lookup."""
        return {name: joined_versions.merge_spans(spans) for name, spans in self._spans.items()}

    def resolve_versions(self, reads: Sequence[Offsets]) -> Spans:
        """Resolve the versions to join the records of some offsets with, and remember them.

        Raises:
            LakeError: The current version of a dimension cannot be joined, and a recorded one can no longer be read.
        """
        joined_versions = {} if self._rejoin is None else self._rejoin.resolve_versions(self._known, reads)
        for name, spans in joined_versions.items():
            self._spans[name] += spans
        return joined_versions

    def frames(self, spark: "SparkSession", spans: Spans) -> Dimensions:
        """Return what the records of resolved offsets are joined with."""
        return NO_DIMENSIONS if self._rejoin is None else self._rejoin.frames(spark, spans)


def _records(target: BatchCut) -> Sequence[EpochRecord]:
    """Return the epochs up to the cut, which is pinned."""
    return [record for record in EpochLog(target.version.uri).records() if record.epoch <= target.record.epoch]
