"""Contract checks without Great Expectations: the frame passed to it, and the expectation classes looked up by name."""

from types import SimpleNamespace
from typing import Any

from cutover.batch.write import publish
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


def make_expectations_module(*names: str) -> Any:
    """Build a fake of Great Expectations' module whose expectation types return their arguments."""
    return SimpleNamespace(**{name: lambda **arguments: arguments for name in names})


def read(query: str) -> Any:
    """Read the frame that is passed to Great Expectations for a staged result."""
    with queries.open_duckdb() as connection:
        connection.execute(f"CREATE TEMP TABLE staged AS {query}")
        return publish._frame(connection, "staged")


def test_expectation_is_looked_up_by_name_and_gets_its_arguments_and_severity() -> None:
    expect = Expect(type="expect_column_max_to_be_between", arguments={"column": "n"}, severity="warning")

    expectation = publish._expectation(PIPELINE, expect, make_expectations_module("ExpectColumnMaxToBeBetween"))

    assert expectation == {"column": "n", "severity": "warning"}


def test_an_expectation_with_capitals_within_a_word_is_found() -> None:
    expect = Expect(type="expect_column_kl_divergence_to_be_less_than", arguments={"threshold": 0.1})

    expectation = publish._expectation(
        PIPELINE, expect, make_expectations_module("ExpectColumnKLDivergenceToBeLessThan")
    )

    assert expectation == {"threshold": 0.1, "severity": "critical"}


def test_integers_in_a_column_with_null_keep_all_digits() -> None:
    frame = read(f"SELECT unnest([{BEYOND_DOUBLES}::BIGINT, NULL]) AS n")

    assert frame["n"].tolist() == [BEYOND_DOUBLES, None]


def test_decimals_are_passed_as_doubles_but_lists_of_them_unchanged() -> None:
    frame = read("SELECT 1.50::DECIMAL(9, 2) AS price, [1.50::DECIMAL(9, 2)] AS prices, 'x' AS \"a name\"")

    assert (frame["price"].dtype.kind, frame["price"].tolist(), frame["a name"].tolist()) == ("f", [1.5], ["x"])
    assert [str(value) for value in frame["prices"][0]] == ["1.50"]
