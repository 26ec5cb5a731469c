"""What people type, parsed or refused with what was expected."""

from datetime import UTC, datetime

import pytest

from cutover.errors import DefinitionError
from reconcile.cli import arguments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-02-08", datetime(2013, 2, 8, tzinfo=UTC)),
        ("2013-02-08T14:00:00Z", datetime(2013, 2, 8, 14, tzinfo=UTC)),
        ("2013-02-08T14:00:00+02:00", datetime(2013, 2, 8, 12, tzinfo=UTC)),
    ],
)
def test_a_time_is_utc(text: str, expected: datetime) -> None:
    assert arguments.moment(text, "--from") == expected


def test_what_is_no_time_is_refused_with_its_option() -> None:
    with pytest.raises(DefinitionError, match="--from"):
        arguments.moment("yesterday", "--from")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("JFK,UA", ["JFK", "UA"]), ("null,UA", [None, "UA"]), ('"a,b",c', ["a,b", "c"]), (",", ["", ""])],
)
def test_a_key_is_read_like_csv(text: str, expected: list[str | None]) -> None:
    assert arguments.key(text) == expected


def test_tolerances_are_by_column() -> None:
    assert arguments.tolerances(["a=0.01", "b=2"]) == {"a": 0.01, "b": 2.0}
