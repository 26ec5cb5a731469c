"""Arguments of commands: parsed, or rejected with the expected form."""

from datetime import UTC, datetime

import pytest

from cutover.definition.loading.key_text import split_key
from cutover.errors import DefinitionError
from cutover.reconcile.external import request
from cutover.reconcile.external.request import Tolerance


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("2013-02-08", datetime(2013, 2, 8, tzinfo=UTC)),
        ("2013-02-08T14:00:00Z", datetime(2013, 2, 8, 14, tzinfo=UTC)),
        ("2013-02-08T14:00:00+02:00", datetime(2013, 2, 8, 12, tzinfo=UTC)),
    ],
)
def test_a_time_is_utc(typed: str, expected: datetime) -> None:
    assert request.parse_moment(typed, "--from") == expected


def test_invalid_time_is_rejected_with_its_option() -> None:
    with pytest.raises(DefinitionError, match="--from"):
        request.parse_moment("yesterday", "--from")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("JFK,UA", ["JFK", "UA"]),
        ("null,UA", [None, "UA"]),
        ('"null",UA', ["null", "UA"]),
        ('"a,b",c', ["a,b", "c"]),
        ('"say ""a""",', ['say "a"', ""]),
        (",", ["", ""]),
        ("", [""]),
    ],
)
def test_a_key_is_read_like_csv(typed: str, expected: list[str | None]) -> None:
    assert split_key(typed) == expected


@pytest.mark.parametrize("typed", ['"a', '"a"b,c', 'a"b', 'a,"'])
def test_a_key_with_a_stray_quote_is_rejected(typed: str) -> None:
    with pytest.raises(DefinitionError, match="KEY: expected values separated by commas"):
        split_key(typed)


def test_tolerances_are_by_column() -> None:
    assert request.parse_tolerances(["a=0.01", "b=2"]) == {
        "a": Tolerance(absolute=0.01),
        "b": Tolerance(absolute=2.0),
    }


def test_absolute_and_relative_bounds_of_one_column_are_combined() -> None:
    assert request.parse_tolerances(["a=0.5", "a=1%"]) == {"a": Tolerance(absolute=0.5, relative=0.01)}
    assert request.parse_tolerances(["at = 5 seconds"]) == {"at": Tolerance(micros=5_000_000)}


@pytest.mark.parametrize("typed", ["a", "a=", "=1", "a=x", "a=-1", "a=inf", "a=nan%", "a=5 parsecs", "a=-5 seconds"])
def test_invalid_tolerance_is_rejected(typed: str) -> None:
    with pytest.raises(DefinitionError, match="--tolerance"):
        request.parse_tolerances([typed])


def test_names_are_mapped_once_each() -> None:
    assert request.parse_renames(["a=b", "c = d"]) == {"a": "b", "c ": " d"}  # blanks belong to names


@pytest.mark.parametrize("typed", [["a"], ["a="], ["=b"], ["a=b", "a=c"], ["a=b", "c=b"]])
def test_invalid_mapping_is_rejected(typed: list[str]) -> None:
    with pytest.raises(DefinitionError, match="--map"):
        request.parse_renames(typed)
