"""Position of a compacted topic whose records are the rows of a batch job.

The job writes its rows, and then a record with the key `cutover.position`: the position in the long form, whose
`table.ends` has the offset after its last row of each partition. Offsets are in no order across partitions, so only
these tell which rows were written before the position. A row at or after them belongs to another run, or another
writer.
"""

from cutover.positions.position import Position, PositionReport, UnknownPosition, parse_position
from cutover.sources.compacted_topic import POSITION_KEY, PositionRecord, TopicState

_SOURCE = f"record with the key `{POSITION_KEY}`"


def find_topic_position(state: TopicState, shown: str) -> PositionReport:
    """Find the position of the rows that a topic has, which are all that were read.

    Args:
        state: Of the topic.
        shown: Its address, without secrets.

    Raises:
        LakeError: The position is malformed.
    """
    newest = {record.partition: record for record in state.positions}
    records = [record for record in newest.values() if record.text is not None]
    reason = _find_doubt_of_records(records)
    if reason is not None:
        return PositionReport(position=UnknownPosition(reason), source=_SOURCE)
    (record,) = records
    source = f"record at offset {record.offset} of partition {record.partition}, with the key `{POSITION_KEY}`"
    position = parse_position(record.text or "", place=f"Table `{shown}`, {source}")
    doubt = _find_doubt_of_rows(state, position)
    return PositionReport(position=position if doubt is None else UnknownPosition(doubt), source=source)


def _find_doubt_of_records(records: list[PositionRecord]) -> str | None:
    if not records:
        return f"the topic has no {_SOURCE}"
    if len(records) > 1:
        listed = " and ".join(str(record.partition) for record in records[:2])
        return f"partitions {listed} have a {_SOURCE}, of which neither is the later one"
    return None


def _find_doubt_of_rows(state: TopicState, position: Position) -> str | None:
    """Find why the rows of a topic are not those that the job had written when it recorded its position."""
    if position.table_ends is None:
        return f"the {_SOURCE} does not state `ends` of `table`, the offsets after the job's last rows"
    for partition, end in sorted(position.table_ends.items()):
        read = state.ends.get(partition, 0)
        if end > read:
            reason = f"it states rows up to offset {end} of partition {partition}, and the topic ends at {read}"
            return f"{reason} for readers of committed records: a transaction is open, or it was created again"
    for partition, row_end in sorted(state.row_ends.items()):
        end = position.table_ends.get(partition, 0)
        if row_end > end:
            return f"rows were written after it, such as that at offset {row_end - 1} of partition {partition}"
    return None


def has_record_of_each_offset(state: TopicState, position: Position) -> bool:
    """Return whether every offset after the rows has a record, so that no row was deleted without a trace.

    Compaction removes the record of a deletion in the end. Markers of transactions have no record either.
    """
    ends = position.table_ends or {}
    later = sum(end - min(end, ends.get(partition, 0)) for partition, end in state.ends.items())
    return later == sum(record.offset >= ends.get(record.partition, 0) for record in state.positions)
