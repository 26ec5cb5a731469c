"""Every operator and function of the whitelist, in Spark and in DuckDB, over values that engines disagree on."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from cutover.definition.expressions.compiler import Expression, compile_expression
from cutover.engine import queries
from tests.spec.nasty import TYPES, nasty_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = Path(__file__).with_name("expressions.sql").read_text(encoding="utf-8").splitlines()
TEXTS = tuple(line for line in LINES if line and not line.startswith("--"))

OTHER_THAN_SPARK = {
    "TRY_CAST(s AS int)": "text with blanks around is no number here",
    "i * 1.5": "a number with a point is a double here, a decimal in Spark",
    "IF(x * y > 1, x * y, 0)": "what overflows a double fails here, is infinite in Spark",
    "d / e": "a quotient is a double here, a decimal in Spark",
}


@pytest.fixture(scope="module")
def compiled() -> Mapping[str, Expression]:
    return {text: compile_expression(text, TYPES) for text in TEXTS}


@pytest.fixture(scope="module")
def spark_says(spark: "SparkSession", compiled: Mapping[str, Expression]) -> pa.Table:
    frame = spark.createDataFrame(nasty_table()).repartition(1)
    frame.cache()
    parts = []
    items = list(enumerate(compiled.values()))
    for start in range(0, len(items), 25):
        columns = [f"{e.spark} AS e{i}" for i, e in items[start : start + 25]]
        columns += [f"{e.spark_failed} AS f{i}" for i, e in items[start : start + 25]]
        parts.append(frame.selectExpr("row", *columns).toArrow().sort_by("row"))
    return _side_by_side(parts)


@pytest.fixture(scope="module")
def duckdb_says(compiled: Mapping[str, Expression]) -> pa.Table:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", nasty_table())
    naive = (
        "CREATE TEMP TABLE nasty AS SELECT * REPLACE (CAST(p AS TIMESTAMP) AS p, CAST(q AS TIMESTAMP) AS q) FROM given"
    )
    connection.execute(naive)
    columns = [f"{e.duckdb} AS e{i}, {e.duckdb_failed} AS f{i}" for i, e in enumerate(compiled.values())]
    return queries.query_table(connection, f"SELECT row, {', '.join(columns)} FROM nasty ORDER BY row")  # noqa: S608 -- our own text


@pytest.fixture(scope="module")
def spark_alone(spark: "SparkSession", compiled: Mapping[str, Expression]) -> pa.Table:
    """The text as it was written, by Spark with ANSI rules, asked only where it does not fail."""
    frame = spark.createDataFrame(nasty_table()).repartition(1)
    parts = []
    items = [(i, e) for i, e in enumerate(compiled.values()) if e.text not in OTHER_THAN_SPARK]
    for start in range(0, len(items), 25):
        columns = [f"CASE WHEN NOT {e.spark_failed} THEN {e.text} END AS e{i}" for i, e in items[start : start + 25]]
        parts.append(frame.selectExpr("row", *columns).toArrow().sort_by("row"))
    return _side_by_side(parts)


def _columns(ours: pa.Table, alone: pa.Table, number: int) -> tuple[tuple[pa.Table, str], ...]:
    return (ours, f"e{number}"), (ours, f"f{number}"), (alone, f"e{number}")


def _side_by_side(parts: list[pa.Table]) -> pa.Table:
    columns = {name: part[name] for part in parts for name in part.column_names}
    return pa.table(columns)


def _plain(value: Any) -> Any:
    """Make values comparable: a time without its zone, a double with its sign and its NaN."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else (value, math.copysign(1, value))
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def _unsigned(value: Any) -> Any:
    """Return a zero without its sign, which no value of an expression keeps: equal values have equal bytes."""
    return value + 0.0 if isinstance(value, float) else value


def _differences(table: pa.Table, right: pa.Table, column: str) -> list[tuple[int, Any, Any]]:
    pairs = zip(table[column].to_pylist(), right[column].to_pylist(), strict=True)
    return [(row, a, b) for row, (a, b) in enumerate(pairs) if _plain(a) != _plain(b)][:3]


@pytest.mark.parametrize("text", TEXTS)
def test_spark_and_duckdb_give_the_same_value(text: str, spark_says: pa.Table, duckdb_says: pa.Table) -> None:
    assert _differences(spark_says, duckdb_says, f"e{TEXTS.index(text)}") == []


@pytest.mark.parametrize("text", TEXTS)
def test_spark_and_duckdb_fail_on_the_same_rows(text: str, spark_says: pa.Table, duckdb_says: pa.Table) -> None:
    assert _differences(spark_says, duckdb_says, f"f{TEXTS.index(text)}") == []


@pytest.mark.parametrize("text", TEXTS)
def test_whether_a_row_failed_is_never_unknown(text: str, spark_says: pa.Table, duckdb_says: pa.Table) -> None:
    name = f"f{TEXTS.index(text)}"

    assert spark_says[name].null_count + duckdb_says[name].null_count == 0


@pytest.mark.parametrize("text", [text for text in TEXTS if text not in OTHER_THAN_SPARK])
def test_where_it_does_not_fail_it_is_what_spark_alone_says(
    text: str, spark_says: pa.Table, spark_alone: pa.Table, spark: "SparkSession"
) -> None:
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    number = TEXTS.index(text)
    rows = zip(*(t[n].to_pylist() for t, n in _columns(spark_says, spark_alone, number)), strict=True)

    assert [(a, b) for a, failed, b in rows if not failed and _plain(a) != _plain(_unsigned(b))][:3] == []


@pytest.mark.parametrize("text", TEXTS)
def test_the_type_is_the_one_said(text: str, compiled: Mapping[str, Expression], spark_says: pa.Table) -> None:
    zoned = "timestamp[us, tz=UTC]"
    names = {"int": "int32", "bigint": "int64", "boolean": "bool", "date": "date32[day]", "timestamp": zoned}
    declared = compiled[text].type
    decimal = declared.replace("decimal(", "decimal128(").replace(",", ", ")
    expected = decimal if declared.startswith("decimal") else names.get(declared, declared)

    assert expected == str(spark_says[f"e{TEXTS.index(text)}"].type)
