"""Compiler of expressions: Spark SQL from a whitelist, compiled to Spark and DuckDB with equal results.

Rules in both engines:

- A number with a point or an exponent is a double (Spark alone would read `1.5` as a decimal); combined with a
  decimal it is a decimal.
- An expression is evaluated by ANSI rules in try form. Overflow of int, bigint or of a double's range, division by
  zero or an invalid cast is a failure of that row (class `malformed`, reason `expression`), never of the
  stream. A branch of CASE, IF, COALESCE, AND or OR that is not evaluated does not fail.
- Types are not mixed implicitly: text is compared only with text, and other types need a CAST.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import sqlglot
from sqlglot.errors import SqlglotError

from cutover.definition.expressions.functions import cast, limit_magnitude, make_finite
from cutover.definition.expressions.terms import Both, Term
from cutover.definition.expressions.walk import UnknownColumnError, compile_node
from cutover.errors import DefinitionError

MAX_TEXT = 10_000
MAX_COMPILED = 500_000
NEVER = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Compiled expression."""

    text: str  # as in the definition
    type: str  # a type of the schema
    spark: str  # value; never raises, undefined where it failed
    spark_failed: str  # boolean, never null; `false` if it cannot fail
    duckdb: str
    duckdb_failed: str


def compile_expression(
    text: str, types: Mapping[str, str], *, of: str = "expression", limit: float | None = None
) -> Expression:
    """Compile Spark SQL for Spark and DuckDB, so that both return the same value or both fail.

    Args:
        text: Spark SQL, one expression.
        types: Columns that it may use, with their types (`schema.Field.type`).
        of: Name of the field in messages: `where`, `derive.delayed`, ...
        limit: Limit of a double's magnitude, from which on it fails; None: it fails if it is not finite.

    Raises:
        DefinitionError: The text does not parse, uses an unlisted construct, or an unknown column.
    """
    shown_text = text if len(text) <= 200 else text[:200] + "..."  # noqa: PLR2004 -- a readable message
    try:
        term = _compile_term(text, types, limit)
    except UnknownColumnError as error:
        raise DefinitionError(_format_unknown_column(of, error.name, list(types))) from None
    except DefinitionError as error:
        msg = f"{of}: `{shown_text}`: {error}"
        raise DefinitionError(msg) from None
    except RecursionError:
        msg = f"{of}: `{shown_text}`: expected fewer nested parts."
        raise DefinitionError(msg) from None
    failure = term.failed or Both(NEVER, NEVER)
    return Expression(
        text=text,
        type=term.type,
        spark=term.value.spark,
        spark_failed=failure.spark,
        duckdb=term.value.duckdb,
        duckdb_failed=failure.duckdb,
    )


def _compile_term(text: str, types: Mapping[str, str], limit: float | None) -> Term:
    if len(text) > MAX_TEXT:
        msg = f"expected at most {MAX_TEXT} characters, got {len(text)}"
        raise DefinitionError(msg)
    try:
        trees = sqlglot.parse(text, read="spark")
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        location = f" (line {details[0]['line']}, column {details[0]['col']})" if "line" in details[0] else ""
        msg = f"does not parse as Spark SQL{location}: {details[0].get('description', error)}"
        raise DefinitionError(msg) from None
    if len(trees) != 1 or trees[0] is None:
        msg = f"expected one expression, got {len([tree for tree in trees if tree is not None])}"
        raise DefinitionError(msg)
    term = compile_node(trees[0], types)
    term = cast(term, "string", lenient=False) if term.type == "null" else term
    if term.type == "double":
        term = limit_magnitude(term, limit) if limit is not None else term if term.plain else make_finite(term)
    if sum(map(len, (*term.value, *(term.failed or ())))) > MAX_COMPILED:
        msg = "expected a smaller expression: its compiled SQL is too long"
        raise DefinitionError(msg)
    return term


def _format_unknown_column(of: str, name: str, known_names: list[str]) -> str:
    close = get_close_matches(name.lower(), known_names, n=1)
    hint = f"\nHint: did you mean `{close[0]}`?" if close else ""
    return f"{of}: unknown column `{name}`; expected one of {', '.join(known_names)}.{hint}"
