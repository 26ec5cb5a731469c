"""Invalid values in any field of a definition: rejected with the field's name, never with a Python error."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest

from cutover.definition import (
    Change,
    Count,
    Expect,
    Fixed,
    Lateness,
    Lookup,
    Max,
    Pipeline,
    Policy,
    SelfJoin,
    Sql,
    Topic,
)
from cutover.definition.checks.definition import check_definition
from cutover.errors import DefinitionError

TOPIC = Topic(name="t", schema="at timestamp, k string, amount bigint NOT NULL", event_time="at", record_id="amount")
EXPECT = Expect(type="expect_table_row_count_to_be_between", arguments={"min_value": 1})
GOOD = Pipeline(name="p", source=TOPIC, key=("k",), window=Fixed(hours=1), measures={"n": Count(), "m": Max("amount")})
PARTS: dict[str, Any] = {
    "source": TOPIC,
    "lateness": Lateness(),
    "policy": Policy(),
    "contract": (EXPECT,),
    "change": Change(of="old", why="better"),
    "batch": Sql("a.sql"),
    "lookups": {"ads": Lookup(table="ads", on={"k": "ad"}, columns={"campaign": "string"})},
    "join": SelfJoin(on=("k",), left="amount > 0", right="amount < 0"),
}
JUNK: tuple[Any, ...] = (5, -1.5, True, "x", "", None, (), (5,), {"a": 5}, {5: "a"}, object(), str, lambda: 1, b"x")


def list_broken() -> Iterator[Any]:
    for field in fields(Pipeline):
        if field.name != "file":
            yield from (pytest.param(field.name, junk, id=f"{field.name}={junk!r:.20}") for junk in JUNK)
    for name, part in PARTS.items():
        inner = next(iter(part.values())) if isinstance(part, dict) else part[0] if isinstance(part, tuple) else part
        for field in fields(inner):
            for junk in JUNK:
                yield pytest.param(name, (inner, field.name, junk), id=f"{name}.{field.name}={junk!r:.20}")


def replace_field(name: str, value: Any) -> Pipeline:
    """Build a definition with one wrong value."""
    if not (isinstance(value, tuple) and len(value) == 3):
        return replace(GOOD, **{name: value})
    inner, field, junk = value
    broken = replace(inner, **{field: junk})
    replacement = {"lookups": {"ads": broken}, "contract": (broken,)}.get(name, broken)
    return replace(GOOD, **{name: replacement})


@pytest.mark.parametrize(("name", "value"), list_broken())
def test_any_value_in_any_field_is_accepted_or_rejected_with_a_message(name: str, value: Any) -> None:
    try:
        pipeline = replace_field(name, value)
    except (DefinitionError, TypeError, ValueError, AttributeError):
        return  # its constructor rejects it, and the loader reports the line

    with suppress(DefinitionError):
        check_definition(pipeline)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": None}, "name: expected "),
        ({"key": ("k", 5)}, "key: expected "),
        ({"where": 5}, "where: expected text or None, got 5"),
        ({"where": len}, "where: expected text or None, got <built-in function len>"),
        ({"measures": 5}, "measures: expected "),
        ({"source": 5}, r"source: expected Topic\(...\), got 5"),
        ({"policy": 5}, r"policy: expected Policy\(...\), got 5"),
        ({"batch": Sql(5)}, "batch.file: expected text, got 5"),  # type: ignore[arg-type]
        ({"contract": 5}, r"contract: expected a tuple of Expect\(...\), got 5"),
        ({"max_rows_per_epoch": True}, "max_rows_per_epoch: expected "),
        ({"policy": Policy(runs="many")}, "policy.runs: expected "),  # type: ignore[arg-type]
        ({"contract": (replace(EXPECT, arguments=5),)}, r"contract\[0\].arguments: expected a mapping of text to Any"),  # type: ignore[arg-type]
        ({"schedule": "hourly"}, r"schedule: expected cron such as `0 \* \* \* \*` or `@daily`, got `hourly`"),
        ({"schedule": "99 99 * * *"}, "schedule: expected cron"),
        ({"schedule": 5}, "schedule: expected "),
    ],
)
def test_message_names_the_field_the_expectation_and_the_value(changes: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        check_definition(replace(GOOD, **changes))


def test_whole_numbers_are_numbers_and_lists_are_tuples() -> None:
    check_definition(replace(GOOD, key=["k"], policy=Policy(max_late_share=0)))  # type: ignore[arg-type]  # as a definition may
