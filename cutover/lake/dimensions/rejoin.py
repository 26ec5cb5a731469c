"""Join records again with the versions of dimensions that were recorded for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.dimensions import dimension as dimensions
from cutover.lake.dimensions import frames as dimension_frames
from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.dimension import Dimension
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.kafka import RawRecord
from cutover.records.enrich import Dimensions
from cutover.records.reading.scan import Offsets
from cutover.records.reference import lookups as plain
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spans = Mapping[str, tuple[VersionSpan, ...]]  # by lookup


class Rejoin:
    """Dimensions of a pipeline, each version opened once."""

    def __init__(self, settings: Settings, pipeline: Pipeline) -> None:
        self._settings, self._pipeline = settings, pipeline
        self._opened: dict[tuple[str, int | None], Dimension] = {}
        self._used: dict[tuple[str, int, str], Dimension] = {}  # lookup, recorded version and table -> version to read
        self._plain: dict[tuple[str, int, str], plain.DimensionRows] = {}

    def collect_recorded(self, records: Sequence[EpochRecord]) -> Spans:
        """Return the spans that epochs recorded, by lookup."""
        return {name: joined_versions.list_recorded_spans(records, name) for name in self._pipeline.lookups}

    def resolve_versions(self, recorded_spans: Spans, reads: Sequence[Offsets]) -> Spans:
        """Resolve the versions with which the records of some offsets are joined, every offset in one span.

        A recorded version that can no longer be read is replaced by the newest one, and `instead_of` of the span names
        it.

        Raises:
            LakeError: The newest version is needed and cannot be joined.
        """
        versions = {}
        for name in self._pipeline.lookups:
            newest = (0, "") if recorded_spans[name] else _identity(self._open(name, None))
            version_spans = joined_versions.spans_to_read(recorded_spans[name], reads, newest)
            versions[name] = tuple(self._find_readable(name, span) for span in version_spans)
        return versions

    def frames(self, spark: "SparkSession", spans: Spans) -> Dimensions:
        """Return the dimensions with which Spark joins the records of some spans.

        Raises:
            LakeError: A version cannot be read.
        """
        limit = self._settings.dimensions.broadcast_rows
        return {
            name: dimension_frames.join_versions(
                spark,
                [self._open(name, version) for version in sorted({span.version for span in of})],
                of,
                broadcast_rows=limit,
            )
            for name, of in spans.items()
        }

    def at(self, spans: Spans) -> plain.DimensionsAt:
        """Return a function that finds the rows with which plain Python joins a record.

        It raises `LakeError` if a version can no longer be read.
        """
        return lambda record: {name: self._rows(name, of, record) for name, of in spans.items()}

    def explain_unreadable(self, spans: Spans) -> str | None:
        """Explain why a version can no longer be read; None if all can."""
        for name, of in spans.items():
            for version, table_id in sorted({(span.version, span.table_id) for span in of}):
                try:
                    self._open_exactly(name, version, table_id)
                except LakeError as error:
                    return str(error).splitlines()[0]
        return None

    def _rows(self, name: str, spans: Sequence[VersionSpan], record: RawRecord) -> plain.DimensionRows:
        place = (name, *joined_versions.version_at(spans, record.partition, record.offset))
        if place not in self._plain:
            self._plain[place] = dimensions.plain(self._open_exactly(*place))
        return self._plain[place]

    def _open_exactly(self, name: str, version: int, table_id: str) -> Dimension:
        dimension = self._open(name, version)
        if dimension.table_id != table_id:
            msg = (
                f"Pipeline `{self._pipeline.name}`, lookup `{name}`, version {version}: expected table {table_id}, got "
                f"{dimension.table_id}: it was created again."
            )
            raise LakeError(msg, runbook="DimensionUnusable")
        return dimension

    def _find_readable(self, name: str, span: VersionSpan) -> VersionSpan:
        place = (name, span.version, span.table_id)
        if place not in self._used:
            self._used[place] = self._open_readable(*place)
        used = self._used[place]
        if (used.version, used.table_id) == (span.version, span.table_id):
            return span
        return replace(span, version=used.version, table_id=used.table_id, instead_of=span.version)

    def _open_readable(self, name: str, version: int, table_id: str) -> Dimension:
        try:
            return self._open_exactly(name, version, table_id)
        except LakeError as error:
            newest = self._open(name, None)
            fields = {"lookup": name, "version": version, "instead": newest.version, "why": str(error).splitlines()[0]}
            log.warning("dimension_version_gone", pipeline=self._pipeline.name, **fields)
            return newest

    def _open(self, name: str, version: int | None) -> Dimension:
        dimension = self._opened.get((name, version))
        if dimension is None:
            dimension = dimensions.open_dimension(self._settings, self._pipeline, name, version)
            self._opened[name, version] = self._opened[name, dimension.version] = dimension
        return dimension


def _identity(dimension: Dimension) -> tuple[int, str]:
    return dimension.version, dimension.table_id
