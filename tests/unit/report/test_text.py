"""Formatting of values."""

import pytest

from cutover.reconcile.result import text
from cutover.reconcile.result.codec import Scalar

SPACE = text.THIN


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (0, "0"),
        (328_521, "328,521"),
        (-115, "\u2212115"),
        (1.5, "1.5"),
        (0.1 + 0.2, "0.3"),
        (0.25, "0.25"),
        (-1e-55, "\u22121e\u221255"),
        (0.0, "0"),
        (1e18, "1e+18"),
        (True, "True"),
        ("NaN", "NaN"),
        ("a\x1bb", "a\\x1bb"),
    ],
)
def test_number(value: Scalar, expected: str) -> None:
    assert text.format_number(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(3, "+3"), (-3, "\u22123"), (0, "0"), (None, "null"), ("x", "x")])
def test_signed_number(value: Scalar, expected: str) -> None:
    assert text.format_signed(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (1e-3, "0.1"), (115 / 328_517, "0.035"), (0.25, "25"), (3e-6, "0.0003"), (0.3 + 0.7, "100")],
)
def test_share(value: float, expected: str) -> None:
    assert text.share(value) == f"{expected}{SPACE}%"


@pytest.mark.parametrize(("hits", "of"), [(59_999, 60_000), (999_999_999, 10**9), (1, 10**9)])
def test_a_share_is_all_or_none_only_if_it_is(hits: int, of: int) -> None:
    """One late window of 60,000 must not disappear: 99.998 % is not shown as 100 %."""
    shown_share = text.share(hits / of).removesuffix(f"{SPACE}%")

    assert 0 < float(shown_share) < 100
    assert float(shown_share) == pytest.approx(hits / of * 100, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "none"),
        (0.0, f"0{SPACE}s"),
        (5.0, f"5{SPACE}s"),
        (-18_001, f"-5{SPACE}h 1{SPACE}s"),
        (0.004, f"4{SPACE}ms"),
        (0.25, f"0.2{SPACE}s"),
        (59, f"59{SPACE}s"),
        (5400, f"1{SPACE}h 30{SPACE}min"),
        (90_061, f"1{SPACE}d 1{SPACE}h"),
    ],
)
def test_duration(value: float | None, expected: str) -> None:
    assert text.duration(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2013-02-08T14:00:00Z", "2013-02-08 14:00"),
        ("2013-02-08T14:00:07+02:00", "2013-02-08 12:00:07"),
        ("2013-02-08T14:00:07.250000Z", "2013-02-08 14:00:07.25"),
        ("2013-02-08T14:00:00.000001Z", "2013-02-08 14:00:00.000001"),
        (None, "none"),
        ("no time", "no time"),
    ],
)
def test_time_is_utc(value: str | None, expected: str) -> None:
    assert text.when(value) == expected


@pytest.mark.parametrize("value", [None, "x", "nan", float("inf")])
def test_value_that_is_no_number_draws_as_zero(value: Scalar) -> None:
    assert text.numeric(value) == 0


def test_counts_by_name_are_in_brackets() -> None:
    assert (text.counts({}), text.counts({"lost": 1200, "stale": 1})) == ("", " (1,200 lost, 1 stale)")
