"""Values in JSON, and encoded trees that round-trip."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from cutover.errors import LakeError
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.report import Report
from tests.support.history import reconciliations

PAIRS = '[{"value": "ß", "count": 2}, {"value": 1.5, "count": 1}]'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal(12345678901234567890123456789), 12345678901234567890123456789),
        (Decimal("2.50"), 2.5),
        (Decimal("0.1234567890123456789012345"), "0.1234567890123456789012345"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (datetime(2026, 1, 1, 2, 3, tzinfo=UTC), "2026-01-01T02:03:00Z"),
        (date(2026, 1, 1), "2026-01-01"),
        (True, True),
        (None, None),
        (b"x", "b'x'"),
        ([{"value": "ß", "count": 2}, {"value": Decimal("1.50"), "count": 1}], PAIRS),
    ],
)
def test_a_value_is_held_without_loss(value: object, expected: object) -> None:
    assert scalar(value) == expected


def test_a_comparison_comes_back_from_json() -> None:
    result = reconciliations.flights()

    assert Report.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_fields_of_a_newer_version_are_left_out() -> None:
    result = reconciliations.flights()

    assert Report.from_json(result.to_json() | {"colour": "blue"}) == result


def test_an_object_of_another_shape_is_rejected() -> None:
    with pytest.raises(LakeError, match="Report"):
        Report.from_json({"pipeline": "flights"})
