"""Typed terms: parts of an expression in the SQL of both engines, with the condition under which they fail."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cutover.definition.model.topic import parse_decimal_type
from cutover.quoting import identifier, literal, spark_identifier, spark_literal

NULL = "null"
INT_RANGE = (-(2**31), 2**31 - 1)
BIGINT_RANGE = (-(2**63), 2**63 - 1)
RANK = {"int": 0, "bigint": 1, "double": 3}


class Both(NamedTuple):
    """SQL text in both dialects."""

    spark: str
    duckdb: str


Write = Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Compiled node of an expression."""

    type: str  # a type of the schema, or `null`
    value: Both  # never raises; undefined where it failed
    failed: Both | None = None  # boolean, never null: the evaluation failed; None: it cannot fail
    literal: str | float | bool | None = None  # value of a constant
    plain: bool = False  # an unchanged column or constant


def map_spark_type_to_duckdb(kind: str) -> str:
    """Return DuckDB's name of a type; timestamps are UTC without a zone."""
    names = {"int": "INTEGER", "bigint": "BIGINT", "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}
    return {**names, "double": "DOUBLE", "timestamp": "TIMESTAMP"}.get(kind, kind.upper())


def either(*conditions: Both | None) -> Both | None:
    """Join conditions by OR, without None; None if none remains."""
    present = [condition for condition in conditions if condition is not None]
    if len(present) <= 1:
        return present[0] if present else None
    return Both(*("(" + " OR ".join(texts) + ")" for texts in zip(*present, strict=True)))


def both(left_sql: Both, word: str, right_sql: Both) -> Both:
    """Write a binary operator for Spark and for DuckDB, in parentheses."""
    return Both(f"({left_sql.spark} {word} {right_sql.spark})", f"({left_sql.duckdb} {word} {right_sql.duckdb})")


def strict(kind: str, spark: str, duckdb: str, *terms: Term, fallible: bool = False) -> Term:
    """Make a term that is null if one of its operands is null.

    Args:
        kind: Type of the result.
        spark: Format string of the value, `{0}`, `{1}`, ... for the terms.
        duckdb: The same for DuckDB.
        terms: Operands; each is evaluated.
        fallible: A null result of operands that are not null is a failure.
    """
    value = Both(
        spark.format(*(term.value.spark for term in terms)), duckdb.format(*(term.value.duckdb for term in terms))
    )
    failure = make_failure(value, terms) if fallible else None
    return Term(type=kind, value=value, failed=either(*(term.failed for term in terms), failure))


def make_failure(value: Both, terms: tuple[Term, ...]) -> Both:
    """Make the condition that this operator failed: every operand is not null, and the value is null."""
    operands = [term.value for term in terms if term.literal is None]
    sides = zip(*operands, strict=True) if operands else ((), ())
    conditions = [" AND ".join(f"{text} IS NOT NULL" for text in side) for side in sides]
    return Both(
        *(
            f"({inputs_present} AND {text} IS NULL)" if inputs_present else f"({text} IS NULL)"
            for inputs_present, text in zip(conditions, value, strict=True)
        )
    )


def constant(kind: str, spark: str, duckdb: str, literal: str | float | bool | None) -> Term:
    """Make a term of SQL without columns; `literal` is its value in Python."""
    return Term(type=kind, value=Both(spark, duckdb), literal=literal, plain=True)


def make_integer_literal(value: int, kind: str) -> Term:
    """Make an int or bigint literal with an explicit type for both engines."""
    return constant(
        kind,
        f"CAST({value} AS {kind})" if kind == "bigint" else str(value),
        f"CAST({value} AS {map_spark_type_to_duckdb(kind)})",
        value,
    )


def make_double_literal(value: float) -> Term:
    """Make an exact double literal, through text that both engines round correctly."""
    return constant("double", f"CAST('{value!r}' AS double)", f"CAST('{value!r}' AS DOUBLE)", value)


def make_text_literal(value: str) -> Term:
    """Make a string literal, escaped for each engine: Spark uses backslashes, DuckDB doubled quotes."""
    return constant("string", spark_literal(value), literal(value), value)


def column(name: str, kind: str) -> Term:
    """Make a term of a column, quoted for both engines; it never fails."""
    return Term(type=kind, value=Both(spark_identifier(name), identifier(name)), plain=True)


def is_numeric(kind: str) -> bool:
    """Return whether a type is a number."""
    return kind in RANK or parse_decimal_type(kind) is not None


def common_type(left_type: str, right_type: str) -> str | None:
    """Find the type to which two values can be widened without loss of order; None if there is none.

    The common type of int, bigint and decimal is a decimal that can represent both, if 38 digits suffice. A double has
    one only with int and bigint: a decimal and a double have no exact common type and need a CAST.
    """
    if right_type in {left_type, NULL}:
        return left_type
    if left_type == NULL:
        return right_type
    if left_type in RANK and right_type in RANK:
        return left_type if RANK[left_type] >= RANK[right_type] else right_type
    if {left_type, right_type} == {"date", "timestamp"}:
        return "timestamp"
    return _common_decimal(left_type, right_type)


def _common_decimal(left_type: str, right_type: str) -> str | None:
    parts = [as_decimal(kind) for kind in (left_type, right_type)]
    if parts[0] is None or parts[1] is None:
        return None
    (p1, s1), (p2, s2) = parts[0], parts[1]
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return f"decimal({precision},{scale})" if precision <= 38 else None  # noqa: PLR2004 -- both engines' largest


def as_decimal(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of the decimal that can represent every value of an exact numeric type."""
    return {"int": (10, 0), "bigint": (19, 0)}.get(kind) or parse_decimal_type(kind)


def widen(term: Term, kind: str) -> Term:
    """Widen a term to a type (see `common_type`); this never fails."""
    if term.type == kind:
        return term
    if kind == "double" and isinstance(term.literal, int) and not isinstance(term.literal, bool):
        return make_double_literal(float(term.literal))
    if term.type == "date":
        return strict(kind, "CAST({0} AS timestamp)", "CAST({0} AS TIMESTAMP)", term)
    return strict(kind, f"CAST({{0}} AS {kind})", f"CAST({{0}} AS {map_spark_type_to_duckdb(kind)})", term)
