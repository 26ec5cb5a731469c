"""CAST between the types of the schema, restricted to the forms on which both engines agree.

Stricter than Spark where Spark and DuckDB differ: text is a number only as sign, digits, point and exponent
without blanks, a date only as `2013-01-31`, a timestamp only as `2013-01-31 23:59:59.123456` (`T` for the blank and a
final `Z` are read). Casts without an equal form in both engines (a double, decimal or timestamp to text, text to
boolean) are rejected.
"""

from collections.abc import Callable

from cutover.definition.expressions.terms import NULL, RANK, Term, duckdb_type, either, make_failure, strict
from cutover.definition.model.topic import parse_decimal_type
from cutover.errors import DefinitionError

INTEGER_TEXT = r"^[+-]?[0-9]+\\z"
NUMBER_TEXT = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\\z"
DATE_TEXT = r"^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]\\z"
TIME_TEXT = r"^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][ T][0-9][0-9]:[0-9][0-9]:[0-9][0-9]([.][0-9]{{1,6}})?Z?\\z"
LARGEST = "1.7976931348623157E308"

Cast = Callable[[Term, str], Term]


def cast(term: Term, kind: str, *, lenient: bool) -> Term:
    """Cast a term as Spark does, with equivalent SQL for DuckDB.

    Args:
        term: Term to cast.
        kind: Type of the schema.
        lenient: `try_cast`: a value that cannot be cast is null instead of a failure.

    Raises:
        DefinitionError: The two engines have no equal cast between these types.
    """
    if term.type == kind:
        return term
    if term.type == NULL:
        return strict(kind, f"CAST(NULL AS {kind})", f"CAST(NULL AS {duckdb_type(kind)})")
    cast_function = _find_cast(term.type, kind)
    if cast_function is None:
        msg = f"expected a cast that Spark and DuckDB do alike, got {term.type} to {kind}"
        raise DefinitionError(msg)
    result = cast_function(term, kind)
    return Term(type=kind, value=result.value, failed=term.failed) if lenient else result


def _find_cast(source: str, kind: str) -> Cast | None:
    exact = {
        ("string", "double"): _text_to_double,
        ("string", "date"): _text_to_date,
        ("string", "timestamp"): _text_to_timestamp,
        ("date", "timestamp"): _cast_safely,
        ("timestamp", "date"): _cast_safely,
        ("int", "string"): _cast_safely,
        ("bigint", "string"): _cast_safely,
        ("boolean", "string"): _cast_safely,
        ("date", "string"): _cast_safely,
        ("boolean", "int"): _cast_safely,
        ("boolean", "bigint"): _cast_safely,
        ("double", "int"): _double_to_integer,
        ("double", "bigint"): _double_to_integer,
        ("string", "int"): _text_to_integer,
        ("string", "bigint"): _text_to_integer,
    }
    if (source, kind) in exact:
        return exact[source, kind]
    if source in RANK and kind in RANK:
        return _cast_safely if RANK[source] < RANK[kind] else _try_cast
    if parse_decimal_type(source) and kind == "double":
        return _decimal_to_double
    if source in {"int", "bigint"} and parse_decimal_type(kind):
        return _try_cast
    return _try_cast if parse_decimal_type(source) and _keeps_scale(source, kind) else None


def _keeps_scale(source: str, kind: str) -> bool:
    """Return whether no digit after the point is lost, since the engines round differently."""
    source_decimal, target_decimal = parse_decimal_type(source), parse_decimal_type(kind)
    return source_decimal is not None and target_decimal is not None and target_decimal[1] >= source_decimal[1]


def _cast_safely(term: Term, kind: str) -> Term:
    return strict(kind, f"CAST({{0}} AS {kind})", f"CAST({{0}} AS {duckdb_type(kind)})", term)


def _try_cast(term: Term, kind: str) -> Term:
    spark, duckdb = f"try_cast({{0}} AS {kind})", f"TRY_CAST({{0}} AS {duckdb_type(kind)})"
    return strict(kind, spark, duckdb, term, fallible=True)


def _decimal_to_double(term: Term, kind: str) -> Term:
    # Through text: otherwise DuckDB divides by a power of ten, which may be wrong by one unit in the last place.
    return strict(kind, "CAST({0} AS double)", "CAST(CAST({0} AS VARCHAR) AS DOUBLE)", term)


def _double_to_integer(term: Term, kind: str) -> Term:
    # Both truncate towards zero. Spark clips 2^63 to the largest bigint, DuckDB rejects it; here both reject it.
    spark = f"try_cast(nullif({{0}}, CAST('9.223372036854775807E18' AS double)) AS {kind})"
    return strict(kind, spark, f"TRY_CAST(trunc({{0}}) AS {duckdb_type(kind)})", term, fallible=True)


def _text_to_integer(term: Term, kind: str) -> Term:
    return _cast_matching(term, kind, INTEGER_TEXT)


def _text_to_date(term: Term, kind: str) -> Term:
    return _cast_matching(term, kind, DATE_TEXT)


def _text_to_timestamp(term: Term, kind: str) -> Term:
    return _cast_matching(term, kind, TIME_TEXT)


def _cast_matching(term: Term, kind: str, pattern: str) -> Term:
    spark = f"try_cast(regexp_extract({{0}}, '{pattern}', 0) AS {kind})"
    duckdb = f"TRY_CAST(regexp_extract({{0}}, '{pattern}', 0) AS {duckdb_type(kind)})".replace("\\\\", "\\")
    return strict(kind, spark, duckdb, term, fallible=True)


def _text_to_double(term: Term, kind: str) -> Term:
    return make_finite(_cast_matching(term, kind, NUMBER_TEXT))


def make_finite(term: Term) -> Term:
    """Make a double null and failed where it is infinite or not a number; minus zero becomes zero."""
    return _require_magnitude(term, f"<= CAST('{LARGEST}' AS double)")


def limit_magnitude(term: Term, limit: float) -> Term:
    """Make a double null and failed where its magnitude is not below a limit."""
    return _require_magnitude(term, f"< CAST('{limit!r}' AS double)")


def _require_magnitude(term: Term, comparison: str) -> Term:
    """Make a double null and failed where a comparison of its magnitude is false; -0.0 becomes 0.0."""
    text = f"CASE WHEN abs({{0}}) {comparison} THEN {{0}} + CAST('0.0' AS double) END"
    value = strict("double", text, text, term).value
    return Term(type="double", value=value, failed=either(term.failed, make_failure(value, (term,))))
