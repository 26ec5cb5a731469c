"""Compiler of expressions: Spark SQL from a whitelist, compiled to Spark and DuckDB with equal results.

A syntax tree becomes a typed term in both dialects; nodes without a rule are rejected. Rules in both engines:

- A number with a point or an exponent is a double (Spark alone reads `1.5` as a decimal); with a decimal it is one.
- An expression is evaluated by ANSI rules in try form. Overflow of int, bigint or a double's range, division by zero or
  an invalid cast is a failure of that row (class `malformed`, reason `expression`), never of the stream. A branch of
  CASE, IF, COALESCE, AND or OR that is not evaluated does not fail.
- Types are not mixed implicitly: text is compared only with text, and other types need a CAST.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from cutover.definition.expressions.functions import (
    FUNCTIONS,
    cast,
    check_arguments,
    concat,
    limit_magnitude,
    make_finite,
)
from cutover.definition.expressions.operators import (
    convert_to_common_type,
    make_arithmetic,
    make_case,
    make_number,
    to_double,
    widen_numbers,
)
from cutover.definition.expressions.statements import (
    UnknownColumnError,
    explain_rejection,
    format_unknown_column,
    format_whitelist,
    get_function_name,
)
from cutover.definition.expressions.terms import (
    NULL,
    Both,
    Term,
    both,
    column,
    constant,
    either,
    make_integer_literal,
    make_text_literal,
    strict,
)
from cutover.definition.model.topic import normalize_type
from cutover.errors import DefinitionError

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
ARITHMETIC: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("try_add", "+"),
    exp.Sub: ("try_subtract", "-"),
    exp.Mul: ("try_multiply", "*"),
}
FUNCTION_NODES: dict[type[exp.Expr], str] = {
    exp.Abs: "abs",
    exp.Ceil: "ceil",
    exp.Floor: "floor",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Length: "length",
    exp.Concat: "concat",
    exp.Substring: "substring",
    exp.Left: "left",
    exp.Replace: "replace",
    exp.Translate: "translate",
    exp.StartsWith: "startswith",
    exp.EndsWith: "endswith",
    exp.Contains: "contains",
    exp.MD5: "md5",
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "dayofweek",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.DateDiff: "datediff",
    exp.UnixMicros: "unix_micros",
}
IGNORED = frozenset({"safe", "coalesce", "typed", "ignore_nulls", "big_int", "null_first", "negate", "array_ordering"})


def compile_node(node: exp.Expr, types: Mapping[str, str]) -> Term:
    """Compile a tree from its leaves up.

    Args:
        node: Node that sqlglot parsed.
        types: Column name -> type.

    Raises:
        DefinitionError: A node is not on the whitelist, a column is unknown, or types do not match.
    """
    for kinds, rule in _RULES:
        if isinstance(node, kinds):
            return rule(node, types)
    if type(node) in FUNCTION_NODES:
        return _function(node, types)
    msg = f"{explain_rejection(node)}\nAllowed:\n{format_whitelist()}"
    raise DefinitionError(msg)


def _column(node: exp.Expr, types: Mapping[str, str]) -> Term:
    name = node.name
    if node.args.get("table") is not None:
        msg = f"expected a column, got `{node.sql(dialect='spark')}`\nHint: no nested fields, no table names"
        raise DefinitionError(msg)
    column_name = next((known_name for known_name in types if known_name.lower() == name.lower()), None)
    if column_name is None:
        raise UnknownColumnError(name)
    return column(column_name, types[column_name])


def _literal(node: exp.Expr, types: Mapping[str, str]) -> Term:  # noqa: ARG001 -- every rule's signature
    if node.args["is_string"]:
        return make_text_literal(node.this)
    return make_number(node.this)


def _negative(node: exp.Expr, types: Mapping[str, str]) -> Term:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return make_number(f"-{node.this.this}")
    term = compile_node(node.this, types)
    if term.type == "double":
        return strict("double", "(- {0})", "(- {0})", term)
    return make_arithmetic("try_subtract", "-", make_integer_literal(0, "int"), term)


def _boolean(node: exp.Expr, types: Mapping[str, str]) -> Term:  # noqa: ARG001 -- every rule's signature
    word = "true" if node.this else "false"
    return constant("boolean", word, word, bool(node.this))


def _null(node: exp.Expr, types: Mapping[str, str]) -> Term:  # noqa: ARG001 -- every rule's signature
    return Term(type=NULL, value=Both("NULL", "NULL"), plain=True)


def _paren(node: exp.Expr, types: Mapping[str, str]) -> Term:
    return compile_node(node.this, types)


def _arithmetic(node: exp.Expr, types: Mapping[str, str]) -> Term:
    spark, duckdb = ARITHMETIC[type(node)]
    return make_arithmetic(spark, duckdb, compile_node(node.this, types), compile_node(node.expression, types))


def _divide(node: exp.Expr, types: Mapping[str, str]) -> Term:
    terms = tuple(to_double(compile_node(side, types)) for side in (node.this, node.expression))
    return strict("double", "try_divide({0}, {1})", "({0} / nullif({1}, 0))", *terms, fallible=True)


def _modulo(node: exp.Expr, types: Mapping[str, str]) -> Term:
    terms = widen_numbers(compile_node(node.this, types), compile_node(node.expression, types))
    kind = terms[0].type
    if kind not in {"int", "bigint"}:
        msg = f"expected whole numbers as operands of %, got {kind}"
        raise DefinitionError(msg)
    # The smallest integer % -1 overflows in DuckDB and is 0 in Spark; a wider type avoids the overflow.
    duckdb = f"CAST(CAST({{0}} AS HUGEINT) % nullif({{1}}, 0) AS {'INTEGER' if kind == 'int' else 'BIGINT'})"
    return strict(kind, "try_mod({0}, {1})", duckdb, *terms, fallible=True)


def _comparison(node: exp.Expr, types: Mapping[str, str]) -> Term:
    for side in (node.this, node.expression):
        if isinstance(side, (exp.Predicate, exp.Not, exp.Is)):
            msg = f"expected parentheses around `{side.sql(dialect='spark')}` as an operand of a comparison"
            raise DefinitionError(msg)
    terms = convert_to_common_type(compile_node(node.this, types), compile_node(node.expression, types))
    sign = COMPARISONS[type(node)]
    return strict("boolean", f"({{0}} {sign} {{1}})", f"({{0}} {sign} {{1}})", *terms)


def _same(node: exp.Expr, types: Mapping[str, str]) -> Term:
    terms = convert_to_common_type(compile_node(node.this, types), compile_node(node.expression, types))
    if isinstance(node, exp.NullSafeNEQ):
        return strict("boolean", "(NOT ({0} <=> {1}))", "({0} IS DISTINCT FROM {1})", *terms)
    return strict("boolean", "({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})", *terms)


def _condition(node: exp.Expr, types: Mapping[str, str]) -> Term:
    term = compile_node(node, types)
    if term.type not in {"boolean", NULL}:
        msg = f"expected a condition, got {term.type}: `{node.sql(dialect='spark')}`"
        raise DefinitionError(msg)
    return cast(term, "boolean", lenient=False)


def _connective(node: exp.Expr, types: Mapping[str, str]) -> Term:
    """Compile AND or OR: the right side is evaluated unless the left side decides."""
    word, decided = ("AND", "FALSE") if isinstance(node, exp.And) else ("OR", "TRUE")
    left_term, right_term = _condition(node.this, types), _condition(node.expression, types)
    is_undecided = Both(*(f"({text} IS NOT {decided})" for text in left_term.value))
    right_failed = None if right_term.failed is None else both(is_undecided, "AND", right_term.failed)
    return Term(
        type="boolean",
        value=both(left_term.value, word, right_term.value),
        failed=either(left_term.failed, right_failed),
    )


def _not(node: exp.Expr, types: Mapping[str, str]) -> Term:
    return strict("boolean", "(NOT {0})", "(NOT {0})", _condition(node.this, types))


def _is(node: exp.Expr, types: Mapping[str, str]) -> Term:
    if isinstance(node.expression, exp.Null):
        return strict("boolean", "({0} IS NULL)", "({0} IS NULL)", compile_node(node.this, types))
    if not isinstance(node.expression, exp.Boolean):
        msg = f"expected NULL, TRUE or FALSE after IS, got `{node.expression.sql(dialect='spark')}`"
        raise DefinitionError(msg)
    word = "TRUE" if node.expression.this else "FALSE"
    return strict("boolean", f"({{0}} IS {word})", f"({{0}} IS {word})", _condition(node.this, types))


def _in(node: exp.Expr, types: Mapping[str, str]) -> Term:
    if node.args.get("query") is not None or not node.expressions:
        msg = f"{explain_rejection(exp.Subquery())}\nAllowed:\n{format_whitelist()}"
        raise DefinitionError(msg)
    terms = convert_to_common_type(
        compile_node(node.this, types), *(compile_node(item, types) for item in node.expressions)
    )
    items = ", ".join(f"{{{i}}}" for i in range(1, len(terms)))
    return strict("boolean", f"({{0}} IN ({items}))", f"({{0}} IN ({items}))", *terms)


def _between(node: exp.Expr, types: Mapping[str, str]) -> Term:
    terms = convert_to_common_type(*(compile_node(node.args[part], types) for part in ("this", "low", "high")))
    return strict("boolean", "({0} BETWEEN {1} AND {2})", "({0} BETWEEN {1} AND {2})", *terms)


def _like(node: exp.Expr, types: Mapping[str, str]) -> Term:
    pattern = compile_node(node.expression, types)
    if not isinstance(pattern.literal, str) or "\\" in pattern.literal:
        msg = "expected a constant pattern without backslash after LIKE"
        raise DefinitionError(msg)
    term = compile_node(node.this, types)
    check_arguments((term,), "string")
    word = "NOT LIKE" if node.args.get("negate") else "LIKE"
    return strict("boolean", f"({{0}} {word} {{1}})", f"({{0}} {word} {{1}})", term, pattern)


def _case(node: exp.Expr, types: Mapping[str, str]) -> Term:
    subject = node.args.get("this")
    conditions = [
        _condition(branch.this, types)
        if subject is None
        else _comparison(exp.EQ(this=subject, expression=branch.this), types)
        for branch in node.args["ifs"]
    ]
    results = [compile_node(branch.args["true"], types) for branch in node.args["ifs"]]
    return make_case(conditions, [*results, _compile_else(node.args.get("default"), types)])


def _compile_else(node: exp.Expr | None, types: Mapping[str, str]) -> Term:
    return compile_node(node or exp.Null(), types)


def _if(node: exp.Expr, types: Mapping[str, str]) -> Term:
    if node.args.get("false") is None:
        msg = "expected IF(condition, value, other value)"
        raise DefinitionError(msg)
    results = [compile_node(node.args[side], types) for side in ("true", "false")]
    return make_case([_condition(node.this, types)], results)


def _coalesce(node: exp.Expr, types: Mapping[str, str]) -> Term:
    """Compile COALESCE; an operand is evaluated only if all previous ones are null."""
    terms = convert_to_common_type(*(compile_node(item, types) for item in (node.this, *node.expressions)))
    failed = terms[-1].failed
    for term in reversed(terms[:-1]):
        empty = Both(*(f"({text} IS NULL)" for text in term.value))
        failed = either(term.failed, None if failed is None else both(empty, "AND", failed))
    value = Both(*(f"coalesce({', '.join(texts)})" for texts in zip(*(term.value for term in terms), strict=True)))
    return Term(type=terms[0].type, value=value, failed=failed)


def _nullif(node: exp.Expr, types: Mapping[str, str]) -> Term:
    terms = convert_to_common_type(compile_node(node.this, types), compile_node(node.expression, types))
    return strict(terms[0].type, "nullif({0}, {1})", "nullif({0}, {1})", *terms)


def _cast(node: exp.Expr, types: Mapping[str, str]) -> Term:
    lenient = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
    kind = node.args["to"].sql(dialect="spark").lower()
    return cast(compile_node(node.this, types), normalize_type(kind), lenient=lenient)


def _to_date(node: exp.Expr, types: Mapping[str, str]) -> Term:
    """Compile the argument that sqlglot wraps for a date function; a date or timestamp is unchanged."""
    return compile_node(node.this, types)


def _concat_sign(node: exp.Expr, types: Mapping[str, str]) -> Term:
    return concat((compile_node(node.this, types), compile_node(node.expression, types)))


def _trim(node: exp.Expr, types: Mapping[str, str]) -> Term:
    if node.args.get("expression") is not None:
        msg = "expected trim(string), which removes blanks, got characters to remove"
        raise DefinitionError(msg)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return FUNCTIONS[name].build((compile_node(node.this, types),))


def _date_trunc(node: exp.Expr, types: Mapping[str, str]) -> Term:
    return FUNCTIONS["date_trunc"].build((make_text_literal(node.args["unit"].name), compile_node(node.this, types)))


def _function(node: exp.Expr, types: Mapping[str, str]) -> Term:
    name = FUNCTION_NODES[type(node)]
    arguments: list[exp.Expr] = []
    for key, value in node.args.items():
        if key in IGNORED or value is None:
            continue
        arguments.extend(value if isinstance(value, list) else [value])
    try:
        return FUNCTIONS[name].build(tuple(compile_node(argument, types) for argument in arguments))
    except UnknownColumnError:
        raise
    except DefinitionError as error:
        name_in_text = get_function_name(node)
        msg = (
            str(error)
            if str(error).startswith(("in `", "function", "`"))
            else f"in `{name_in_text}`: {error} (usage: {FUNCTIONS[name].usage})"
        )
        raise DefinitionError(msg) from None


Rule = Callable[[exp.Expr, Mapping[str, str]], Term]
_RULES: tuple[tuple[tuple[type[exp.Expr], ...], Rule], ...] = (
    ((exp.Column,), _column),
    ((exp.Literal,), _literal),
    ((exp.Boolean,), _boolean),
    ((exp.Null,), _null),
    ((exp.Paren,), _paren),
    ((exp.Neg,), _negative),
    (tuple(ARITHMETIC), _arithmetic),
    ((exp.Div,), _divide),
    ((exp.Mod,), _modulo),
    (tuple(COMPARISONS), _comparison),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), _same),
    ((exp.And, exp.Or), _connective),
    ((exp.Not,), _not),
    ((exp.Is,), _is),
    ((exp.In,), _in),
    ((exp.Between,), _between),
    ((exp.Like,), _like),
    ((exp.Case,), _case),
    ((exp.If,), _if),
    ((exp.Coalesce,), _coalesce),
    ((exp.Nullif,), _nullif),
    ((exp.Cast,), _cast),
    ((exp.TsOrDsToDate,), _to_date),
    ((exp.DPipe,), _concat_sign),
    ((exp.Trim,), _trim),
    ((exp.TimestampTrunc,), _date_trunc),
)


MAX_TEXT, MAX_COMPILED = 10_000, 500_000  # characters
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
        raise DefinitionError(format_unknown_column(of, error.name, list(types))) from None
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
    except sqlglot.errors.SqlglotError as error:
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
