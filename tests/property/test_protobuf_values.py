"""Values in Protobuf: Spark's workers, the plain-Python parser and the library's own rendering agree on each."""

import random
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Pipeline
from cutover.records.reference.parse import parse_record
from tests.spec.test_from_json import list_differences
from tests.support.rows.protobuf_values import draw_message, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 400


def make_pipeline(**options: Any) -> Pipeline:
    return Pipeline(
        name="p", source=make_topic(**options), key=("shop",), window=Fixed(hours=1), measures={"n": Count()}
    )


def draw_values(seed: int) -> list[bytes | None]:
    """Draw values, of which some are broken at one byte, cut off, or of a newer writer."""
    draw = random.Random(seed)  # noqa: S311 -- drawn values of a test
    values: list[bytes | None] = [None, b"", b"x" * 1_000_001]
    for number in range(RECORDS):
        value = bytearray(draw_message(draw, draw.choice(["shop.Order", "shop.Next"])).SerializeToString() or b"\0")
        if number % 5 == 0:
            value[draw.randrange(len(value))] ^= 1 << draw.randrange(8)
        values.append(bytes(value[: draw.randrange(len(value)) if number % 7 == 0 else None]))
    return values


@pytest.mark.quick
def test_drawn_values_are_read_alike(spark: "SparkSession") -> None:
    values = draw_values(1)

    assert list_differences(spark, values, make_pipeline()) == []
    accepted = sum(parse_record(value, make_topic()).reason is None for value in values)
    assert len(values) / 10 < accepted < len(values) * 3 / 4


@pytest.mark.parametrize("option", ["registry_header", "default_values"])
def test_options_are_read_alike(option: str, spark: "SparkSession") -> None:
    values = [value and b"\0\0\0\0\1\2\4" + value for value in draw_values(2)]

    assert list_differences(spark, values, make_pipeline(**{option: True})) == []


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_values_are_those_of_the_librarys_own_rendering(seed: int) -> None:
    message = draw_message(random.Random(seed))  # noqa: S311 -- drawn values of a test

    parsed = parse_record(message.SerializeToString(), make_topic())

    shown = json_format.MessageToDict(message, preserving_proto_field_name=True)
    invalid = {field.name for field in parsed.invalid_fields}
    for name in ("id", "big", "points"):
        if name not in invalid:
            assert (parsed.values[name] is None) == (name not in shown)
            assert parsed.values[name] is None or parsed.values[name] == int(shown[name])
    for name in ("shop", "open", "count", "note"):
        assert parsed.values[name] == shown.get(name)
    assert parsed.values["city"] == (shown.get("buyer", {}).get("address", {}).get("city"))
