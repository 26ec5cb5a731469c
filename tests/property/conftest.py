"""Each comparison runs twice, and what Spark runs is compiled."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.comparison import twice
from tests.support.suite.quick_spark import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True, scope="session")
def _every_comparison_runs_twice() -> Iterator[None]:
    with twice.comparisons():
        yield


@pytest.fixture(scope="module")
def spark(spark: "SparkSession") -> "Iterator[SparkSession]":
    """Return the session as it is outside tests: what it runs is compiled."""
    with compiled(spark):
        yield spark
