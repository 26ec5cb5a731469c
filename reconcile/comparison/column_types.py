"""Kinds of DuckDB's types that are comparable with each other, and SQL for the equality of nested values.

The numbers in lists, structs and maps are compared with a tolerance.
"""

from collections.abc import Callable

import duckdb
from duckdb.sqltypes import DuckDBPyType

from cutover.quoting import identifier

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_FLOATS = ("FLOAT", "DOUBLE")

Path = tuple[str, ...]
"""Names of fields, `child`, `key` or `value` that lead to a part of a value; empty for the value itself."""

SameNumber = Callable[[str, str, str, Path], str | None]
"""Function that returns SQL for the equality of two scalars of a type at a path; None: compare exactly."""


def is_alike(left: str, right: str) -> bool:
    """Return whether two types are of one kind, so that a cast between them changes no value that fits."""
    numbers = {"whole", "decimal", "float"}
    kinds = {kind_of(left), kind_of(right)}
    return left == right or kinds <= numbers or kinds in ({"timestamp"}, {"time"})


def kind_of(name: str) -> str:
    """Return the kind of a type: `whole`, `decimal`, `float`, `timestamp`, `time`, else its own name."""
    if name.endswith("]"):
        return name  # a list of numbers is not a number
    if name in _NUMBERS:
        return "whole"
    if name in _FLOATS:
        return "float"
    if name.startswith("DECIMAL"):
        return "decimal"
    if name in {"TIME", "TIME_NS"}:
        return "time"
    return "timestamp" if name.startswith("TIMESTAMP") else name


def is_number(name: str) -> bool:
    """Return whether values of a type can have a numeric tolerance."""
    return kind_of(name) in {"whole", "decimal", "float"}


def is_time(name: str) -> bool:
    """Return whether values of a type can have a tolerance in time."""
    return name == "DATE" or kind_of(name) == "timestamp"


def is_from(value: str, name: str, micros: int) -> str:
    """Return SQL that is true where a date or a timestamp of a type is at a time (microseconds) or later."""
    # The engine has no cast from times with a zone in nanoseconds to microseconds.
    is_reached = (
        f"epoch_ns({value}) >= {micros}000" if name == "TIMESTAMPTZ_NS" else f"epoch_us({value}::TIMESTAMP) >= {micros}"
    )
    return f"coalesce({is_reached}, false)"


def is_float_column(name: str) -> bool:
    """Return whether sums of a type depend on the order of rows."""
    return kind_of(name) == "float"


def is_same_sql(left: str, right: str, kind: str, same_number: SameNumber) -> str:
    """Return SQL that is true where two values of a type are equal, number by number.

    Entries of maps must be in the order of their keys, which are compared exactly.

    Args:
        left: SQL of a value.
        right: SQL of the other.
        kind: Their DuckDB type.
        same_number: Comparison of two scalars inside them.
    """
    return _is_same(left, right, duckdb.sqltype(kind), same_number, ())


def holds(kind: str, is_match: Callable[[str], bool]) -> bool:
    """Return whether a list, struct or map contains values of a matching scalar type, except in keys of maps."""
    parsed = duckdb.sqltype(kind)
    return bool(parts_of(parsed)) and _holds(parsed, is_match)


def _holds(kind: DuckDBPyType, is_match: Callable[[str], bool]) -> bool:
    parts = parts_of(kind)
    if not parts:
        return is_match(str(kind))
    return any(_holds(part, is_match) for name, part in parts.items() if (kind.id, name) != ("map", "key"))


def parts_of(kind: DuckDBPyType) -> dict[str, DuckDBPyType]:
    """Return the parts of a nested type by name: `child` of a list, `key` and `value` of a map, fields."""
    if kind.id not in {"list", "array", "map", "struct"}:
        return {}
    return {name: part for name, part in kind.children if isinstance(part, DuckDBPyType)}


def _is_same(left: str, right: str, kind: DuckDBPyType, same_number: SameNumber, path: Path) -> str:
    exact = f"({left} IS NOT DISTINCT FROM {right})"
    parts, pair = parts_of(kind), f"pair_{len(path)}"
    if not parts:
        return same_number(left, right, str(kind), path) or exact
    if kind.id == "struct":
        conditions = [
            _is_same(f"{left}.{identifier(name)}", f"{right}.{identifier(name)}", part, same_number, (*path, name))
            for name, part in parts.items()
        ]
    elif kind.id == "map":
        is_same_value = _is_same(f"{pair}[1].value", f"{pair}[2].value", parts["value"], same_number, (*path, "value"))
        entries = f"list_zip(map_entries({left}), map_entries({right}))"
        conditions = [f"map_keys({left}) = map_keys({right})", _is_all(entries, pair, is_same_value)]
    else:
        item = _is_same(f"{pair}[1]", f"{pair}[2]", parts["child"], same_number, (*path, "child"))
        conditions = [f"len({left}) = len({right})", _is_all(f"list_zip({left}, {right})", pair, item)]
    all_conditions = " AND ".join([f"{left} IS NOT NULL", f"{right} IS NOT NULL", *conditions])
    return f"({exact} OR coalesce({all_conditions}, false))"


def _is_all(entries: str, pair: str, condition: str) -> str:
    return f"NOT list_contains(list_transform({entries}, lambda {pair}: {condition}), false)"
