"""The contract that a job records: every malformed form is rejected with its field."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.errors import LakeError
from cutover.positions.position import FORMAT, Position, PositionLevel, carries_position, parse_position

TOPICS = {"payments": {"0": 1380, "1": 20}}
OFFSETS = st.integers(0, 2**63 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True)
TIMES = st.none() | st.integers(-10_000_000_000_000_000, 200_000_000_000_000_000)


def encode(**fields: object) -> str:
    return json.dumps({"format": FORMAT, "topics": TOPICS, **fields})


def parse(text: str) -> Position:
    return parse_position(text, place="File `f`")


@st.composite
def draw_positions(draw: st.DrawFn) -> Position:
    """Draw a position, bounded or exact."""
    partitions = st.dictionaries(st.integers(0, 2**31 - 1), OFFSETS, min_size=1, max_size=4)
    topics = draw(st.dictionaries(NAMES, partitions, min_size=1, max_size=3))
    upto = {t: {p: draw(st.integers(end, 2**63 - 1)) for p, end in ends.items()} for t, ends in topics.items()}
    ids = draw(st.dictionaries(st.sampled_from(sorted(topics)), st.text(min_size=1), max_size=3))
    return Position(
        topics=topics,
        upto=upto if draw(st.booleans()) and upto != topics else None,
        watermark=draw(TIMES),
        table_version=draw(st.none() | OFFSETS),
        table_rows=draw(st.none() | OFFSETS),
        table_ends=draw(st.none() | partitions),
        at=draw(TIMES),
        topic_ids=ids,
    )


@given(draw_positions())
def test_an_encoded_position_is_parsed_to_itself(position: Position) -> None:
    assert parse(json.dumps(position.to_json())) == position


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda t: (
            st.lists(t)
            | st.dictionaries(
                st.text() | st.sampled_from(["format", "topics", "upto", "table", "at", "0", "t", FORMAT]), t
            )
        ),
        max_leaves=12,
    )
    | st.text()
)
def test_other_json_is_rejected_by_a_message_and_never_by_another_error(document: Any) -> None:
    for text in (json.dumps(document), json.dumps({"format": FORMAT, "topics": document}), str(document)):
        try:
            position = parse(text)
        except LakeError as error:
            message, offsets = str(error), []
        else:
            message, offsets = "", [offset for ends in position.topics.values() for offset in ends.values()]
        assert message.startswith("File `f`: expected a position") != bool(offsets)
        assert all(0 <= offset < 2**63 for offset in offsets)


@given(draw_positions(), st.data())
def test_an_upper_bound_below_its_lower_one_is_rejected(position: Position, data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(sorted(position.topics)))
    partition = data.draw(st.sampled_from(sorted(position.topics[topic])))
    end = position.topics[topic][partition]
    document: Any = {**position.to_json(), "upto": Position.to_json(position)["topics"]}
    if end == 0:
        return
    document["upto"] = json.loads(json.dumps(document["upto"]))
    document["upto"][topic][str(partition)] = data.draw(st.integers(0, end - 1))

    with pytest.raises(LakeError, match="to be at least"):
        parse(json.dumps(document))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "JSON"),
        ("7", "a JSON object"),
        ("{}", "`format`"),
        ('{"topics": {}, "format": "cutover.position/2"}', "the only version that is known"),
        ('{"format": 1, "topics": {}}', "the only version that is known"),
        (json.dumps({"format": FORMAT}), "the field `topics`"),
        (encode(topics={}), "at least one topic"),
        (encode(topics=[]), "at least one topic"),
        (encode(topics={"a b": {"0": 1}}), "names of topics"),
        (encode(topics={"..": {"0": 1}}), "names of topics"),
        (encode(topics={"payments": {}}), "at least one partition"),
        (encode(topics={"payments": [1, 2]}), "at least one partition"),
        (encode(topics={"payments": {"one": 1}}), "numbers of partitions"),
        (encode(topics={"payments": {"01": 1}}), "numbers of partitions"),
        (encode(topics={"payments": {"-1": 1}}), "numbers of partitions"),
        (encode(topics={"payments": {"4294967296": 1}}), "numbers of partitions"),
        (encode(topics={"payments": {"\u0661": 1}}), "numbers of partitions"),
        (encode(topics={"payments": {"0": -5}}), "a whole number from 0"),
        (encode(topics={"payments": {"0": -1}}), "`latest`"),
        (encode(topics={"payments": {"0": 2**63}}), "a whole number from 0"),
        (encode(topics={"payments": {"0": 1.0}}), "a whole number from 0"),
        (encode(topics={"payments": {"0": "1"}}), "a whole number from 0"),
        (encode(topics={"payments": {"0": True}}), "a whole number from 0"),
        (encode(topics={"payments": {"0": None}}), "a whole number from 0"),
        (encode(upt0={"payments": {"0": 1, "1": 1}}), "only the fields"),
        (encode(upto={"payments": {"0": 1379, "1": 20}}), "to be at least 1380"),
        (encode(upto={"payments": {"0": 1380}}), "partition 1 of `payments`"),
        (encode(upto={"orders": {"0": 1380}}), "the topics of `topics`, payments"),
        (encode(upto={}), "`upto` to be an object"),
        (encode(watermark="2026-03-01T14:36:20"), "a time with its zone"),
        (encode(at="yesterday"), "a time with its zone"),
        (encode(at=1_700_000_000), "a time with its zone"),
        (encode(table=7), "`table`"),
        (encode(table={"version": -1}), "`version` of `table`"),
        (encode(table={"version": 7, "name": "t"}), "`table`"),
        (encode(table={"ends": {}}), "`ends` of `table`"),
        (encode(table={"ends": {"0": -1}}), "`ends` of `table`, partition 0"),
        (encode(table={"ends": {"00": 1}}), "numbers of partitions in `ends` of `table`"),
        (encode(topic_ids={"orders": "x"}), "`topic_ids`"),
        (encode(topic_ids={"payments": 5}), "ids of topics"),
        (encode().replace('"1": 20', '"0": 20'), "every name once"),
        (encode().replace("20", "NaN"), "numbers"),
        ("[" * 100_000, "JSON"),
        ('{"t": {"0": ' + "9" * 5_000 + "}}", "JSON"),
    ],
)
def test_a_malformed_position_is_rejected_with_its_field(text: str, message: str) -> None:
    with pytest.raises(LakeError) as error:
        parse(text)

    assert message in str(error.value)
    assert len(str(error.value)) < 500


def test_offsets_of_spark_are_the_short_form() -> None:
    position = parse('{"payments": {"0": 1380}}')

    assert (position.topics, position.level) == ({"payments": {0: 1380}}, PositionLevel.EXACT)


def test_an_upper_bound_makes_a_position_bounded_and_names_further_partitions() -> None:
    position = parse(encode(upto={"payments": {"0": 1380, "1": 25, "2": 4}}))

    assert position.level is PositionLevel.BOUNDED
    assert position.topics == {"payments": {0: 1380, 1: 20, 2: 0}}
    assert parse(encode(upto=TOPICS)).level is PositionLevel.EXACT


@pytest.mark.parametrize(
    ("text", "is_position"),
    [
        (encode(), True),
        ('{"format": "cutover.position/9"', True),  # meant as one: it is rejected, not ignored
        ('{"payments": {"0": 5}}', True),
        ('{"payments": {"0": -1}}', False),
        ('{"run": {"id": 5}}', False),
        ("nightly run of 2026-03-01", False),
        ("", False),
        (None, False),
        ({"payments": {"0": 5}}, False),
    ],
)
def test_other_texts_of_a_commit_are_no_positions(text: object, is_position: bool) -> None:
    assert carries_position(text) is is_position
