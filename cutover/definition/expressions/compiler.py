"""Expressions: Spark SQL text from a whitelist, compiled to Spark and to DuckDB with equal results.

Rules that a definition can rely on, in both engines:

- A number with a point or an exponent is a double (Spark alone would take `1.5` as a decimal); beside a decimal it is
  that decimal.
- An expression is evaluated with ANSI rules in try form. Overflow of int, bigint or of a double's range, division by
  zero or a cast that does not fit is a failure of that row (class `malformed`, reason `expression`), never of the
  stream. A branch of CASE, IF, COALESCE, AND or OR that is not reached does not fail.
- Types are not mixed silently: text is compared with text, and is cast by hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import sqlglot
from sqlglot.errors import SqlglotError

from cutover.definition.expressions.casts import below, cast, finite
from cutover.definition.expressions.terms import Both, Term
from cutover.definition.expressions.walk import UnknownColumnError, walk
from cutover.errors import DefinitionError

MAX_TEXT = 10_000
MAX_COMPILED = 500_000
NEVER = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One compiled expression."""

    text: str  # as the definition has it
    type: str  # a type of the schema
    spark: str  # value; never raises, means nothing where it failed
    spark_failed: str  # boolean, never null; `false` where it cannot fail
    duckdb: str
    duckdb_failed: str


def compile_expression(
    text: str, types: Mapping[str, str], *, of: str = "expression", limit: float | None = None
) -> Expression:
    """Parse Spark SQL and write it for Spark and for DuckDB, so that both give one value or both fail.

    Args:
        text: Spark SQL, one expression.
        types: Columns that it may use, with their types (`schema.Field.type`).
        of: Where it stands, for the message: `where`, `derive.delayed`, ...
        limit: A double fails where it is not smaller in magnitude; None: where it is not finite.

    Raises:
        DefinitionError: It does not parse, uses something that is not on the list, or an unknown column.
    """
    shown_text = text if len(text) <= 200 else text[:200] + "..."  # noqa: PLR2004 -- a readable message
    try:
        term = _root(text, types, limit)
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


def _root(text: str, types: Mapping[str, str], limit: float | None) -> Term:
    if len(text) > MAX_TEXT:
        msg = f"expected at most {MAX_TEXT} characters, got {len(text)}"
        raise DefinitionError(msg)
    try:
        trees = sqlglot.parse(text, read="spark")
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        where = f" (line {details[0]['line']}, column {details[0]['col']})" if "line" in details[0] else ""
        msg = f"does not parse as Spark SQL{where}: {details[0].get('description', error)}"
        raise DefinitionError(msg) from None
    if len(trees) != 1 or trees[0] is None:
        msg = f"expected one expression, got {len([tree for tree in trees if tree is not None])}"
        raise DefinitionError(msg)
    term = walk(trees[0], types)
    term = cast(term, "string", lenient=False) if term.type == "null" else term
    if term.type == "double":
        term = below(term, limit) if limit is not None else term if term.plain else finite(term)
    if sum(map(len, (*term.value, *(term.failed or ())))) > MAX_COMPILED:
        msg = "expected a smaller expression: what both engines would run is too long"
        raise DefinitionError(msg)
    return term


def _format_unknown_column(of: str, name: str, known_names: list[str]) -> str:
    close = get_close_matches(name.lower(), known_names, n=1)
    hint = f"\nHint: did you mean `{close[0]}`?" if close else ""
    return f"{of}: unknown column `{name}`; expected one of {', '.join(known_names)}.{hint}"
