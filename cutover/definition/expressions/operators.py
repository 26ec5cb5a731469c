"""Operators over typed terms: numbers in a common type, exact decimals, and the branches of CASE."""

from decimal import Decimal

from cutover.definition.expressions.functions import cast, widen_to_common_type
from cutover.definition.expressions.terms import (
    BIGINT_RANGE,
    INT_RANGE,
    Both,
    Term,
    as_decimal,
    both,
    constant,
    either,
    is_numeric,
    make_double_literal,
    make_integer_literal,
    strict,
    widen,
)
from cutover.definition.model.topic import parse_decimal_type
from cutover.errors import DefinitionError


def convert_to_common_type(*terms: Term) -> tuple[Term, ...]:
    """Convert terms to a common type; a literal with a point becomes a decimal if another term is one."""
    if any(parse_decimal_type(term.type) for term in terms):
        terms = tuple(_as_decimal(term) for term in terms)
    return widen_to_common_type(terms)


def _as_decimal(term: Term) -> Term:
    if not isinstance(term.literal, float):
        return term
    number = Decimal(repr(term.literal))
    scale = max(0, -int(number.as_tuple().exponent))
    integer_digits = max(len(str(abs(int(number)))), 1)
    if integer_digits + scale > 38:  # noqa: PLR2004 -- both engines' largest
        return term
    digits, kind = f"{number:f}", f"decimal({integer_digits + scale},{scale})"
    return constant(kind, f"CAST('{digits}' AS {kind})", f"CAST('{digits}' AS {kind.upper()})", term.literal)


def widen_numbers(*terms: Term) -> tuple[Term, ...]:
    """Widen terms to a numeric type that can represent all of them.

    Raises:
        DefinitionError: A term is not a number, or the terms have no common type.
    """
    for term in terms:
        if not is_numeric(term.type):
            msg = f"expected a number, got {term.type}"
            raise DefinitionError(msg)
    return convert_to_common_type(*terms)


def make_arithmetic(spark: str, sign: str, left_term: Term, right_term: Term) -> Term:
    """Make the term `left_term sign right_term`; `spark` is Spark's try function for the operation."""
    if any(parse_decimal_type(term.type) for term in (left_term, right_term)):
        return _make_decimal_arithmetic(sign, _as_decimal(left_term), _as_decimal(right_term))
    terms = widen_numbers(left_term, right_term)
    if terms[0].type == "double":
        return strict("double", f"({{0}} {sign} {{1}})", f"({{0}} {sign} {{1}})", *terms)
    return strict(terms[0].type, f"{spark}({{0}}, {{1}})", f"TRY({{0}} {sign} {{1}})", *terms, fallible=True)


def _make_decimal_arithmetic(sign: str, left_term: Term, right_term: Term) -> Term:
    """Make an exact operation in a decimal that can represent every result; reject one of more than 38 digits."""
    shapes = [as_decimal(term.type) for term in (left_term, right_term)]
    if shapes[0] is None or shapes[1] is None:
        msg = (
            f"expected exact numbers on both sides, got {left_term.type} and {right_term.type}\nHint: CAST one of them"
        )
        raise DefinitionError(msg)
    (p1, s1), (p2, s2) = shapes[0], shapes[1]
    shape = (p1 + p2, s1 + s2) if sign == "*" else (max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2))
    if shape[0] >= 38:  # noqa: PLR2004 -- Spark adds one digit to a product, then cuts behind the point
        msg = f"a result of up to {shape[0]} digits does not fit into decimal\nHint: CAST one of them to fewer digits"
        raise DefinitionError(msg)
    kind = f"decimal({shape[0]},{shape[1]})"
    if sign == "*":
        # DuckDB computes a product of short decimals in a short type and overflows; the left side gets the widest type.
        duckdb = f"CAST((CAST({{0}} AS DECIMAL(38,{s1})) * {{1}}) AS {kind.upper()})"
        parts = (widen(left_term, f"decimal({p1},{s1})"), widen(right_term, f"decimal({p2},{s2})"))
        return strict(kind, f"CAST(({{0}} * {{1}}) AS {kind})", duckdb, *parts)
    parts = (widen(left_term, kind), widen(right_term, kind))
    return strict(
        kind, f"CAST(({{0}} {sign} {{1}}) AS {kind})", f"CAST(({{0}} {sign} {{1}}) AS {kind.upper()})", *parts
    )


def to_double(term: Term) -> Term:
    """Convert a number to double: cast a decimal, widen an integer.

    Raises:
        DefinitionError: The term is not a number.
    """
    if not is_numeric(term.type):
        msg = f"expected a number, got {term.type}"
        raise DefinitionError(msg)
    return cast(term, "double", lenient=False) if parse_decimal_type(term.type) else widen(term, "double")


def make_case(conditions: list[Term], results: list[Term]) -> Term:
    """Make a CASE: conditions in order until one is true; `results` has one more entry, the ELSE."""
    terms = convert_to_common_type(*results)
    texts = [
        "(CASE "
        + " ".join(
            f"WHEN {condition.value[i]} THEN {result.value[i]}"
            for condition, result in zip(conditions, terms, strict=False)
        )
        + f" ELSE {terms[-1].value[i]} END)"
        for i in (0, 1)
    ]
    return Term(type=terms[0].type, value=Both(*texts), failed=_make_case_failure(conditions, terms))


def _make_case_failure(conditions: list[Term], results: tuple[Term, ...]) -> Both | None:
    """Make the failure of a CASE, from its last branch back: a condition, the selected result or the rest failed."""
    otherwise_failed = results[-1].failed
    for condition, result in reversed(list(zip(conditions, results, strict=False))):
        is_true = Both(*(f"({text} IS TRUE)" for text in condition.value))
        is_not_true = Both(*(f"({text} IS NOT TRUE)" for text in condition.value))
        result_failed = None if result.failed is None else both(is_true, "AND", result.failed)
        rest_failed = None if otherwise_failed is None else both(is_not_true, "AND", otherwise_failed)
        otherwise_failed = either(condition.failed, result_failed, rest_failed)
    return otherwise_failed


def make_number(digits: str) -> Term:
    """Make the literal of a number: int or bigint by its size, otherwise double.

    Raises:
        DefinitionError: The number does not fit into bigint.
    """
    if not digits.isdigit() and not digits.removeprefix("-").isdigit():
        return make_double_literal(float(digits))
    value = int(digits)
    for kind, (low, high) in (("int", INT_RANGE), ("bigint", BIGINT_RANGE)):
        if low <= value <= high:
            return make_integer_literal(value, kind)
    msg = f"expected a number that fits into bigint, got {digits}"
    raise DefinitionError(msg)
