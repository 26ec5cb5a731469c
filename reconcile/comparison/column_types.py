"""Types of DuckDB: kinds that are comparable with each other, the type that two columns fit, and SQL of their values.

Nested values (lists, structs, maps) are equal if their parts are; numbers in them are compared with a tolerance. Fields
of a struct have names and no order, as columns do; entries of a map have no order at all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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


NO_TYPE = '"NULL"'
"""What DuckDB calls the type of a column of which nothing but nulls was ever written."""

_NESTED = {"list", "array", "map", "struct"}


def sort_maps(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """Return SQL of a value in which the entries of each map are in the order of their keys.

    Args:
        value: SQL of the value.
        kind: Its type.
        depth: Of the lambda around it, so that each parameter has a unique name.
    """
    if not _holds_map(kind):
        return value
    parts, item = parts_of(kind), f"part_{depth}"
    if kind.id in {"list", "array"}:
        return f"list_transform({value}, lambda {item}: {sort_maps(item, parts['child'], depth + 1)})"
    if kind.id == "map":
        key, entry_value = (sort_maps(f"{item}.{name}", parts[name], depth + 1) for name in ("key", "value"))
        entries = f"list_transform(map_entries({value}), lambda {item}: {{'key': {key}, 'value': {entry_value}}})"
        return f"map_from_entries(list_sort({entries}))"
    return _pack(value, {name: sort_maps(f"{value}.{identifier(name)}", part, depth) for name, part in parts.items()})


def _holds_map(kind: DuckDBPyType) -> bool:
    """Return whether a map stands anywhere in a type."""
    return kind.id == "map" or any(_holds_map(part) for part in parts_of(kind).values())


def _pack(value: str, fields: dict[str, str]) -> str:
    packed_fields = ", ".join(f"{identifier(name)} := {field}" for name, field in fields.items())
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({packed_fields}) END"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonType:
    """A type that values of two others are compared as."""

    name: str
    is_alike: bool  # every part is of one kind on both sides
    missing: tuple[tuple[int, str], ...] = ()  # side and path of each field that only that side has


def find_common_type(left: str, right: str, widen: Callable[[str, str], str]) -> CommonType:
    """Return the type that two types are compared as, fields of structs by name.

    Args:
        left: DuckDB type of the expected side.
        right: Of the actual side.
        widen: The type of two scalar ones of one kind.
    """
    if left == right:
        return CommonType(name=left, is_alike=True)
    return _merge(duckdb.sqltype(left), duckdb.sqltype(right), widen, "")


def _merge(column_type: DuckDBPyType, right: DuckDBPyType, widen: Callable[[str, str], str], path: str) -> CommonType:
    names = str(column_type), str(right)
    if NO_TYPE in names or names[0] == names[1]:  # types of DuckDB are equal though names of fields differ in case
        return CommonType(name=names[0] if names[1] == NO_TYPE else names[1], is_alike=True)
    ids = {_shape(column_type), _shape(right)}
    if ids == {"struct"}:
        return _merge_structs(column_type, right, widen, path)
    if len(ids) == 1 and ids <= _NESTED:
        left_parts, right_parts = parts_of(column_type), parts_of(right)
        merged = {name: _merge(part, right_parts[name], widen, f"{path}[]") for name, part in left_parts.items()}
        merged_type = (
            f"{merged['child'].name}[]" if "child" in merged else f"MAP({merged['key'].name}, {merged['value'].name})"
        )
        return _combine(merged_type, list(merged.values()))
    if ids & _NESTED or not is_alike(*names):
        return CommonType(name="VARCHAR", is_alike=False)
    return CommonType(name=widen(*names), is_alike=True)


def _shape(kind: DuckDBPyType) -> str:
    return "list" if kind.id == "array" else kind.id


def _merge_structs(
    column_type: DuckDBPyType, right: DuckDBPyType, widen: Callable[[str, str], str], path: str
) -> CommonType:
    left_parts, right_parts = parts_of(column_type), parts_of(right)
    merged = {
        name: _merge(part, right_parts[name], widen, f"{path}.{name}")
        for name, part in left_parts.items()
        if name in right_parts
    }
    missing = [(0, f"{path}.{name}") for name in left_parts if name not in right_parts]
    missing += [(1, f"{path}.{name}") for name in right_parts if name not in left_parts]
    if not merged:
        return CommonType(name="VARCHAR", is_alike=False, missing=tuple(missing))
    fields = ", ".join(f"{identifier(name)} {part.name}" for name, part in merged.items())
    return _combine(f"STRUCT({fields})", list(merged.values()), tuple(missing))


def _combine(name: str, parts: list[CommonType], missing: tuple[tuple[int, str], ...] = ()) -> CommonType:
    return CommonType(
        name=name,
        is_alike=all(part.is_alike for part in parts),
        missing=(*missing, *(absent for part in parts for absent in part.missing)),
    )


def convert(value: str, own: str, kind: str, digits: Mapping[Path, str | None] | None = None) -> str:
    """Return SQL of a value in another type: null where that does not hold it.

    Args:
        value: SQL of the value.
        own: Its DuckDB type, with `NO_TYPE` for parts that are null everywhere.
        kind: One that `find_common_type` made of it, or its own again.
        digits: Parts that are converted to the text of all their digits, with the float type of either side, if any.
    """
    return _convert(value, duckdb.sqltype(own), duckdb.sqltype(kind), digits or {}, ())


def _convert(
    value: str, column_type: DuckDBPyType, kind: DuckDBPyType, digits: Mapping[Path, str | None], path: Path
) -> str:
    if NO_TYPE in {str(column_type), str(kind)}:
        return f"NULL::{kind}"
    if str(column_type) == str(kind) and NO_TYPE not in str(column_type):
        return value
    own_parts, target_parts = parts_of(column_type), parts_of(kind)

    def convert_part(part_value: str, name: str) -> str:
        return _convert(part_value, own_parts[name], target_parts[name], digits, (*path, name))

    shapes, item = {_shape(column_type), _shape(kind)}, f"item_{len(path)}"
    if shapes == {"struct"}:
        fields = {name: convert_part(f"{value}.{identifier(name)}", name) for name in target_parts if name in own_parts}
        return _pack(value, fields)
    if shapes == {"list"}:
        return f"list_transform({value}, lambda {item}: {convert_part(item, 'child')})"
    if shapes == {"map"}:
        key, entry_value = (convert_part(f"{item}.{name}", name) for name in ("key", "value"))
        entries = f"list_transform(map_entries({value}), lambda {item}: {{'key': {key}, 'value': {entry_value}}})"
        return f"map_from_entries({entries})"
    if path in digits:
        value, column_type = write_digits(value, str(column_type), digits[path]), kind
    return value if column_type is kind else _cast(value, str(column_type), str(kind))


def _cast(value: str, own: str, kind: str) -> str:
    """Return SQL of a scalar in another type: null where that does not hold it."""
    if own == "TIMESTAMPTZ_NS" and kind != "TIMESTAMP_NS":  # the engine has a cast to few other types
        value = f"TRY_CAST({value} AS TIMESTAMP_NS)"
    return f"TRY_CAST({value} AS {kind})"


def show_nanoseconds(value: str, kind: str) -> str:
    """Return SQL of a value as Python may read it: moments in nanoseconds are texts, since Python has none."""
    if kind in {"TIMESTAMP_NS", "TIMESTAMPTZ_NS"}:
        return f"replace({_cast(value, kind, 'TIMESTAMP_NS')}::VARCHAR, ' ', 'T') || 'Z'"
    finest_parts = [path for path, part in list_parts(kind).items() if part.endswith("_NS")]
    if not finest_parts:
        return value
    return convert(value, kind, replace_parts(kind, dict.fromkeys(finest_parts, "VARCHAR")))


def is_changed(value: str, own: str, kind: str) -> str:
    """Return SQL that is true where another type does not hold a scalar."""
    return f"({_cast(_cast(value, own, kind), kind, own)} IS DISTINCT FROM {value})"


def list_parts(kind: str) -> dict[Path, str]:
    """Return every part of a type with its own, from the whole value, an empty path, down to fields and elements."""
    return dict(_list_parts(duckdb.sqltype(kind)))


def _list_parts(kind: DuckDBPyType) -> Iterator[tuple[Path, str]]:
    yield (), str(kind)
    for name, part in parts_of(kind).items():
        yield from (((name, *path), part_type) for path, part_type in _list_parts(part))


def is_scalar(kind: str) -> bool:
    """Return whether a type has no parts."""
    return not parts_of(duckdb.sqltype(kind))


def list_integer_parts(left: str, right: str) -> frozenset[Path]:
    """Return the path of each part that holds integers in one of two types, and floats in the other.

    Decimals without a fraction are integers, too. An empty path is the whole value.
    """
    return frozenset(_list_integer_parts(duckdb.sqltype(left), duckdb.sqltype(right)))


def _list_integer_parts(left: DuckDBPyType, right: DuckDBPyType) -> Iterator[Path]:
    left_parts, right_parts = parts_of(left), parts_of(right)
    for name in left_parts.keys() & right_parts.keys():
        yield from ((name, *path) for path in _list_integer_parts(left_parts[name], right_parts[name]))
    kinds = str(left), str(right)
    if not left_parts and not right_parts and any(map(is_float_column, kinds)) and any(map(_holds_integers, kinds)):
        yield ()


def _holds_integers(kind: str) -> bool:
    return kind_of(kind) == "whole" or (kind_of(kind) == "decimal" and kind.endswith(",0)"))


def find_greatest(value: str, kind: str, path: Path, measure: Callable[[str], str]) -> str:
    """Return SQL of the greatest of what a part of a value has in any element or entry; null where there is none.

    Args:
        value: SQL of the value.
        kind: Its type.
        path: Leads to the part.
        measure: Makes SQL of the part into SQL of a number or a truth value.
    """
    return _find_greatest(value, duckdb.sqltype(kind), path, measure, 0)


def _find_greatest(value: str, kind: DuckDBPyType, path: Path, measure: Callable[[str], str], depth: int) -> str:
    if not path:
        return measure(value)
    part, item = parts_of(kind)[path[0]], f"held_{depth}"
    if kind.id == "struct":
        return _find_greatest(f"{value}.{identifier(path[0])}", part, path[1:], measure, depth)
    inner = f"{item}.{path[0]}" if kind.id == "map" else item
    entries = f"map_entries({value})" if kind.id == "map" else value
    greatest = _find_greatest(inner, part, path[1:], measure, depth + 1)
    return f"list_max(list_transform({entries}, lambda {item}: {greatest}))"


def replace_parts(kind: str, types: Mapping[Path, str]) -> str:
    """Make another type of one by giving the parts at some paths types of their own."""
    return _replace_parts(duckdb.sqltype(kind), types, ()) if types else kind


def _replace_parts(kind: DuckDBPyType, types: Mapping[Path, str], path: Path) -> str:
    if path in types:
        return types[path]
    parts = {name: _replace_parts(part, types, (*path, name)) for name, part in parts_of(kind).items()}
    if kind.id == "struct":
        return f"STRUCT({', '.join(f'{identifier(name)} {part}' for name, part in parts.items())})"
    if kind.id == "map":
        return f"MAP({parts['key']}, {parts['value']})"
    return f"{parts['child']}[]" if parts else str(kind)


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
    """Return SQL of the text of a number or a moment, with all of its digits: one text for each.

    Args:
        value: SQL of the number or the moment.
        kind: Its DuckDB type.
        float_type: In which some of the numbers that it is compared with are held; None: all are exact.
    """
    if kind_of(kind) == "float":
        return _write_float_digits(value)
    if kind_of(kind) == "timestamp":
        in_utc = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "TIMESTAMPTZ_NS": "TIMESTAMP_NS"}.get(kind, kind)
        return f"TRY_CAST({value} AS {in_utc})::VARCHAR"
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
