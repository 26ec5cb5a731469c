"""Aggregates by their buffers in the state of a query, and queries that cannot be followed."""

import pytest

from cutover.adoption.evidence import decode_aggregates, describe_query
from cutover.errors import DefinitionError
from cutover.positions.spark_checkpoint import Batch, LateRule, Operator, SparkCheckpoint, StateField


def field(name: str, kind: str = "long", *, nullable: bool = True, **facts: bool) -> StateField:
    return StateField(name=name, type=kind, nullable=nullable, is_key=facts.pop("is_key", False), **facts)


WINDOW = field("window", "struct", is_key=True, is_window=True, is_timed=True)


def checkpoint(*operators: Operator, topics: tuple[str, ...] = ("t",)) -> SparkCheckpoint:
    ends = {topic: {0: 10} for topic in topics}
    batch = Batch(number=0, ends=ends, planned_at=0, watermark=0, judged_by=0, is_committed=True)
    return SparkCheckpoint(query_id="q", starts={}, batches=(batch,), operators=operators)


def operator(name: str, *fields: StateField, rule: LateRule = LateRule.WINDOW) -> Operator:
    columns = tuple(each.name for each in fields if each.is_key)
    return Operator(id=0, name=name, columns=columns, watermark_delay=60_000_000, late_rule=rule, fields=fields)


def test_a_sum_before_a_count_is_told_from_an_average_by_whether_the_count_may_be_null() -> None:
    average = [field("sum", "double"), field("count")]
    sum_and_count = [field("sum", "double"), field("count", nullable=False)]

    assert [aggregate.measures for aggregate in decode_aggregates(average)] == [("Avg",)]
    assert [aggregate.measures for aggregate in decode_aggregates(sum_and_count)] == [("Sum",), ("Count",)]


def test_aggregates_are_decoded_in_their_order_and_others_are_unknown() -> None:
    buffers = [
        *[field("sum", "decimal(20,2)"), field("isEmpty", "boolean")],
        *[field(name, "double") for name in ("n", "avg", "m2")],
        *[field("max"), field("buf", "binary"), field("min")],
    ]
    kinds = [aggregate.measures for aggregate in decode_aggregates(buffers)]

    assert kinds == [("Sum",), ("Variance", "Stddev"), ("Max",), (), ("Min",)]


def test_a_grouping_behind_a_deduplication_is_described() -> None:
    once = operator(
        "dedupe", field("id", is_key=True), field("at", "timestamp", is_key=True, is_timed=True), rule=LateRule.ROW
    )
    shape = describe_query(checkpoint(operator("stateStoreSave", WINDOW, field("k", "string", is_key=True)), once))

    assert (shape.topic, [key.name for key in shape.keys]) == ("t", ["k"])
    assert (shape.deduplicated_by, shape.deduplicated_time, shape.delay, shape.drops_late) == (
        "id",
        "at",
        60_000_000,
        True,
    )
    assert shape.describe_operators() == "grouping by window, k behind a deduplication by id"


def test_sessions_have_the_keys_before_the_start_of_a_session_and_the_buffers_behind_the_session() -> None:
    fields = [
        *[field("k", "string", is_key=True), field("sessionStartTime", "timestamp", is_key=True)],
        *[field("session_window", "struct", is_timed=True), field("k", "string")],
        *[field("count", nullable=False), field("sum", "decimal(20,2)"), field("isEmpty", "boolean")],
    ]
    shape = describe_query(checkpoint(operator("sessionWindowStateStoreSaveExec", *fields)))

    assert (shape.has_sessions, [key.name for key in shape.keys]) == (True, ["k"])
    assert [aggregate.measures for aggregate in shape.aggregates] == [("Count",), ("Sum",)]
    assert shape.describe_operators() == "grouping by session, k"


def test_a_day_without_a_window_is_no_key() -> None:
    fields = [field("day", "date", is_key=True), field("k", "string", is_key=True), field("count", nullable=False)]
    shape = describe_query(checkpoint(operator("stateStoreSave", *fields, rule=LateRule.NEVER)))

    assert shape.day is not None
    assert (shape.day.name, [key.name for key in shape.keys]) == ("day", ["k"])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (checkpoint(topics=("a", "b")), "reads one topic, its offsets name a, b"),
        (
            checkpoint(operator("symmetricHashJoin", rule=LateRule.ROW), topics=("a", "b")),
            "can be proposed, it joins a and b",
        ),
        (checkpoint(operator("symmetricHashJoin", rule=LateRule.UNKNOWN)), "symmetricHashJoin"),
        (checkpoint(operator("stateStoreSave", WINDOW)), "no key besides the window"),
        (checkpoint(operator("stateStoreSave", field("k", is_key=True), rule=LateRule.NEVER)), "no window"),
        (
            checkpoint(operator("dedupe", *[field(n, is_key=True) for n in "ab"], rule=LateRule.ROW)),
            "by a, b, not by one",
        ),
    ],
)
def test_a_query_that_cannot_be_followed_is_rejected_with_the_reason(query: SparkCheckpoint, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason) as caught:
        describe_query(query)
    assert "docs/follow.md" in str(caught.value)
