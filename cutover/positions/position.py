"""Position: the offsets up to which a table contains the records of its topics, as any job can record it.

Its JSON object is the contract `cutover.position/1`. A job carries it in the commit of its data: as `userMetadata` of a
Delta commit, as a property of an Iceberg snapshot, as a row in the same transaction, else as a file next to the table.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.positions.delta_versions import Evidence, TableVersion
from cutover.positions.spark_checkpoint import Batch, SparkCheckpoint
from cutover.timestamps import format_micros

FORMAT = "cutover.position/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position of a table."""

    topics: Mapping[str, Mapping[int, int]]  # topic -> partition -> next offset, exclusive
    watermark: int | None  # by which the newest records were judged, microseconds; None: unknown, or no watermark
    table_version: int | None  # None: the table was not named
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


@dataclass(frozen=True, slots=True)
class UnknownPosition:
    """Reason why the position of a table cannot be known."""

    reason: str


def find_position(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion] | None) -> Position | UnknownPosition:
    """Find the position of the table that a query writes.

    It is that of the newest batch that has committed, or that has marked a version: a query that is killed between the
    commit of its table and its own has written a batch that its checkpoint does not call committed, and a batch that
    changes nothing writes no version.

    Args:
        checkpoint: Of the query.
        versions: Of its table; None if the table was not named.
    """
    committed = checkpoint.newest_committed
    if versions is None:
        if committed is None:
            return UnknownPosition("no batch has committed yet")
        return _make_position(committed, None)
    own_versions = [version for version in versions if version.batch is not None]
    reason = _find_doubt(checkpoint, versions, own_versions)
    if reason is not None:
        return UnknownPosition(reason)
    newest = max(version.batch or 0 for version in own_versions)
    newest = newest if committed is None else max(newest, committed.number)
    batch = next((batch for batch in checkpoint.batches if batch.number == newest), None)
    if batch is None:
        return UnknownPosition(f"the checkpoint keeps no batch {newest}")
    return _make_position(batch, own_versions[-1].version)


def _make_position(batch: Batch, table_version: int | None) -> Position:
    return Position(
        topics=batch.ends, watermark=batch.judged_by or None, table_version=table_version, at=batch.planned_at
    )


def _find_doubt(
    checkpoint: SparkCheckpoint, versions: Sequence[TableVersion], own_versions: Sequence[TableVersion]
) -> str | None:
    """Find why the versions of a table do not show which batches it contains."""
    if not own_versions:
        return "no version of the table came from a batch that the checkpoint keeps"
    foreign = next((version for version in reversed(versions) if version.is_foreign), None)
    if foreign is not None:
        return f"version {foreign.version} ({foreign.operation}) was not written by the query"
    if own_versions[-1].evidence is not Evidence.TIME:
        return None
    newest, committed = checkpoint.batches[-1].number, checkpoint.newest_committed
    last = own_versions[-1]
    if committed is None or (last.batch or 0) > committed.number:
        return f"version {last.version} may be that of batch {last.batch}, which has not committed"
    counts = Counter(version.batch for version in own_versions)
    if len(own_versions) > 1 and counts.pop(newest, 0) > max(counts.values(), default=1):
        return f"batch {newest} is the newest one and cannot have written all versions that are later than it"
    return None
