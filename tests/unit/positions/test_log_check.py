"""Positions and groups compared with the bounds of their topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.errors import DefinitionError
from cutover.positions.log_check import TopicBounds, compare_with_log, find_group_doubt, parse_run_times
from cutover.positions.position import Position, PositionLevel, PositionReport, TopicOffsets, UnknownPosition

BOUNDS = {"t": TopicBounds(topic_id="a", earliest={0: 5, 1: 0}, ends={0: 20, 1: 10})}
SECOND = 1_000_000


def compare(
    topics: TopicOffsets, upto: TopicOffsets | None = None, *, is_complete: bool = False, topic_id: str = "a"
) -> PositionReport:
    position = Position(
        topics=topics, upto=upto, watermark=None, table_version=3, at=None, topic_ids=dict.fromkeys(topics, topic_id)
    )
    report = PositionReport(position=position, source="s", unnamed_are_unread=is_complete)
    return compare_with_log(report, BOUNDS)


def test_a_position_inside_the_log_stays_exact() -> None:
    position = compare({"t": {0: 20, 1: 3}}).position

    assert isinstance(position, Position)
    assert (position.level, position.topics) == (PositionLevel.EXACT, {"t": {0: 20, 1: 3}})


def test_a_partition_that_is_not_named_lies_between_zero_and_the_end() -> None:
    report = compare({"t": {0: 20}})

    assert isinstance(report.position, Position)
    assert (report.position.topics, report.position.upto) == ({"t": {0: 20, 1: 0}}, {"t": {0: 20, 1: 10}})
    assert report.position.level is PositionLevel.BOUNDED
    assert report.notes == ("Not named: t, partition 1: between offset 0 and the log's end.",)


def test_a_source_that_names_all_it_read_shows_the_other_partitions_as_unread() -> None:
    position = compare({"t": {0: 20}}, is_complete=True).position

    assert isinstance(position, Position)
    assert (position.level, position.topics) == (PositionLevel.EXACT, {"t": {0: 20, 1: 0}})


@pytest.mark.parametrize(
    ("topics", "upto", "topic_id", "reason"),
    [
        ({"t": {0: 21}}, None, "a", "offset 21 of topic t, partition 0, is beyond the log's end, 20"),
        ({"t": {0: 20}}, {"t": {0: 21}}, "a", "offset 21 of topic t"),
        ({"t": {2: 0}}, None, "a", "has no partition 2"),
        ({"u": {0: 0}}, None, "a", "the cluster has no topic u"),
        ({"t": {0: 0}, "u": {0: 0}}, None, "a", "the cluster has no topic u"),
        ({"t": {0: 20}}, None, "b", "was created again: its id is a"),
    ],
)
def test_a_position_that_the_log_contradicts_is_unknown(
    topics: TopicOffsets, upto: TopicOffsets | None, topic_id: str, reason: str
) -> None:
    position = compare(topics, upto, topic_id=topic_id).position

    assert isinstance(position, UnknownPosition)
    assert reason in position.reason


def test_records_that_the_log_has_deleted_behind_the_position_are_noted() -> None:
    assert compare({"t": {0: 4, 1: 0}}).notes == (
        "Topic t, partition 0: the log begins at offset 5, after the position.",
    )


@given(st.data())
def test_bounds_contain_what_was_recorded(data: st.DataObject) -> None:
    ends = BOUNDS["t"].ends
    named = data.draw(st.sets(st.sampled_from(sorted(ends)), min_size=1))
    lower = {p: data.draw(st.integers(0, ends[p])) for p in named}
    upper = {p: data.draw(st.integers(lower[p], ends[p])) for p in named}
    position = compare({"t": lower}, data.draw(st.sampled_from([None, {"t": upper}]))).position

    assert isinstance(position, Position)
    assert position.upto is not None
    for partition in ends:
        assert position.topics["t"][partition] == lower.get(partition, 0)
        assert lower.get(partition, 0) <= position.upto["t"][partition] <= ends[partition]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({0: 10, 1: None}, {0: 12, 1: 1}, None),
        ({0: None, 1: None}, {0: 3, 1: None}, "has committed no offset"),
        ({0: 10, 1: 1}, {0: 9, 1: 1}, "went back from offset 10 to 9"),
        ({0: 10, 1: 1}, {0: None, 1: 1}, "went back from offset 10 to None"),
        ({0: 21, 1: 1}, {0: 21, 1: 1}, "beyond the log's end, 20"),
        ({0: 10}, {0: 10, 1: 1}, "partitions of topic t changed"),
        ({0: 10, 2: 1}, {0: 10, 2: 1}, "partitions of topic t changed"),
    ],
)
def test_a_group_that_was_reset_or_is_ahead_proves_nothing(
    before: dict[int, int | None], after: dict[int, int | None], reason: str | None
) -> None:
    doubt = find_group_doubt(["t"], {"t": before}, {"t": after}, BOUNDS)

    assert (doubt is None) if reason is None else (doubt is not None and reason in doubt)


def test_times_of_a_run_are_widened_by_the_difference_of_clocks() -> None:
    times = parse_run_times(
        "1970-01-01T00:01:00Z, 1970-01-01T01:02:00+01:00", clock_difference=SECOND, now=500 * SECOND
    )

    assert (times.start, times.end) == (59 * SECOND, 121 * SECOND)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "START,END"),
        ("1970-01-01", "START,END"),
        ("1970-01-01,x", "START,END"),
        ("1970-01-01,1970-01-02,1970-01-03", "START,END"),
        ("1970-01-02,1970-01-01", "an end at or after"),
        ("1970-01-01,1970-01-02", "has ended"),
    ],
)
def test_times_that_are_no_run_are_rejected(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parse_run_times(text, clock_difference=0, now=500 * SECOND)
