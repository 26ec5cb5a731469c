"""The contract without Great Expectations: what is handed over to it, and which of its names are taken."""

from types import SimpleNamespace
from typing import Any

from cutover.batch.write import contract
from cutover.definition import Count, Expect, Fixed, Pipeline, Topic
from cutover.engine import queries

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


def test_an_expectation_with_capitals_within_a_word_is_found() -> None:
    expect = Expect(type="expect_column_kl_divergence_to_be_less_than", arguments={"threshold": 0.1})

    found = contract._expectation(PIPELINE, expect, of_types("ExpectColumnKLDivergenceToBeLessThan"))

    assert found == {"threshold": 0.1, "severity": "critical"}


def test_whole_numbers_beside_a_null_keep_all_their_digits() -> None:
    frame = read(f"SELECT unnest([{BEYOND_DOUBLES}::BIGINT, NULL]) AS n")

    assert frame["n"].tolist() == [BEYOND_DOUBLES, None]


def test_decimals_are_handed_over_as_doubles_and_lists_of_them_as_they_are() -> None:
    frame = read("SELECT 1.50::DECIMAL(9, 2) AS price, [1.50::DECIMAL(9, 2)] AS prices, 'x' AS \"a name\"")

    assert (frame["price"].dtype.kind, frame["price"].tolist(), frame["a name"].tolist()) == ("f", [1.5], ["x"])
    assert [str(value) for value in frame["prices"][0]] == ["1.50"]
