"""Behavior of Spark that the records layer relies on, or has to work around. An upgrade that changes it fails here."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STRICT = "map('columnNameOfCorruptRecord', '_bad', 'allowSingleQuotes', 'false')"
ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.fixture
def adaptive(spark: "SparkSession") -> "Iterator[SparkSession]":
    """Return the session with adaptive execution on."""
    spark.conf.set(ADAPTIVE, "true")
    yield spark
    spark.conf.set(ADAPTIVE, "false")


def filtered_away(spark: "SparkSession", observation: Observation) -> "DataFrame":
    """Return an observed aggregate of which a shuffle shows that nothing is left."""
    rows = spark.range(10).repartition(2).where("id > 99").observe(observation, F.max("id").alias("newest"))
    return rows.groupBy("id").count()


def read(spark: "SparkSession", value: str, schema: str) -> tuple[object, ...]:
    """Return what `from_json` makes of a text, the corrupt-record column last."""
    parse = f"inline(array(from_json(value, '{schema}, _bad string', {STRICT})))"
    return tuple(spark.createDataFrame([(value,)], "value string").selectExpr(parse).collect()[0])


def test_observation_of_rows_that_a_filter_removes_holds_without_adaptive_execution(spark: "SparkSession") -> None:
    observation = Observation()

    filtered_away(spark, observation).toArrow()

    assert observation.get == {"newest": None}


def test_adaptive_execution_drops_the_observation_of_rows_that_a_filter_removes(adaptive: "SparkSession") -> None:
    observation = Observation()

    filtered_away(adaptive, observation).toArrow()

    with pytest.raises(Py4JJavaError, match="assertion failed"):
        _ = observation.get


def test_a_parse_that_a_filter_looks_at_is_done_for_each_use(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([('{"a":1,"b":2}',)], "value string")

    copied = rows.selectExpr("from_json(value, 'a int, b int') AS j").select("j.*").where("a > b")
    once = rows.selectExpr("inline(array(from_json(value, 'a int, b int')))").where("a > b")

    count = [_plan(frame).count("from_json(") for frame in (copied, once)]
    assert count[0] > 1
    assert count[1] == 1


@pytest.mark.parametrize("value", ['{"a":"12"}', '{"a":1.5}', '{"a":99999999999999999999}'])
def test_a_bigint_that_does_not_fit_is_null_and_flagged(spark: "SparkSession", value: str) -> None:
    assert read(spark, value, "a bigint") == (None, value)


def test_text_after_the_object_is_not_noticed(spark: "SparkSession") -> None:
    assert read(spark, '{"a":1} and more', "a bigint") == (1, None)


def test_a_number_becomes_a_string_without_a_word(spark: "SparkSession") -> None:
    assert read(spark, '{"a":12}', "a string") == ("12", None)


def test_a_string_becomes_a_decimal_without_a_word(spark: "SparkSession") -> None:
    assert str(read(spark, '{"a":"1.5"}', "a decimal(10,2)")[0]) == "1.50"


def test_a_double_out_of_range_becomes_infinite_without_a_word(spark: "SparkSession") -> None:
    assert read(spark, '{"a":1e400}', "a double") == (float("inf"), None)


def test_a_variant_remembers_the_kind_that_json_gave(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([('{"a":12,"b":"12","c":null}',)], "value string")
    parse = "inline(array(from_json(value, 'a variant, b variant, c variant, d variant')))"
    kinds = [f"schema_of_variant({name})" for name in "abcd"]

    assert tuple(rows.selectExpr(parse).selectExpr(*kinds).collect()[0]) == ("BIGINT", "STRING", "VOID", None)


def test_a_cast_that_does_not_fit_raises_under_ansi_rules(spark: "SparkSession") -> None:
    with pytest.raises(PySparkException):
        spark.sql("SELECT CAST(value AS int) FROM VALUES ('x') AS t(value)").collect()


def test_a_sum_of_hashes_overflows(spark: "SparkSession") -> None:
    with pytest.raises(PySparkException):
        spark.range(1000).selectExpr("sum(xxhash64(id))").collect()


def test_a_date_beyond_the_last_timestamp_overflows(spark: "SparkSession") -> None:
    with pytest.raises(PySparkException):
        spark.sql(
            "SELECT unix_micros(CAST(try_cast(t AS date) AS timestamp)) FROM VALUES ('+999999-01-01') AS v(t)"
        ).collect()


def _plan(frame: "DataFrame") -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())
