"""Position: the offsets up to which a table contains the records of its topics, as any job can record it.

Its JSON object is the contract `cutover.position/1`. A job carries it in the commit of its data: as `userMetadata` of a
Delta commit, as a property of an Iceberg snapshot, as a row in the same transaction, else as a file next to the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.positions.delta_versions import TableVersion
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint
from cutover.timestamps import format_micros

FORMAT = "cutover.position/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position of a table."""

    topics: Mapping[str, Mapping[int, int]]  # topic -> partition -> next offset, exclusive
    watermark: int | None  # by which the newest records were judged, microseconds; None: unknown, or no watermark
    table_version: int | None  # None: the table has no versions, or was not named
    at: int  # when these records were planned, microseconds

    def to_json(self) -> dict[str, object]:
        """Convert to the JSON object of the contract."""
        return {
            "format": FORMAT,
            "topics": {
                topic: {str(partition): offset for partition, offset in sorted(offsets.items())}
                for topic, offsets in sorted(self.topics.items())
            },
            "watermark": format_micros(self.watermark),
            "table": None if self.table_version is None else {"version": self.table_version},
            "at": format_micros(self.at),
        }


def find_position(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion]) -> Position | None:
    """Find the position of the table that a query writes; None if the table contains no batch that is kept.

    It is that of the newest batch that has committed or that wrote a version: a query that is killed between the
    commit of its table and its own has written a batch that its checkpoint does not call committed, and a batch that
    changes nothing writes no version.

    Args:
        checkpoint: Of the query.
        versions: Of its table; empty if the table was not named.
    """
    batch = _find_newest(checkpoint, versions)
    if batch is None:
        return None
    return Position(
        topics=batch.ends,
        watermark=batch.judged_by or None,
        table_version=versions[-1].version if versions else None,
        at=batch.planned_at,
    )


def _find_newest(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion]) -> Batch | None:
    written = max((version.batch for version in versions if version.batch is not None), default=-1)
    kept = [batch for batch in checkpoint.batches if batch.is_committed or batch.number <= written]
    return kept[-1] if kept else None
