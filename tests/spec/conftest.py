"""Expressions are judged as both paths compute them: compiled."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.suite.quick_spark import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark(spark: "SparkSession") -> "Iterator[SparkSession]":
    """Return the session as it is outside tests: what it runs is compiled."""
    with compiled(spark):
        yield spark
