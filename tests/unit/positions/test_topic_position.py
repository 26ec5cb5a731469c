"""Position of a compacted topic of rows: the record with its key, and which records make it unknown."""

import json
from typing import Any

import pytest

from cutover.errors import LakeError
from cutover.positions.position import Position, UnknownPosition
from cutover.positions.table_position import find_topic_position, has_record_of_each_offset
from cutover.sources.compacted_topic import PositionRecord, TopicState


def make_record(offset: int = 5, *, partition: int = 0, ends: Any = None, **fields: Any) -> PositionRecord:
    table = {"0": 5, "1": 3} if ends is None else ends
    value = {"format": "cutover.position/1", "topics": {"payments": {"0": 9}}, "table": {"ends": table}, **fields}
    return PositionRecord(partition=partition, offset=offset, text=json.dumps(value))


def make_state(*positions: PositionRecord, **fields: Any) -> TopicState:
    return TopicState(**{"ends": {0: 6, 1: 3}, "row_ends": {0: 5, 1: 3}, "positions": positions, **fields})


def test_the_newest_record_has_the_position_of_all_rows() -> None:
    state = make_state(make_record(2, ends={"0": 2}), make_record())

    report = find_topic_position(state, "kafka:///hourly")

    assert isinstance(report.position, Position)
    assert (report.position.topics, report.position.table_ends) == ({"payments": {0: 9}}, {0: 5, 1: 3})
    assert report.source == "record at offset 5 of partition 0, with the key `cutover.position`"
    assert has_record_of_each_offset(state, report.position)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (make_state(), "no record with the key"),
        (make_state(make_record(), PositionRecord(partition=0, offset=6, text=None)), "no record with the key"),
        (make_state(make_record(), make_record(3, partition=1)), "partitions 0 and 1 have a record"),
        (make_state(make_record(table={"version": 7})), "does not state `ends`"),
        (make_state(make_record(), row_ends={0: 8, 1: 3}), "such as that at offset 7 of partition 0"),
        (make_state(make_record(), row_ends={0: 5, 1: 3, 2: 1}), "such as that at offset 0 of partition 2"),
        (make_state(make_record(ends={"0": 5, "1": 4})), "offset 4 of partition 1, and the topic ends at 3"),
        (make_state(make_record(ends={"0": 5, "1": 3, "2": 1})), "offset 1 of partition 2, and the topic ends at 0"),
    ],
)
def test_other_records_make_it_unknown(state: TopicState, reason: str) -> None:
    found = find_topic_position(state, "kafka:///hourly").position

    assert isinstance(found, UnknownPosition)
    assert reason in found.reason


def test_a_malformed_position_is_rejected_with_its_place() -> None:
    record = PositionRecord(partition=1, offset=7, text='{"format": "cutover.position/2"}')

    with pytest.raises(LakeError, match="`kafka:///hourly`, record at offset 7 of partition 1"):
        find_topic_position(make_state(record), "kafka:///hourly")


def test_an_offset_without_a_record_may_have_deleted_a_row() -> None:
    state = make_state(make_record(), ends={0: 6, 1: 4})
    found = find_topic_position(state, "kafka:///hourly").position

    assert isinstance(found, Position)
    assert not has_record_of_each_offset(state, found)
