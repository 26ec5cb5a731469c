"""Columns that two tables have in common, each in the type that both fit; what does not fit is no equal value."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import duckdb

from cutover.engine.queries import count_where, first
from cutover.quoting import identifier
from cutover.reconcile.comparison.column_types import kind_of
from cutover.reconcile.comparison.nested_values import Path
from cutover.reconcile.external import cell_texts
from cutover.reconcile.external.name_hints import find_like_names, format_map_options, quote_word
from cutover.reconcile.external.nested import (
    NO_TYPE,
    CommonType,
    convert,
    drop_types,
    find_common_type,
    has_value,
    list_integer_parts,
    list_parts,
    restrict,
)
from cutover.reconcile.external.sources import types_of
from cutover.reconcile.result.text import count_noun

Place = TypeVar("Place")  # a column, or a part of one

SIDES = ("expected", "actual")
_EXACT = {"whole", "decimal"}
_NUMBERS = {*_EXACT, "float"}
_COLUMNS_A_QUERY = 200
"""Columns of which one query counts something: it is planned in a time that grows faster than they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that two tables have in common, with the type that both are compared as."""

    common: Mapping[str, str]
    types_by_side: tuple[Mapping[str, str], ...]  # where they differ, parts that are null everywhere have no type
    as_digits: frozenset[str]  # numbers that no decimal of the engine holds: compared by all of their digits
    integers: Mapping[str, frozenset[Path]]  # parts of columns that hold integers on one side, floats on the other
    numbers: Mapping[str, str]  # text columns that contain numbers -> type of the numbers
    notes: tuple[str, ...]  # what differs in the schemas
    is_same: bool  # no column is on one side only, no two types are of another kind, every value fits the common type

    def convert(self, side: int, name: str, value: str) -> str:
        """Return SQL of a value of one side in the type that both are compared as."""
        side_type, kind = self.types_by_side[side][name], self.common[name]
        if name in self.as_digits:
            text = f"{value}::VARCHAR"
            if kind_of(side_type) == "float":
                return _float_digits(value)
            digits = cell_texts.normalize_decimal(text)
            if kind_of(side_type) == "decimal" and name in self.numbers:
                # A decimal that the float holds has the text of the float.
                as_float = f"TRY_CAST({value} AS {self.numbers[name]})"
                is_held = f"TRY_CAST({as_float} AS {side_type}) = {value}"
                return f"CASE WHEN {is_held} THEN {_float_digits(as_float)} ELSE {digits} END"
            return digits
        return convert(value, side_type, kind)


def _float_digits(value: str) -> str:
    """Return SQL of the text of a float: all digits of a whole number, else as the engine writes it."""
    is_whole = f"{value} = floor({value}) AND abs({value}) < 1e38"
    return f"CASE WHEN {is_whole} THEN TRY_CAST({value} AS HUGEINT)::VARCHAR ELSE {value}::VARCHAR END"


def align(
    connection: duckdb.DuckDBPyConnection, raw: Sequence[str], into: Sequence[str], numbers: Mapping[str, str]
) -> Columns:
    """Make both sides comparable: views `into` over `raw` with the common columns, cast to the common type.

    Args:
        connection: Holds the views `raw`, expected side first.
        raw: Names of two views.
        into: Names of the views to make.
        numbers: Text columns that contain numbers, with the type of the numbers.
    """
    types_by_side = tuple(types_of(connection, view) for view in raw)
    left, right = types_by_side
    widen = _Widening(connection)
    shared_types = {name: find_common_type(kind, right[name], widen) for name, kind in left.items() if name in right}
    unlike_names = [name for name, kind in shared_types.items() if not kind.is_alike or kind.missing]
    types_by_side = tuple(
        _drop_empty(connection, view, types, unlike_names) for view, types in zip(raw, types_by_side, strict=True)
    )
    shared_types |= {
        name: find_common_type(types_by_side[0][name], types_by_side[1][name], widen) for name in unlike_names
    }
    changed_counts = _count_changed_values(connection, raw, types_by_side, shared_types)
    kinds = {name: {kind_of(left[name]), kind_of(right[name])} for name in shared_types}
    exact_types = _find_exact_types(connection, raw, [name for name in changed_counts if kinds[name] <= _EXACT])
    shared_types |= {name: replace(shared_types[name], name=kind) for name, kind in exact_types.items()}
    changed_counts = {name: count for name, count in changed_counts.items() if name not in exact_types}
    digit_names = {
        name for name in changed_counts if kinds[name] <= _EXACT or (kinds[name] <= _NUMBERS and "float" in kinds[name])
    }
    common_types = {name: "VARCHAR" if name in digit_names else kind.name for name, kind in shared_types.items()}
    integers = _find_integers(types_by_side, common_types)
    floats = {name: shared_types[name].name for name in digit_names if "float" in kinds[name]}
    float_types = {name: "DOUBLE" if name in integers else kind for name, kind in floats.items()}
    lossy_counts = {name: count for name, count in changed_counts.items() if name not in digit_names}
    is_alike = not lossy_counts and all(kind.is_alike and not kind.missing for kind in shared_types.values())
    columns = Columns(
        common=common_types,
        types_by_side=types_by_side,
        as_digits=frozenset(digit_names),
        integers=integers,
        numbers={**numbers, **float_types},
        notes=(
            *_describe_schemas((left, right), common_types, shared_types),
            *_describe_lossy(lossy_counts, common_types),
        ),
        is_same=left.keys() == right.keys() and is_alike,
    )
    for side, names in enumerate(zip(raw, into, strict=True)):
        _make_view(connection, columns, side, *names)
    return columns


def _make_view(connection: duckdb.DuckDBPyConnection, columns: Columns, side: int, raw: str, into: str) -> None:
    converted = (f"{columns.convert(side, name, identifier(name))} AS {identifier(name)}" for name in columns.common)
    selected = ", ".join(converted) or "1"
    connection.execute(f"CREATE TEMP VIEW {identifier(into)} AS SELECT {selected} FROM {identifier(raw)}")


def _find_integers(types_by_side: Sequence[Mapping[str, str]], names: Iterable[str]) -> dict[str, frozenset[Path]]:
    """Return the columns with parts that hold integers on one side and floats on the other."""
    expected, actual = types_by_side
    return {name: paths for name in names if (paths := list_integer_parts(expected[name], actual[name]))}


class _Widening:
    """The type that two scalar types of one kind both fit, as DuckDB has it; queried once for each pair."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, left: str, right: str) -> str:
        if (left, right) not in self._known:
            query = f"DESCRIBE SELECT CAST(NULL AS {left}) AS c UNION ALL SELECT CAST(NULL AS {right})"
            self._known[left, right] = str(self._connection.execute(query).fetchall()[0][1])
        return self._known[left, right]


def _drop_empty(
    connection: duckdb.DuckDBPyConnection, view: str, types: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    """Return the types of a side, in which parts of some columns that are null everywhere have no type."""
    places = [(name, path) for name in names for path in list_parts(types[name])]
    counts = {place: count_where(has_value(identifier(place[0]), types[place[0]], place[1])) for place in places}
    empty_paths: dict[str, set[tuple[str, ...]]] = {}
    for (name, path), count in _count_each(connection, view, counts):
        if not count:
            empty_paths.setdefault(name, set()).add(path)
    return {**types, **{name: drop_types(types[name], paths) for name, paths in empty_paths.items()}}


def _count_each(
    connection: duckdb.DuckDBPyConnection, view: str, counts: Mapping[Place, str]
) -> Iterator[tuple[Place, int]]:
    """Yield a column, or a part of one, with what an aggregate counts of it."""
    names = [*counts]
    for start in range(0, len(names), _COLUMNS_A_QUERY):
        batch = names[start : start + _COLUMNS_A_QUERY]
        row = first(connection, f"SELECT {', '.join(counts[name] for name in batch)} FROM {identifier(view)}")
        yield from zip(batch, (int(count or 0) for count in row), strict=True)


def _count_changed_values(
    connection: duckdb.DuckDBPyConnection,
    raw: Sequence[str],
    types_by_side: Sequence[Mapping[str, str]],
    shared: Mapping[str, CommonType],
) -> dict[str, int]:
    """Return the columns of which the common type does not hold every value, and how many values it does not hold."""
    changed_counts: dict[str, int] = {}
    for view, types in zip(raw, types_by_side, strict=True):
        counts = {}
        for name, kind in shared.items():
            side_type = restrict(types[name], kind.name)
            if kind.name in {side_type, "VARCHAR"} or not kind.is_alike:
                continue
            value = convert(identifier(name), types[name], side_type)
            restored_value = convert(convert(value, side_type, kind.name), kind.name, side_type)
            counts[name] = count_where(f"{restored_value} IS DISTINCT FROM {value}")
        for name, count in _count_each(connection, view, counts):
            if count:
                changed_counts[name] = changed_counts.get(name, 0) + count
    return changed_counts


def _find_exact_types(
    connection: duckdb.DuckDBPyConnection, raw: Sequence[str], names: Sequence[str]
) -> dict[str, str]:
    """Return, of columns of numbers, a type that holds every value of both sides exactly, where there is one."""
    counters = {"whole": cell_texts.count_whole_digits, "fraction": cell_texts.count_fraction_digits}
    counts = {
        (name, part): f"max({count(f'{identifier(name)}::VARCHAR')})"
        for name in names
        for part, count in counters.items()
    }
    most_digits = dict.fromkeys(counts, 0)
    for view in raw if names else ():
        for place, digits in _count_each(connection, view, counts):
            most_digits[place] = max(most_digits[place], digits)
    kinds = {name: cell_texts.find_decimal(most_digits[name, "whole"], most_digits[name, "fraction"]) for name in names}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _describe_schemas(
    types_by_side: Sequence[Mapping[str, str]], common: Mapping[str, str], shared_types: Mapping[str, CommonType]
) -> Iterator[str]:
    left, right = types_by_side
    yield from (f"Column `{name}` is on the expected side only." for name in left if name not in right)
    yield from (f"Column `{name}` is on the actual side only." for name in right if name not in left)
    like_names = [*find_like_names(left, right)]
    if like_names:
        count = count_noun(len(like_names), "column")
        options = format_map_options(like_names)
        yield f"{count} of both sides are written almost alike: `{options}` says that they are one."
    for name, kind in shared_types.items():
        for side, path in kind.missing:
            yield f"Field `{name}{path}` is on the {SIDES[side]} side only."
        paths = [[f"{name}{path}" for on, path in kind.missing if on == side] for side in (0, 1)]
        for expected_path, actual_path in find_like_names(*paths):
            fields = f"Fields `{expected_path}` and `{actual_path}`"
            yield f"{fields} are written almost alike: rename one, or `--exclude {quote_word(name)}`."
        if left[name] != right[name]:
            sides_text = f"Column `{name}` is {left[name]} on the expected side, {right[name]} on the actual side"
            yield f"{sides_text}: compared as {common[name].replace(NO_TYPE, 'NULL')}."


def _describe_lossy(lossy: Mapping[str, int], common: Mapping[str, str]) -> Iterator[str]:
    for name, count in lossy.items():
        yield f"Column `{name}`: {count:,} values do not fit into {common[name]}."
