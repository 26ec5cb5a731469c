"""Functions and casts of the whitelist, each with its types and its SQL in both engines.

`tests/spec/test_expressions.py` runs each of them in Spark and in DuckDB over a table of edge cases.

Casts are stricter than Spark's where Spark and DuckDB differ: text is a number only as sign, digits, point and exponent
without blanks, a date only as `2013-01-31`, a timestamp only as `2013-01-31 23:59:59.123456` (`T` for the blank and a
final `Z` are read). Casts without an equal form in both engines (a double, decimal or timestamp to text, text to
boolean) are rejected.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cutover.counts import count_noun
from cutover.definition.expressions.terms import (
    NULL,
    RANK,
    Both,
    Term,
    common_type,
    either,
    is_numeric,
    make_failure,
    map_spark_type_to_duckdb,
    strict,
    widen,
)
from cutover.definition.model.topic import parse_decimal_type
from cutover.errors import DefinitionError

INTEGER_TEXT = r"^[+-]?[0-9]+\\z"
NUMBER_TEXT = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\\z"
DATE_TEXT = r"^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]\\z"
TIME_TEXT = r"^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][ T][0-9][0-9]:[0-9][0-9]:[0-9][0-9]([.][0-9]{{1,6}})?Z?\\z"
LARGEST = "1.7976931348623157E308"

Cast = Callable[[Term, str], Term]

Build = Callable[[tuple[Term, ...]], Term]
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True, slots=True)
class Function:
    """Function of the whitelist."""

    usage: str  # syntax with argument types
    build: Build


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
        return strict(kind, f"CAST(NULL AS {kind})", f"CAST(NULL AS {map_spark_type_to_duckdb(kind)})")
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
    return strict(kind, f"CAST({{0}} AS {kind})", f"CAST({{0}} AS {map_spark_type_to_duckdb(kind)})", term)


def _try_cast(term: Term, kind: str) -> Term:
    spark, duckdb = f"try_cast({{0}} AS {kind})", f"TRY_CAST({{0}} AS {map_spark_type_to_duckdb(kind)})"
    return strict(kind, spark, duckdb, term, fallible=True)


def _decimal_to_double(term: Term, kind: str) -> Term:
    # Through text: otherwise DuckDB divides by a power of ten, which may be wrong by one unit in the last place.
    return strict(kind, "CAST({0} AS double)", "CAST(CAST({0} AS VARCHAR) AS DOUBLE)", term)


def _double_to_integer(term: Term, kind: str) -> Term:
    # Both truncate towards zero. Spark clips 2^63 to the largest bigint, DuckDB rejects it; here both reject it.
    spark = f"try_cast(nullif({{0}}, CAST('9.223372036854775807E18' AS double)) AS {kind})"
    return strict(kind, spark, f"TRY_CAST(trunc({{0}}) AS {map_spark_type_to_duckdb(kind)})", term, fallible=True)


def _text_to_integer(term: Term, kind: str) -> Term:
    return _cast_matching(term, kind, INTEGER_TEXT)


def _text_to_date(term: Term, kind: str) -> Term:
    return _cast_matching(term, kind, DATE_TEXT)


def _text_to_timestamp(term: Term, kind: str) -> Term:
    return _cast_matching(term, kind, TIME_TEXT)


def _cast_matching(term: Term, kind: str, pattern: str) -> Term:
    spark = f"try_cast(regexp_extract({{0}}, '{pattern}', 0) AS {kind})"
    duckdb = f"TRY_CAST(regexp_extract({{0}}, '{pattern}', 0) AS {map_spark_type_to_duckdb(kind)})".replace(
        "\\\\", "\\"
    )
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


def check_arguments(terms: tuple[Term, ...], *kinds: str) -> None:
    """Check argument types: a type of the schema, `number` or `any`; `!` requires a constant.

    Raises:
        DefinitionError: The number or a type of the arguments differs.
    """
    if len(terms) != len(kinds):
        msg = f"expected {count_noun(len(kinds), 'argument')}, got {len(terms)}"
        raise DefinitionError(msg)
    for term, kind in zip(terms, kinds, strict=True):
        expected = kind.rstrip("!")
        fits = expected == "any" or term.type in {expected, "null"} or (expected == "number" and is_numeric(term.type))
        if not fits or (kind.endswith("!") and term.literal is None):
            msg = f"expected {'a constant ' if kind.endswith('!') else ''}{expected}, got {term.type}"
            raise DefinitionError(msg)


def _make_plain(kind: str, spark: str, duckdb: str, *kinds: str) -> Build:
    def build(terms: tuple[Term, ...]) -> Term:
        check_arguments(terms, *kinds)
        return strict(kind, spark, duckdb, *terms)

    return build


def _part(name: str, duckdb: str | None = None) -> Build:
    return _make_plain("int", f"{name}({{0}})", duckdb or f"CAST({name}({{0}}) AS INTEGER)", "timestamp")


def _date_part(name: str, duckdb: str | None = None) -> Build:
    def build(terms: tuple[Term, ...]) -> Term:
        kind = "date" if terms and terms[0].type == "date" else "timestamp"
        return _make_plain("int", f"{name}({{0}})", duckdb or f"CAST({name}({{0}}) AS INTEGER)", kind)(terms)

    return build


def _abs(terms: tuple[Term, ...]) -> Term:
    check_arguments(terms, "number")
    kind = terms[0].type
    if kind not in {"int", "bigint"}:
        return strict(kind, "abs({0})", "abs({0})", *terms)
    wider = {"int": ("bigint", "BIGINT"), "bigint": ("decimal(20,0)", "HUGEINT")}[kind]
    spark = f"try_cast(abs(CAST({{0}} AS {wider[0]})) AS {kind})"
    duckdb = f"TRY_CAST(abs(CAST({{0}} AS {wider[1]})) AS {'INTEGER' if kind == 'int' else 'BIGINT'})"
    return strict(kind, spark, duckdb, *terms, fallible=True)


def _round(name: str) -> Build:
    def build(terms: tuple[Term, ...]) -> Term:
        if len(terms) == 1 and terms[0].type in {"int", "bigint"}:
            return widen(terms[0], "bigint")
        check_arguments(terms, "double")
        # Spark clips values beyond bigint, DuckDB rejects them; here both reject them.
        template = "CASE WHEN abs({{0}}) < CAST('9.2E18' AS {double}) THEN {cast} END"
        spark = template.format(double="double", cast=f"{name}({{0}})")
        duckdb = template.format(double="DOUBLE", cast=f"CAST({name}({{0}}) AS BIGINT)")
        return strict("bigint", spark, duckdb, *terms, fallible=True)

    return build


def _extreme(name: str) -> Build:
    def build(terms: tuple[Term, ...]) -> Term:
        if len(terms) < 2:  # noqa: PLR2004 -- Spark's own rule
            msg = f"expected 2 arguments or more, got {len(terms)}"
            raise DefinitionError(msg)
        widened = widen_to_common_type(terms)
        spark, duckdb = (f"{name}({', '.join(texts)})" for texts in zip(*(term.value for term in widened), strict=True))
        return Term(type=widened[0].type, value=Both(spark, duckdb), failed=either(*(term.failed for term in widened)))

    return build


def widen_to_common_type(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Widen terms to their common type, in order; `null` adopts any type.

    Raises:
        DefinitionError: The terms have no common type.
    """
    kind = "null"
    for term in terms:
        common = common_type(kind, term.type)
        if common is None:
            msg = f"expected values of one type, got {kind} and {term.type}\nHint: CAST one of them"
            raise DefinitionError(msg)
        kind = common
    if kind == "null":
        msg = "expected a type, got NULL alone\nHint: CAST(NULL AS string)"
        raise DefinitionError(msg)
    return tuple(cast(term, kind, lenient=False) if term.type == "null" else widen(term, kind) for term in terms)


def concat(terms: tuple[Term, ...]) -> Term:
    """Concatenate strings; null if one is null."""
    check_arguments(terms, *(["string"] * max(len(terms), 1)))
    return strict(
        "string",
        "concat(" + ", ".join(f"{{{i}}}" for i in range(len(terms))) + ")",
        "(" + " || ".join(f"{{{i}}}" for i in range(len(terms))) + ")",
        *terms,
    )


def _substring(terms: tuple[Term, ...]) -> Term:
    check_arguments(terms, "string", "int!", *(["int!"] if len(terms) > 2 else []))  # noqa: PLR2004 -- the length may be left out
    start, *length = (int(term.literal or 0) for term in terms[1:])
    if start < 1 or any(count < 0 for count in length):
        msg = "expected a start from 1 and a length from 0, as constants"
        raise DefinitionError(msg)
    arguments = ", ".join(str(number) for number in (start, *length))
    return strict("string", f"substring({{0}}, {arguments})", f"substring({{0}}, {arguments})", terms[0])


def _left(terms: tuple[Term, ...]) -> Term:
    check_arguments(terms, "string", "int!")
    if int(terms[1].literal or 0) < 0:
        msg = "expected a length from 0, as a constant"
        raise DefinitionError(msg)
    return strict("string", "left({0}, {1})", "left({0}, {1})", *terms)


def _replace(terms: tuple[Term, ...]) -> Term:
    check_arguments(terms, "string", "string!", "string!")
    if not terms[1].literal:
        msg = "expected a search text that is not empty"
        raise DefinitionError(msg)
    return strict("string", "replace({0}, {1}, {2})", "replace({0}, {1}, {2})", *terms)


def _translate(terms: tuple[Term, ...]) -> Term:
    check_arguments(terms, "string", "string!", "string!")
    return strict("string", "translate({0}, {1}, {2})", "translate({0}, {1}, {2})", *terms)


def _date_trunc(terms: tuple[Term, ...]) -> Term:
    check_arguments(terms, "string!", "timestamp")
    unit = str(terms[0].literal).upper()
    if unit not in UNITS:
        msg = f"expected a unit of {', '.join(UNITS)}, got {unit}"
        raise DefinitionError(msg)
    return strict("timestamp", f"date_trunc('{unit}', {{0}})", f"date_trunc('{unit}', {{0}})", terms[1])


def _trim(side: str, duckdb: str) -> Build:
    return _make_plain("string", f"trim({side} ' ' FROM {{0}})", f"{duckdb}({{0}}, ' ')", "string")


FUNCTIONS = {
    "abs": Function("abs(number)", _abs),
    "ceil": Function("ceil(double)", _round("ceil")),
    "floor": Function("floor(double)", _round("floor")),
    "greatest": Function("greatest(a, b, ...)", _extreme("greatest")),
    "least": Function("least(a, b, ...)", _extreme("least")),
    "length": Function("length(string)", _make_plain("int", "length({0})", "CAST(length({0}) AS INTEGER)", "string")),
    "trim": Function("trim(string)", _trim("BOTH", "trim")),
    "ltrim": Function("ltrim(string)", _trim("LEADING", "ltrim")),
    "rtrim": Function("rtrim(string)", _trim("TRAILING", "rtrim")),
    "concat": Function("concat(string, ...)", concat),
    "substring": Function("substring(string, from 1, length)", _substring),
    "left": Function("left(string, length)", _left),
    "replace": Function("replace(string, 'a', 'b')", _replace),
    "translate": Function("translate(string, 'abc', 'xyz')", _translate),
    "startswith": Function(
        "startswith(string, string)",
        _make_plain("boolean", "startswith({0}, {1})", "starts_with({0}, {1})", "string", "string"),
    ),
    "endswith": Function(
        "endswith(string, string)",
        _make_plain("boolean", "endswith({0}, {1})", "ends_with({0}, {1})", "string", "string"),
    ),
    "contains": Function(
        "contains(string, string)",
        _make_plain("boolean", "contains({0}, {1})", "contains({0}, {1})", "string", "string"),
    ),
    "md5": Function("md5(string)", _make_plain("string", "md5({0})", "md5({0})", "string")),
    "year": Function("year(date or timestamp)", _date_part("year")),
    "quarter": Function("quarter(date or timestamp)", _date_part("quarter")),
    "month": Function("month(date or timestamp)", _date_part("month")),
    "day": Function("day(date or timestamp)", _date_part("day")),
    "dayofweek": Function(
        "dayofweek(date or timestamp)", _date_part("dayofweek", "CAST(dayofweek({0}) + 1 AS INTEGER)")
    ),
    "hour": Function("hour(timestamp)", _part("hour")),
    "minute": Function("minute(timestamp)", _part("minute")),
    "second": Function("second(timestamp)", _part("second")),
    "date_trunc": Function("date_trunc('HOUR', timestamp)", _date_trunc),
    "datediff": Function(
        "datediff(date, date)",
        _make_plain("int", "datediff({0}, {1})", "CAST(date_diff('day', {1}, {0}) AS INTEGER)", "date", "date"),
    ),
    "unix_micros": Function(
        "unix_micros(timestamp)", _make_plain("bigint", "unix_micros({0})", "epoch_us({0})", "timestamp")
    ),
}
"""Functions by their names in definitions."""
