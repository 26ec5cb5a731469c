"""Joins that cannot be run: rejected on load, with the field, the expected value and a hint."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cutover.cli.lint import warnings
from cutover.definition import AtWatermark, Bag, Fixed, Last, Pipeline, Sessions, Sliding, Sql, Sum, Topic
from cutover.definition.checks.definition import check_definition
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.joins import Lookup
from cutover.errors import DefinitionError
from tests.support.rows.joined import JOIN, ONE, SELF, TWO

RANGE = ("0 seconds", "30 minutes")


def joined(**changes: Any) -> dict[str, Any]:
    return {"join": replace(JOIN, **changes)}


def of_right(**changes: Any) -> dict[str, Any]:
    return joined(right=replace(JOIN.right, **changes))


BAD: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "no join": ({"join": "clicks"}, "join: expected Join(...) or SelfJoin(...)"),
    "how": (joined(how="outer"), "join.how: expected inner, left or full, got 'outer'"),
    "left column": (joined(on={"adv": "banner"}), "join.on, left side: expected a column of"),
    "right column": (joined(on={"ad": "banned"}), "did you mean `banner`?"),
    "no column": (joined(on={}), "join.on: expected at least one column"),
    "types": (joined(on={"ad": "n"}), "expected columns of one type, got `ad` of type string and `n` of type bigint"),
    "double": ({**joined(on={"ad": "x"}), "derive": {}}, "columns of one type"),
    "key": ({"key": ("ad", "v")}, "key: expected the columns of `join.on`: ('ad'), got ('ad', 'v')"),
    "names": ({"derive": {"c_n": "v"}}, "`c_n` on both sides"),
    "prefix": (joined(prefix="2"), "join.prefix: expected letters"),
    "long": (joined(prefix="p" * 60), "join.prefix: expected names of at most 63 characters"),
    "same topic": (of_right(name="shown"), "SelfJoin joins one topic"),
    "isolation": (of_right(isolation="read_uncommitted"), "join.right.isolation: expected that of the source"),
    "event time": (of_right(event_time="time"), "join.right.event_time: expected a column of"),
    "right where": (joined(where="n"), "join.where: expected a condition, got bigint"),
    "right derive": (joined(derive={"twice": "2 * m"}), "unknown column `m`"),
    "measure": ({"measures": {"rows": Bag("v")}}, "one of Count, Sum, Min, Max, Avg over the pairs of a join, got Bag"),
    "last": ({"measures": {"last": Last("c_n")}}, "over the pairs of a join, got Last"),
    "right name": ({"measures": {"n": Sum("n")}}, "unknown column `n`"),
    "digits": ({"measures": {"n": Sum("CAST(v AS decimal(20,0))")}}, "a decimal of at most 19 digits with a join"),
    "sql": ({"batch": Sql("x.sql")}, "batch: expected SameDefinition() with a join"),
    "ids": ({"source": replace(TWO.source, record_id="at")}, "source.record_id: expected none with a join"),
    "lookups": (
        {"lookups": {"d": Lookup(table="d", on={"ad": "ad"}, columns={"budget": "int"})}},
        "lookups: expected none with a join",
    ),
    "interval": (joined(between=("1 hour", "1 minute")), "join.between: expected the lower bound, then the upper one"),
    "bounds": (joined(between=("soon", "1 hour")), "`join.between`: expected a whole number and a unit"),
    "one bound": (joined(between=("1 hour",)), "join.between: expected two texts"),
    "outer interval": (joined(between=RANGE, how="left"), "join.how: expected inner with `join.between`"),
    "interval of sessions": (
        {**joined(between=RANGE), "window": Sessions(gap="1 minute")},
        "window: expected Fixed(...) with `join.between`",
    ),
    "panes of an interval": ({**joined(between=RANGE), "trigger": AtWatermark()}, "trigger: expected none"),
    "equal times": ({**joined(between=RANGE, on={"at": "at"}), "key": ("at",)}, "join.on: expected columns other than"),
    "ids without interval": (joined(ids=("v", "n")), "join.ids: expected none without `join.between`"),
    "ids of no column": (joined(between=RANGE, ids=("v", "m")), "join.ids, right side: expected a column of"),
    "inexact ids": (joined(between=RANGE, ids=("v", "x")), "join.ids: expected types with exact equality"),
    "one id": (joined(between=RANGE, ids=("v",)), "join.ids: expected two texts"),
    "side": (
        {"source": ONE.source, "join": replace(SELF, left="v + 1")},
        "join.left: expected a condition, got int",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_join_is_rejected(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(DefinitionError, match=r"\w") as refused:
        check_definition(replace(TWO, **changes))

    assert message in str(refused.value)


@pytest.mark.parametrize("pipeline", [TWO, ONE], ids=["two topics", "one topic"])
def test_a_valid_join_is_accepted(pipeline: Pipeline) -> None:
    check_definition(pipeline)


def test_windows_of_an_interval_join_end_later_by_the_longest_distance() -> None:
    for between, minutes in {RANGE: 30, ("-1 hour", "10 minutes"): 60, ("-2 minutes", "-1 minute"): 2}.items():
        pipeline = replace(TWO, **joined(between=between))
        check_definition(pipeline)
        assert pipeline.window == Sliding(size=f"{60 + minutes} minutes", every="1 hour")
        assert replace(pipeline, name="again").window == pipeline.window


@pytest.mark.parametrize(("minutes", "is_warned"), [(30, False), (29, True)])
def test_lint_warns_of_windows_that_are_shorter_than_the_range_of_a_join(minutes: int, is_warned: bool) -> None:
    pipeline = replace(TWO, **joined(between=RANGE), window=Fixed(minutes=minutes))

    assert any(text.startswith("window: shorter than the range") for text in warnings(pipeline)) is is_warned


def test_a_join_changes_the_result_fingerprint() -> None:
    plain = Pipeline(
        name="p", source=Topic(name="t", schema="at timestamp, k string", event_time="at"), key=("k",),
        window=Fixed(hours=1), measures={"n": Sum("1")},
    )  # fmt: skip
    variants = [TWO, replace(TWO, join=replace(JOIN, how="full")), replace(TWO, join=replace(JOIN, where="n > 0")), ONE]
    variants += [replace(TWO, **joined(between=between)) for between in (RANGE, ("-30 minutes", "0 seconds"))]

    assert len({result_fingerprint(p) for p in variants}) == len(variants)
    assert result_fingerprint(plain) == "0c7b04284383"


def test_a_bag_holds_the_columns_that_measures_read() -> None:
    left_state, right_state = compile_pipeline(replace(TWO, measures={"n": Sum("v + c_n")})).states

    assert left_state.type == "array<struct<value:struct<v:int>,count:bigint>>"
    assert right_state.type == "array<struct<value:struct<c_n:bigint>,count:bigint>>"


def test_lint_names_the_measures_that_may_fail_on_a_pair() -> None:
    assert [text.split(":")[0] for text in warnings(TWO) if "fails on a pair" in text] == [
        "measures.noise",  # a double may be too large to be added up
        "measures.mixed",
        "measures.fails",
    ]
