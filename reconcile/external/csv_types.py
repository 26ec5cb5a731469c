"""Which types the numbers and times of CSV are read as: those that hold them as they are written.

DuckDB takes every number with a point for a double and every time for one of microseconds. Two ids of twenty digits,
or two times a nanosecond apart, would be the same value then.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping

import duckdb

from cutover.quoting import identifier, literal

_DIGITS = 38  # of the widest decimal
_PRINTED = 15  # digits that a double holds whatever they are; with 16 or 17 it prints itself
_PLAIN = r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*"
_FINE = r".*\.[0-9]{7,}.*"
_FINER = r".*\.[0-9]{10,}.*"


def choose_types(connection: duckdb.DuckDBPyConnection, function: str) -> str:
    """Return the option `types` of a function that reads CSV; empty where what DuckDB guesses holds every value.

    A column of plain decimals is read as decimals, unless all of them are doubles as a double prints itself, with 16 or
    17 digits: those come from sums of doubles, which are compared with their noise.

    Args:
        connection: To read with.
        function: Up to its closing bracket, without `sample_size`.
    """
    plain = f"{function}, hive_partitioning = false"
    guessed = connection.execute(f"DESCRIBE FROM {plain}, sample_size = -1)").fetchall()
    text = f"(FROM {plain}, all_varchar = true))"
    chosen = {}
    for name, kind, *_ in guessed:
        better = None
        if kind == "DOUBLE":
            better = _find_decimal(connection, text, name)
        elif kind.startswith("TIME"):
            better = _find_time(connection, text, name, kind)
        if better is not None:
            chosen[str(name)] = better
    return _name_types(chosen)


def _name_types(chosen: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in chosen.items())
    return f", types = {{{pairs}}}" if pairs else ""


def _find_decimal(connection: duckdb.DuckDBPyConnection, text: str, name: str) -> str | None:
    """Return the decimal type that holds every number of a column; None where a double is what was written."""
    column = identifier(name)
    digits = f"regexp_replace({column}, '[^0-9.]', '', 'g')"
    whole = f"length(ltrim(split_part({digits}, '.', 1), '0'))"
    after = f"length(split_part({digits}, '.', 2))"
    shown = f"length(ltrim(rtrim(replace({digits}, '.', ''), '0'), '0'))"
    query = f"SELECT bool_and(regexp_full_match({column}, {literal(_PLAIN)})), max({whole}), max({after}), max({shown})"
    found = connection.execute(f"{query} FROM {text} WHERE {column} IS NOT NULL").fetchone()
    is_plain, most, scale, longest = found or (None, 0, 0, 0)
    if not is_plain or most + scale > _DIGITS:
        return "VARCHAR" if is_plain else None
    kind = f"DECIMAL({max(most + scale, 1)},{scale})"
    if longest <= _PRINTED:
        return kind
    same = f"TRY_CAST(({column}::DOUBLE)::VARCHAR AS {kind}) IS NOT DISTINCT FROM TRY_CAST({column} AS {kind})"
    printed = connection.execute(f"SELECT bool_and({same}) FROM {text} WHERE {column} IS NOT NULL").fetchone()
    return None if printed and printed[0] else kind


def _find_time(connection: duckdb.DuckDBPyConnection, text: str, name: str, kind: str) -> str | None:
    """Return a type that holds times finer than a microsecond; None where there are none."""
    column = identifier(name)
    marks = (f"coalesce(bool_or(regexp_full_match({column}, {literal(mark)})), false)" for mark in (_FINE, _FINER))
    is_fine, is_finer = connection.execute(f"SELECT {', '.join(marks)} FROM {text}").fetchone() or (False, False)
    if not is_fine:
        return None
    return "TIMESTAMP_NS" if kind == "TIMESTAMP" and not is_finer else "VARCHAR"
