"""The patterns that Spark and the reference share."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from cutover.records.parsing import limits


@pytest.mark.parametrize("text", ["0", "-1", "12345678.99", "1.500000", "0.1"])
def test_number_that_fits_is_a_decimal(text: str) -> None:
    assert re.fullmatch(limits.decimal_pattern(10, 2), text)


@pytest.mark.parametrize("text", ["123456789", "1.005", "1e2", ".5", "1.", "", "--1"])
def test_number_that_needs_more_digits_is_no_decimal(text: str) -> None:
    assert not re.fullmatch(limits.decimal_pattern(10, 2), text)


@pytest.mark.parametrize(("text", "fits"), [("5", True), ("5.0", True), ("5.1", False)])
def test_decimal_without_scale_takes_zeros_alone_after_the_point(text: str, fits: bool) -> None:
    assert fits == bool(re.fullmatch(limits.decimal_pattern(3, 0), text))


@pytest.mark.parametrize(("text", "fits"), [("0.25", True), ("1.25", False)])
def test_decimal_of_scale_alone_is_below_one(text: str, fits: bool) -> None:
    assert fits == bool(re.fullmatch(limits.decimal_pattern(2, 2), text))


def test_range_of_times_is_from_1000_to_9000() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    earliest, end = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)

    assert earliest == epoch + timedelta(microseconds=limits.MIN_MICROS)
    assert end == epoch + timedelta(microseconds=limits.MAX_MICROS + 1)
