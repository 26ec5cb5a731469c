"""Spark's xxHash64, checked with values printed by Spark, and the distinct estimate derived from it."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from cutover.definition import ApproxDistinct
from cutover.records.reference.measures import finish_measure, spark_hash, xxhash64


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, "int", -6698625589789238999),
        (1, "bigint", -7001672635703045582),
        (True, "boolean", -6698625589789238999),
        ("", "string", -7444071767201028348),
        ("abc", "string", 1423657621850124518),
        (date(2020, 1, 1), "date", 2299834470729022467),
        (datetime(2020, 1, 1), "timestamp", 7881863312764026046),  # noqa: DTZ001 -- as plain Python has it
        (Decimal("1.50"), "decimal(10,2)", -6873856301616164681),
        (Decimal("-1.50"), "decimal(30,2)", -6659465364316328129),
    ],
)
def test_a_hash_is_that_of_spark(value: Any, kind: str, expected: int) -> None:
    assert spark_hash(value, kind) == expected


def test_a_hash_without_a_seed_is_that_of_the_specification() -> None:
    assert xxhash64(b"", 0) == 0xEF46DB3751D8E999


def test_the_estimate_of_twenty_thousand_lies_within_its_bound() -> None:
    measure = ApproxDistinct("v", k=1024)
    number = 20_000
    tolerance = measure.tolerance("int", same_definition=False) or 0.0

    assert abs(finish_measure(measure, range(number), "int") - number) < tolerance * number


def test_below_k_the_number_is_exact() -> None:
    assert finish_measure(ApproxDistinct("v", k=16), [*range(15), *range(15)], "int") == 15
