"""Cells without a type (of CSV, and of folder names) as values, in SQL: which texts a type accepts, and their values.

A cell is read as a value of a type only if the text is a way to write exactly that value. Any other text stays what it
is, so that no reading makes two different texts equal: `007` is not 7, `0x1F` not 31, and a number of 40 digits is not
the double nearest to it.

`1.0` and `1` are one number, and two texts. If every cell of a column is a number they are compared as such; if the
type of the column is stated, as that type says. In columns of texts that also hold other cells neither answer can be
proven, so rows that differ only in how numbers are written are no evidence: they are not counted if other rows differ.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

import duckdb

from cutover.engine.queries import fetch_number
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.column_types import normalize_decimal
from cutover.reconcile.comparison.diff import Diff
from cutover.reconcile.comparison.layout import Layout
from cutover.sources.reading import DECIMAL_DIGITS

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

_ORDERED_VALUES = 100
"""Values by which rows of one key are ordered: a query takes as long as its window has columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReader:
    """SQL that reads one cell as one type."""

    fits: str  # true: the text is a way to write a value of the type
    value: str  # the value, where it fits


@dataclass(frozen=True, slots=True, kw_only=True)
class SpelledRows:
    """Numbers of rows that were removed since they differ only in how numbers are written, and of some that were not.

    Under a key that is written otherwise on both sides a row is missing and another is extra.
    """

    changed: int = 0
    keys: int = 0  # pairs of a missing and an extra row
    unequal_keys: int = 0  # such pairs that differ in their values, too: not removed

    def subtract_from(self, diff: Diff) -> Diff:
        """Return a result without the removed rows."""
        return replace(
            diff,
            changed=diff.changed - self.changed,
            missing=diff.missing - self.keys,
            extra=diff.extra - self.keys,
        )


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


def is_all_spelling(connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str]) -> bool:
    """Return whether some rows differ, and all of them only in how numbers are written.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns that are texts by inference, and of which some cells are plain decimals.
    """
    if not {*texts} & {*layout.columns} or not fetch_number(connection, "SELECT count(*) FROM different"):
        return False
    _pair_rows(connection, layout, texts, kinds=("changed", "missing", "extra"))
    paired = fetch_number(connection, "SELECT count(*) FROM spelled WHERE is_equal")
    rows_by_side = (f"SELECT count(*) FROM different WHERE __diff <> '{only}'" for only in ("extra", "missing"))
    return all(fetch_number(connection, query) == paired for query in rows_by_side)


def drop_spelled_rows(connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str]) -> SpelledRows:
    """Remove rows that differ only in how numbers are written from `different`, and count them.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns that are texts by inference, and of which some cells are plain decimals.
    """
    if not {*texts} & {*layout.columns}:
        return SpelledRows()
    _pair_rows(connection, layout, texts, kinds=("missing", "extra"))
    pairs, equal = (
        fetch_number(connection, f"SELECT count(*) FROM spelled WHERE {condition}")
        for condition in ("true", "is_equal")
    )
    connection.execute(
        "DELETE FROM different WHERE rowid IN (SELECT unnest([expected, actual]) FROM spelled WHERE is_equal)"
    )
    flags = _changed_flags(layout, texts)
    changes = ", ".join(f"__d{n} = {flag}" for n, flag in enumerate(flags) if flag != f"__d{n}")
    if changes:
        connection.execute(f"UPDATE different SET {changes} WHERE __diff = 'changed'")
    unchanged = f"__diff = 'changed' AND NOT ({_is_any([f'__d{n}' for n in range(len(flags))])})"
    changed = fetch_number(connection, f"SELECT count(*) FROM different WHERE {unchanged}")
    connection.execute(f"DELETE FROM different WHERE {unchanged}")
    return SpelledRows(changed=changed, keys=equal, unequal_keys=pairs - equal)


def _changed_flags(layout: Layout, texts: Collection[str]) -> list[str]:
    """Return SQL, for each value, that is true where it differs in more than how a number is written."""
    return [
        f"(__d{n} AND {_normalize(f'__e{n}', is_text=True)} IS DISTINCT FROM {_normalize(f'__a{n}', is_text=True)})"
        if value.name in texts
        else f"__d{n}"
        for n, value in enumerate(layout.values)
    ]


def _is_any(flags: Collection[str]) -> str:
    return f"list_contains([{', '.join(flags)}], true)" if flags else "false"


def _pair_rows(
    connection: duckdb.DuckDBPyConnection, layout: Layout, texts: Collection[str], *, kinds: Collection[str]
) -> None:
    """Make the table `spelled`: different rows of the expected side, each with one of the actual side.

    Their keys are the same in normal form. Rows of one key are paired in the order of their values, those with a
    tolerance last.

    Args:
        connection: Holds the table `different`.
        layout: Of both sides.
        texts: Columns whose values are brought to normal form.
        kinds: Of the rows in `different`: those of both sides are paired apart from their kind.
    """
    keys = [_normalize(identifier(name), is_text=name in texts) for name in layout.keys]
    ordered = sorted(range(len(layout.values)), key=lambda n: not layout.values[n].exact)[:_ORDERED_VALUES]
    sides = []
    for side, only in (("e", "extra"), ("a", "missing")):
        values = [_read_value(layout, texts, side, n) for n in ordered]
        rank = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {', '.join([*values, 'rowid'])})"
        columns = ", ".join(f"{key} AS key_{n}" for n, key in enumerate([*keys, rank]))
        kinds_of_side = ", ".join(f"'{kind}'" for kind in kinds if kind != only)
        sides.append(f"(SELECT rowid AS place, {columns} FROM different WHERE __diff IN ({kinds_of_side}))")
    same_key = " AND ".join(f"l.key_{n} IS NOT DISTINCT FROM r.key_{n}" for n in range(len(keys) + 1))
    differs = _is_any(
        [
            value.differs(_read_value(layout, texts, "e", n, "e."), _read_value(layout, texts, "a", n, "a."))
            for n, value in enumerate(layout.values)
        ]
    )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE spelled AS"
        f" SELECT e.rowid AS expected, a.rowid AS actual, NOT {differs} AS is_equal"
        f" FROM {sides[0]} l JOIN {sides[1]} r ON {same_key}"
        " JOIN different e ON e.rowid = l.place JOIN different a ON a.rowid = r.place"
    )


def _read_value(layout: Layout, texts: Collection[str], side: str, n: int, table: str = "") -> str:
    """Return SQL of a value in normal form; one that is within its tolerance is that of the expected side on both."""
    value = f"CASE WHEN {table}__diff = 'changed' AND NOT {table}__d{n} THEN {table}__e{n} ELSE {table}__{side}{n} END"
    return _normalize(value, is_text=layout.values[n].name in texts)


def _normalize(value: str, *, is_text: bool) -> str:
    return normalize_number(value) if is_text else value
