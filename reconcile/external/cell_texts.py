"""Cells without a type (of CSV, and of folder names) as values: which texts a type reads, and as what, in SQL.

A cell is read as a value of a type only where the text is a way to write exactly that value. Any other text stays what
it is, so that no reading makes two different texts equal: `007` is not 7, `0x1F` not 31, and a number of 40 digits is
not the double nearest to it.
"""

import re
from dataclasses import dataclass

from cutover.quoting import literal
from cutover.reconcile.comparison.column_types import kind_of

DECIMAL_DIGITS = 38
"""Digits of the widest decimal of the engine."""

BIGINT_DIGITS = 18
"""Digits that every whole number of 64 bits can have."""

_PLAIN = r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)"
_ZEROS_FIRST = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_FLOAT = rf"{_PLAIN}([eE][+-]?[0-9]+)?"
_NO_NUMBER = r"[+-]?(?i:nan|inf|infinity)"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
_OFFSET = r"[+-]((0[0-9]|1[0-7])(:?[0-5][0-9])?|18(:?00)?)"
_ZONE = rf"( ?(?i:z|utc)|{_OFFSET})"
_CLOCK_WITH_OFFSET = r"(:[0-9.]+)([+-])([0-9]{2}):?([0-9]{2})?$"
_MOMENT = rf"{_DATE}([ Tt]{_CLOCK}{_ZONE}?)?"
_UUID = r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PATTERNS = {"BOOLEAN": "(?i)true|false", "DATE": _DATE, "TIME": _CLOCK, "TIME_NS": _CLOCK, "UUID": _UUID}
_DIGITS_OF_TIME = {"TIME": 6, "TIME_NS": 9}
_FRACTION = re.compile(r"TIMESTAMP(TZ)?_(?P<unit>S|MS|NS)")
_DIGITS_OF_UNIT = {"S": 0, "MS": 3, "NS": 9}
_EXACT_DIGITS = {"DOUBLE": 15, "FLOAT": 6}  # every number with this many digits is the shortest text of some float
_DIGITS_OF_MICROS = 6
_MOST_DIGITS = 800  # more than the exact value of any double has
_SMALLEST = {"DOUBLE": "1e-290", "FLOAT": "1e-30"}  # below, floats have fewer digits


def matches(cell: str, pattern: str) -> str:
    """Return SQL that is true where the whole cell fits a pattern."""
    return f"regexp_full_match({cell}, {literal(pattern)})"


def is_plain_decimal(cell: str, *, zeros_first: bool = False) -> str:
    """Return SQL that is true for a plain decimal literal: a sign, digits and a point.

    Args:
        cell: SQL of the text.
        zeros_first: Whether `007` is one, too: only if the request states that the column holds numbers.
    """
    return matches(cell, _ZEROS_FIRST if zeros_first else _PLAIN)


def find_number_pattern(kind: str) -> str:
    """Return the regular expression of texts that are numbers of a type."""
    return f"{_FLOAT}|{_NO_NUMBER}" if kind in {"DOUBLE", "FLOAT"} else _PLAIN


def normalize_decimal(cell: str) -> str:
    """Return SQL of the normal form of a plain decimal literal, of any length.

    No `+`, no zeros at the end of a fraction, no point without a fraction, no `-0`.
    """
    text = f"regexp_replace({cell}, '^[+]', '')"
    text = rf"regexp_replace({text}, '^(-?)0*([0-9])', '\1\2')"
    text = rf"regexp_replace({text}, '^(-?)[.]', '\10.')"
    text = rf"regexp_replace({text}, '([.][0-9]*?)0*$', '\1')"
    text = f"regexp_replace({text}, '[.]$', '')"
    return f"CASE {text} WHEN '-0' THEN '0' ELSE {text} END"


def write_digits(value: str, kind: str, float_type: str | None) -> str:
    """Return SQL of the text of a number, with all of its digits: one text per number.

    Args:
        value: SQL of the number.
        kind: Its DuckDB type.
        float_type: In which some of the numbers that it is compared with are held; None: all are exact.
    """
    if kind_of(kind) == "float":
        return _write_float_digits(value)
    digits = normalize_decimal(f"{value}::VARCHAR")
    if kind_of(kind) == "decimal" and float_type is not None:
        # A decimal that the float holds has the text of the float.
        as_float = f"TRY_CAST({value} AS {float_type})"
        is_held = f"TRY_CAST({as_float} AS {kind}) = {value}"
        return f"CASE WHEN {is_held} THEN {_write_float_digits(as_float)} ELSE {digits} END"
    return digits


def _write_float_digits(value: str) -> str:
    """Return SQL of the text of a float: all digits of a whole number, else as the engine writes it."""
    is_whole = f"{value} = floor({value}) AND abs({value}) < 1e38"
    return f"CASE WHEN {is_whole} THEN TRY_CAST({value} AS HUGEINT)::VARCHAR ELSE {value}::VARCHAR END"


def normalize_number(cell: str) -> str:
    """Return SQL of a text: that of `normalize_decimal` for a plain decimal literal, null for an empty text."""
    return f"CASE WHEN {is_plain_decimal(cell)} THEN {normalize_decimal(cell)} ELSE nullif({cell}, '') END"


def count_whole_digits(cell: str) -> str:
    """Return SQL of the digits before the point of a plain decimal literal, without leading zeros."""
    return f"length(ltrim(split_part(ltrim({cell}, '+-'), '.', 1), '0'))"


def count_fraction_digits(cell: str) -> str:
    """Return SQL of the digits behind the point of a plain decimal literal, without zeros at the end."""
    return f"length(rtrim(split_part({cell}, '.', 2), '0'))"


def find_decimal(integer_digits: int, fraction_digits: int) -> str | None:
    """Return the type that holds every number of some digits before and behind the point; None where there is none."""
    if not fraction_digits and integer_digits <= BIGINT_DIGITS:
        return "BIGINT"
    digits = max(integer_digits, 1) + fraction_digits
    if digits > DECIMAL_DIGITS:
        return None
    width = BIGINT_DIGITS if digits <= BIGINT_DIGITS else DECIMAL_DIGITS
    return f"DECIMAL({width},{fraction_digits})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReader:
    """SQL that reads one cell as one type."""

    fits: str  # true: the text is a way to write a value of the type
    value: str  # the value, where it fits


def find_reader(cell: str, kind: str) -> CellReader | None:
    """Return how a cell is read as a type of DuckDB; None for a type that has no reading.

    Whole numbers and decimals are no matter of this function: they are read exactly as `is_plain_decimal` has it.

    Args:
        cell: SQL of the text.
        kind: Other than text.
    """
    if kind in {"DOUBLE", "FLOAT"}:
        return CellReader(fits=_is_float(cell, kind), value=f"TRY_CAST({cell} AS {kind})")
    if kind.startswith("TIMESTAMP"):
        return _find_moment_reader(cell, kind)
    if kind not in _PATTERNS:
        return None
    fits = matches(cell, _PATTERNS[kind])
    if kind in _DIGITS_OF_TIME:
        fits += f" AND {_has_fraction(cell, _DIGITS_OF_TIME[kind])}"
    return _cast_where(fits, f"TRY_CAST({cell} AS {kind})")


def _cast_where(fits: str, value: str) -> CellReader:
    return CellReader(fits=f"({fits} AND {value} IS NOT NULL)", value=value)


def _find_moment_reader(cell: str, kind: str) -> CellReader:
    unit = _FRACTION.fullmatch(kind)
    digits = 6 if unit is None else _DIGITS_OF_UNIT[unit["unit"]]
    fits = f"{matches(cell, _MOMENT)} AND {_has_fraction(cell, digits)}"
    if digits <= _DIGITS_OF_MICROS:
        return _cast_where(fits, f"TRY_CAST({cell} AS TIMESTAMPTZ)::{kind}")
    # DuckDB reads nanoseconds without a zone alone: the offset is subtracted from what the clock shows.
    text = f"regexp_replace({cell}, {literal('( ?(?i:z|utc))$')}, '')"
    clock = f"regexp_replace({text}, {literal(_CLOCK_WITH_OFFSET)}, '\\1')"
    sign, hours, minutes = (f"regexp_extract({text}, {literal(_CLOCK_WITH_OFFSET)}, {n})" for n in (2, 3, 4))
    seconds = " + ".join(
        f"coalesce(TRY_CAST({sign} || {part} AS BIGINT), 0) * {size}" for part, size in ((hours, 3600), (minutes, 60))
    )
    moment = f"epoch_ns(TRY_CAST({clock} AS TIMESTAMP_NS)) - ({seconds}) * 1000000000"
    return _cast_where(fits, f"TRY(make_timestamp_ns({moment}))::{kind}")


def _has_fraction(cell: str, digits: int) -> str:
    """Return SQL that is true for a time whose seconds have at most this many significant digits."""
    return f"length(rtrim(regexp_extract({cell}, '[.]([0-9]*)', 1), '0')) <= {digits}"


def _is_float(cell: str, kind: str) -> str:
    """Return SQL that is true for a text that rounds a float to as many digits as it has, or that is no number.

    `0.1` and `0.10000000000000001` are both ways to write one double; `9007199254740993` is none, as the nearest
    double is another whole number.
    """
    value, digits = f"TRY_CAST({cell} AS {kind})", _strip_digits(cell)
    places = f"greatest(least(length({digits}), {_MOST_DIGITS}) - 1, 0)::INTEGER"
    rounded = _strip_digits(f"format('{{:.{{}}e}}', {value}::DOUBLE, {places})")
    usual = f"length({digits}) <= {_EXACT_DIGITS[kind]} AND abs({value}) >= {_SMALLEST[kind]}"
    is_print = f"CASE WHEN {digits} = '' THEN true WHEN NOT isfinite({value}) THEN false"
    is_print += f" WHEN {usual} THEN true ELSE {rounded} = {digits} END"
    return f"(({matches(cell, _FLOAT)} AND {is_print}) OR {matches(cell, _NO_NUMBER)})"


def _strip_digits(text: str) -> str:
    """Return SQL of the digits of a number that count: without sign, point, exponent, zeros first and last."""
    return f"trim(regexp_replace(regexp_replace({text}, '[eE].*$', ''), '[^0-9]', '', 'g'), '0')"
