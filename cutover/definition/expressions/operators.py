"""What operators make of typed terms: numbers in one type, exact decimals, the branches of CASE."""

from decimal import Decimal

from cutover.definition.expressions.casts import cast
from cutover.definition.expressions.functions import alike
from cutover.definition.expressions.terms import (
    Both,
    Term,
    as_decimal,
    both,
    constant,
    either,
    numeric,
    strict,
    widen,
)
from cutover.definition.model.topic import parse_decimal_type
from cutover.errors import DefinitionError


def meet(*terms: Term) -> tuple[Term, ...]:
    """Return the terms in one type; a number with a point becomes a decimal where it meets one."""
    if any(parse_decimal_type(term.type) for term in terms):
        terms = tuple(_as_decimal(term) for term in terms)
    return alike(terms)


def _as_decimal(term: Term) -> Term:
    if not isinstance(term.literal, float):
        return term
    number = Decimal(repr(term.literal))
    scale = max(0, -int(number.as_tuple().exponent))
    whole = max(len(str(abs(int(number)))), 1)
    if whole + scale > 38:  # noqa: PLR2004 -- both engines' largest
        return term
    written, kind = f"{number:f}", f"decimal({whole + scale},{scale})"
    return constant(kind, f"CAST('{written}' AS {kind})", f"CAST('{written}' AS {kind.upper()})", term.literal)


def numbers(*terms: Term) -> tuple[Term, ...]:
    """Widen terms to the one numeric type that holds all of them.

    Raises:
        DefinitionError: One is no number, or they have no type in common.
    """
    for term in terms:
        if not numeric(term.type):
            msg = f"expected a number, got {term.type}"
            raise DefinitionError(msg)
    return meet(*terms)


def arithmetic(spark: str, sign: str, left: Term, right: Term) -> Term:
    """Return `left sign right`; `spark` is the function that Spark has for it in try form."""
    if any(parse_decimal_type(term.type) for term in (left, right)):
        return _decimal_arithmetic(sign, _as_decimal(left), _as_decimal(right))
    terms = numbers(left, right)
    if terms[0].type == "double":
        return strict("double", f"({{0}} {sign} {{1}})", f"({{0}} {sign} {{1}})", *terms)
    return strict(terms[0].type, f"{spark}({{0}}, {{1}})", f"TRY({{0}} {sign} {{1}})", *terms, fallible=True)


def _decimal_arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Exact, in a decimal that holds every result; where 38 digits do not, refused."""
    shapes = [as_decimal(term.type) for term in (left, right)]
    if shapes[0] is None or shapes[1] is None:
        msg = f"expected exact numbers on both sides, got {left.type} and {right.type}\nHint: CAST one of them"
        raise DefinitionError(msg)
    (p1, s1), (p2, s2) = shapes[0], shapes[1]
    shape = (p1 + p2, s1 + s2) if sign == "*" else (max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2))
    if shape[0] >= 38:  # noqa: PLR2004 -- Spark adds one digit to a product, then cuts behind the point
        msg = f"a result of up to {shape[0]} digits does not fit into decimal\nHint: CAST to fewer digits first"
        raise DefinitionError(msg)
    kind = f"decimal({shape[0]},{shape[1]})"
    if sign == "*":
        # DuckDB keeps a product of short decimals short, and overflows: the left side is made as wide as it gets.
        duckdb = f"CAST((CAST({{0}} AS DECIMAL(38,{s1})) * {{1}}) AS {kind.upper()})"
        parts = (widen(left, f"decimal({p1},{s1})"), widen(right, f"decimal({p2},{s2})"))
        return strict(kind, f"CAST(({{0}} * {{1}}) AS {kind})", duckdb, *parts)
    parts = (widen(left, kind), widen(right, kind))
    return strict(
        kind, f"CAST(({{0}} {sign} {{1}}) AS {kind})", f"CAST(({{0}} {sign} {{1}}) AS {kind.upper()})", *parts
    )


def to_double(term: Term) -> Term:
    """Cast a decimal, widen an int.

    Raises:
        DefinitionError: It is no number.
    """
    if not numeric(term.type):
        msg = f"expected a number, got {term.type}"
        raise DefinitionError(msg)
    return cast(term, "double", lenient=False) if parse_decimal_type(term.type) else widen(term, "double")


def choice(conditions: list[Term], results: list[Term]) -> Term:
    """Return a CASE: conditions in order until one is true; `results` has one more, the ELSE."""
    terms = meet(*results)
    texts = [
        "(CASE "
        + " ".join(f"WHEN {c.value[i]} THEN {r.value[i]}" for c, r in zip(conditions, terms, strict=False))
        + f" ELSE {terms[-1].value[i]} END)"
        for i in (0, 1)
    ]
    return Term(type=terms[0].type, value=Both(*texts), failed=_choice_failed(conditions, terms))


def _choice_failed(conditions: list[Term], results: tuple[Term, ...]) -> Both | None:
    """Return, from the last branch backwards: condition failed, or it holds and its result failed, or the rest did."""
    otherwise_failed = results[-1].failed
    for condition, result in reversed(list(zip(conditions, results, strict=False))):
        taken = Both(*(f"({text} IS TRUE)" for text in condition.value))
        missed = Both(*(f"({text} IS NOT TRUE)" for text in condition.value))
        here = None if result.failed is None else both(taken, "AND", result.failed)
        there = None if otherwise_failed is None else both(missed, "AND", otherwise_failed)
        otherwise_failed = either(condition.failed, here, there)
    return otherwise_failed
