"""Kinds of DuckDB's types: numbers, times, and types that are comparable with each other."""

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_FLOATS = ("FLOAT", "DOUBLE")


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


def is_float(name: str) -> bool:
    """Return whether sums of a type depend on the order of rows."""
    return kind_of(name) == "float"
