"""The contract without Great Expectations: what is handed over to it, and which of its names are taken."""

from types import SimpleNamespace
from typing import Any

import pytest

from cutover.batch.write import contract
from cutover.definition import Count, Expect, Fixed, Pipeline, Topic
from cutover.engine import queries
from cutover.errors import DefinitionError

PIPELINE = Pipeline(
    name="flights",
    source=Topic(name="t", schema="at timestamp", event_time="at"),
    key=("at",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
BEYOND_DOUBLES = 2**53 + 1


def of_types(*names: str) -> Any:
    """Return a stand-in for Great Expectations' module, whose types keep what they are given."""
    return SimpleNamespace(**{name: lambda **given: given for name in names})


def read(query: str) -> Any:
    """Return the frame that is handed over for a staged result."""
    with queries.connect() as connection:
        connection.execute(f"CREATE TEMP TABLE staged AS {query}")
        return contract._frame(connection, "staged")


def test_expectation_is_found_by_its_name_and_given_its_arguments_and_severity() -> None:
    expect = Expect(type="expect_column_max_to_be_between", arguments={"column": "n"}, severity="warning")

    found = contract._expectation(PIPELINE, expect, of_types("ExpectColumnMaxToBeBetween"))

    assert found == {"column": "n", "severity": "warning"}


@pytest.mark.parametrize("name", ["expect_miracles", "unexpected_rows_expectation", "miracles"])
def test_a_name_that_is_no_expectation_is_refused_with_some_that_are(name: str) -> None:
    known = of_types("ExpectColumnMaxToBeBetween", "UnexpectedRowsExpectation")

    with pytest.raises(DefinitionError) as refused:
        contract._expectation(PIPELINE, Expect(type=name, arguments={}), known)

    assert f"expected a type of Great Expectations, got `{name}`." in refused.value.text
    assert "some of them are ExpectColumnMaxToBeBetween, written" in refused.value.text


def test_whole_numbers_beside_a_null_keep_all_their_digits() -> None:
    frame = read(f"SELECT unnest([{BEYOND_DOUBLES}::BIGINT, NULL]) AS n")

    assert frame["n"].tolist() == [BEYOND_DOUBLES, None]


def test_decimals_are_handed_over_as_doubles_and_lists_of_them_as_they_are() -> None:
    frame = read("SELECT 1.50::DECIMAL(9, 2) AS price, [1.50::DECIMAL(9, 2)] AS prices, 'x' AS \"a name\"")

    assert (frame["price"].dtype.kind, frame["price"].tolist(), frame["a name"].tolist()) == ("f", [1.5], ["x"])
    assert [str(value) for value in frame["prices"][0]] == ["1.50"]
