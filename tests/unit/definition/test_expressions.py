"""Allowed expressions; `tests/spec` shows that both engines agree on them."""

import pytest

from cutover.definition.expressions.compiler import compile_expression
from cutover.definition.model.topic import parse_schema
from cutover.errors import DefinitionError

TYPES = {"i": "int", "s": "string", "at": "timestamp", "b": "boolean", "x": "double", "d": "decimal(10,2)"}

REFUSED = {
    "now()": "`now` depends on the time of the run",
    "current_timestamp": "depends on the time of the run",
    "current_date()": "depends on the time of the run",
    "unix_timestamp()": "is not on the list",
    "rand()": "is random",
    "uuid()": "is random",
    "monotonically_increasing_id()": "is random",
    "input_file_name()": "depends on where it runs",
    "sum(i)": "aggregates",
    "count(*)": "aggregates",
    "mean(i)": "aggregates",
    "approx_count_distinct(s)": "aggregates",
    "row_number() OVER (ORDER BY i)": "does not merge",
    "(SELECT 1)": "subquery",
    "i IN (SELECT 1)": "subquery",
    "EXISTS (SELECT 1)": "subquery",
    "my_function(i)": "user-defined function",
    "upper(s)": "differs between Spark and DuckDB",
    "s RLIKE 'a'": "is not on the list",
    "i AS j": "an alias",
    "i j": "an alias",
    "i; i": "expected one expression, got 2",
    "": "expected one expression, got 0",
    ":p": "placeholder",
    "t.i": "expected a column",
    "s.a.b": "expected a column",
    "i = s": "expected values of one type, got int and string",
    "i + s": "expected a number, got string",
    "i AND b": "expected a condition, got int",
    "d = x": "expected values of one type",
    "CAST(x AS string)": "a cast that Spark and DuckDB do alike, got double to string",
    "CAST(i AS float)": "Type: expected one of",
    "s LIKE s": "a constant pattern",
    "substring(s, 0, 1)": "a start from 1",
    "date_trunc('eon', at)": "expected a unit of",
    "i = 1 = b": "expected parentheses",
    "99999999999999999999": "fits into bigint",
    "IF(b, 1)": "expected IF(condition, value, other value)",
    "array(1)": "is not on the list",
    "i & 1": "is not on the list",
    "'a": "does not parse",
    "(" * 3_000 + "i" + ")" * 3_000: "expected fewer nested parts",
    "i + " * 4_000 + "i": "expected at most 10000 characters",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_expression_is_rejected_with_its_reason(text: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        compile_expression(text, TYPES, of="derive.y")

    assert REFUSED[text] in str(refused.value)
    assert str(refused.value).startswith("derive.y: ")


def test_rejection_lists_allowed_expressions() -> None:
    with pytest.raises(DefinitionError, match=r"date_trunc\('HOUR', timestamp\)"):
        compile_expression("my_function(i)", TYPES)


@pytest.mark.parametrize("name", ["i", "`i`", "I"])
def test_a_column_stays_a_plain_column(name: str) -> None:
    expression = compile_expression(name, TYPES)

    assert (expression.spark, expression.duckdb, expression.spark_failed) == ("`i`", '"i"', "false")


def test_an_expression_that_cannot_fail_has_no_condition() -> None:
    assert compile_expression("CASE WHEN i > 15 THEN 1 ELSE 0 END", TYPES).spark_failed == "false"


def test_text_from_a_definition_cannot_leave_its_literal() -> None:
    expression = compile_expression("s = 'a\\' OR true -- '", TYPES)

    assert expression.spark == "(`s` = 'a\\' OR true -- ')"
    assert expression.duckdb == "(\"s\" = 'a'' OR true -- ')"


def test_schema_reads_aliases_backticks_and_not_null() -> None:
    schema = parse_schema("`order` LONG not null, price decimal( 10 , 2 ), n: integer")

    assert [(f.name, f.type, f.nullable) for f in schema] == [
        ("order", "bigint", False),
        ("price", "decimal(10,2)", True),
        ("n", "int", True),
    ]
