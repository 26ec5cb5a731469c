"""The dimensions that epochs are joined with: one version each, kept in Spark for as long as it is the newest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.dimensions import dimension as dimensions
from cutover.lake.dimensions import joined_versions as dimension_frames
from cutover.lake.dimensions.dimension import Dimension
from cutover.pipeline_lake import PipelineLake
from cutover.records.enrich import DimensionFrame, Dimensions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDimensions:
    """Dimensions that one epoch is joined with."""

    frames: Dimensions
    versions: Mapping[str, int]  # lookup -> version of the table
    ids: Mapping[str, str]  # lookup -> id of the table


class StreamEnrichment:
    """Checks for new versions between epochs, at most every few seconds. Not thread-safe."""

    def __init__(self, lake: PipelineLake, clock: Clock) -> None:
        self._lake, self._clock = lake, clock
        self._kept: dict[str, tuple[Dimension, DimensionFrame]] = {}
        self._looked: float | None = None

    def read_dimensions(self, spark: "SparkSession") -> EpochDimensions:
        """Return what the next epoch is joined with.

        Raises:
            LakeError: A new version cannot be joined. An older one would be, and is not: nothing would show that.
        """
        if self._lake.pipeline.lookups and self._is_due():
            for name in self._lake.pipeline.lookups:
                self._refresh(spark, name)
        return EpochDimensions(
            frames={name: joined for name, (_, joined) in self._kept.items()},
            versions={name: dimension.version for name, (dimension, _) in self._kept.items()},
            ids={name: dimension.table_id for name, (dimension, _) in self._kept.items()},
        )

    def _is_due(self) -> bool:
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < self._lake.settings.dimensions.look_seconds:
            return False
        self._looked = now
        return True

    def _refresh(self, spark: "SparkSession", name: str) -> None:
        cached = self._kept.get(name)
        if cached is not None and cached[0].is_newest(self._lake):
            return
        dimension = dimensions.open_dimension(self._lake, name)
        if cached is not None:
            _reject_other(self._lake.pipeline, cached[0], dimension)
            cached[1].frame.unpersist()
        limit = self._lake.settings.dimensions.broadcast_rows
        self._kept[name] = dimension, dimension_frames.join_version(spark, dimension, broadcast_rows=limit)
        log.info(
            "dimension_taken",
            pipeline=self._lake.pipeline.name,
            lookup=name,
            version=dimension.version,
            rows=dimension.size,
        )


def _reject_other(pipeline: Pipeline, current: Dimension, newest: Dimension) -> None:
    """Check that a table was not recreated while the stream ran: versions of the old one can no longer be read."""
    if current.table_id != newest.table_id or newest.version < current.version:
        msg = (
            f"Pipeline `{pipeline.name}`, lookup `{current.name}`, dimension `{newest.table.table_uri}`: expected a "
            f"version after {current.version} of table {current.table_id}, got version {newest.version} of "
            f"{newest.table_id}: it was created again."
            "\nHint: a running stream does not switch tables; restart it if the new one is intended."
        )
        raise LakeError(msg, runbook="DimensionUnusable")
