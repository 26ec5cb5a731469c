"""A typed piece of an expression in both engines' SQL, with the condition under which it fails."""

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
    """The same thing in the two dialects."""

    spark: str
    duckdb: str


Write = Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One compiled node."""

    type: str  # a type of the schema, or `null`
    value: Both  # never raises; means nothing where it failed
    failed: Both | None = None  # boolean, never null: the evaluation failed; None: it cannot
    literal: str | float | bool | None = None  # the constant, where it is one
    plain: bool = False  # a column or a constant, as it stands


def duckdb_type(kind: str) -> str:
    """Return DuckDB's name of a type. Timestamps are UTC without a zone."""
    names = {"int": "INTEGER", "bigint": "BIGINT", "string": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}
    return {**names, "double": "DOUBLE", "timestamp": "TIMESTAMP"}.get(kind, kind.upper())


def either(*conditions: Both | None) -> Both | None:
    """Join conditions by OR, leaving out None; None if nothing is left."""
    there = [condition for condition in conditions if condition is not None]
    if len(there) <= 1:
        return there[0] if there else None
    return Both(*("(" + " OR ".join(texts) + ")" for texts in zip(*there, strict=True)))


def both(left: Both, word: str, right: Both) -> Both:
    """Write a binary operator for Spark and for DuckDB, in parentheses."""
    return Both(f"({left.spark} {word} {right.spark})", f"({left.duckdb} {word} {right.duckdb})")


def strict(kind: str, spark: str, duckdb: str, *terms: Term, fallible: bool = False) -> Term:
    """Return a node that is null when one of its terms is.

    Args:
        kind: Type of the result.
        spark: Format string of the value, `{0}`, `{1}`, ... for the terms.
        duckdb: The same for DuckDB.
        terms: Its parts; each is evaluated.
        fallible: Whether a null from terms that are not null is a failure.
    """
    value = Both(
        spark.format(*(term.value.spark for term in terms)), duckdb.format(*(term.value.duckdb for term in terms))
    )
    own = own_failure(value, terms) if fallible else None
    return Term(type=kind, value=value, failed=either(*(term.failed for term in terms), own))


def own_failure(value: Both, terms: tuple[Term, ...]) -> Both:
    """Hold on rows where every operand is given and the value is null: the failure is this operator's own."""
    there = [term.value for term in terms if term.literal is None]
    sides = zip(*there, strict=True) if there else ((), ())
    conditions = [" AND ".join(f"{text} IS NOT NULL" for text in side) for side in sides]
    return Both(*(f"({g} AND {v} IS NULL)" if g else f"({v} IS NULL)" for g, v in zip(conditions, value, strict=True)))


def constant(kind: str, spark: str, duckdb: str, literal: str | float | bool | None) -> Term:
    """Make a term of SQL that no column enters; `literal` is its value in Python."""
    return Term(type=kind, value=Both(spark, duckdb), literal=literal, plain=True)


def integer(value: int, kind: str) -> Term:
    """Return an int or bigint literal; both engines get the type said."""
    return constant(
        kind,
        f"CAST({value} AS {kind})" if kind == "bigint" else str(value),
        f"CAST({value} AS {duckdb_type(kind)})",
        value,
    )


def double(value: float) -> Term:
    """Return a double literal, exactly: through text, which both engines read correctly rounded."""
    return constant("double", f"CAST('{value!r}' AS double)", f"CAST('{value!r}' AS DOUBLE)", value)


def text(value: str) -> Term:
    """Escape for both engines: Spark takes backslashes, DuckDB doubles quotes."""
    return constant("string", spark_literal(value), literal(value), value)


def column(name: str, kind: str) -> Term:
    """Quote a column for both engines; it never fails."""
    return Term(type=kind, value=Both(spark_identifier(name), identifier(name)), plain=True)


def numeric(kind: str) -> bool:
    """Return whether a type is a number."""
    return kind in RANK or parse_decimal_type(kind) is not None


def common_type(left: str, right: str) -> str | None:
    """Return the type to which two values can be widened without loss of order, None if there is none.

    int, bigint and decimal meet in a decimal that holds both (where one fits into 38 digits). A double meets int and
    bigint only: a decimal and a double have no common exact type and must be cast by hand.
    """
    if right in {left, NULL}:
        return left
    if left == NULL:
        return right
    if left in RANK and right in RANK:
        return left if RANK[left] >= RANK[right] else right
    if {left, right} == {"date", "timestamp"}:
        return "timestamp"
    return _common_decimal(left, right)


def _common_decimal(left: str, right: str) -> str | None:
    parts = [as_decimal(kind) for kind in (left, right)]
    if parts[0] is None or parts[1] is None:
        return None
    (p1, s1), (p2, s2) = parts[0], parts[1]
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return f"decimal({precision},{scale})" if precision <= 38 else None  # noqa: PLR2004 -- both engines' largest


def as_decimal(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of the decimal that holds every value of an exact numeric type."""
    return {"int": (10, 0), "bigint": (19, 0)}.get(kind) or parse_decimal_type(kind)


def widen(term: Term, kind: str) -> Term:
    """Return the term in a wider type (see `common_type`); this never fails."""
    if term.type == kind:
        return term
    if kind == "double" and isinstance(term.literal, int) and not isinstance(term.literal, bool):
        return double(float(term.literal))
    if term.type == "date":
        return strict(kind, "CAST({0} AS timestamp)", "CAST({0} AS TIMESTAMP)", term)
    return strict(kind, f"CAST({{0}} AS {kind})", f"CAST({{0}} AS {duckdb_type(kind)})", term)
