"""Columns that two tables have in common, each in the type that both fit; what does not fit is no equal value."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import duckdb

from cutover.engine.queries import count_where, first
from cutover.quoting import identifier
from cutover.reconcile.comparison.column_types import kind_of
from cutover.reconcile.comparison.nested_values import Path
from cutover.reconcile.external import cell_texts
from cutover.reconcile.external.name_hints import find_like_names, format_map_options, shown
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
    own: tuple[
        Mapping[str, str], ...
    ]  # types of each side; where they differ, parts that are null everywhere have none
    as_digits: frozenset[str]  # numbers that no decimal of the engine holds: compared by all of their digits
    integers: Mapping[str, frozenset[Path]]  # parts of columns that hold integers on one side, floats on the other
    numbers: Mapping[str, str]  # columns of texts that stand for numbers -> type of these
    notes: tuple[str, ...]  # what differs in the schemas
    is_same: bool  # no column is on one side only, no two types are of another kind, every value fits the common type

    def convert(self, side: int, name: str, value: str) -> str:
        """Return SQL of a value of one side in the type that both are compared as."""
        own, kind = self.own[side][name], self.common[name]
        if name in self.as_digits:
            text = f"{value}::VARCHAR"
            if kind_of(own) == "float":
                return _float_digits(value)
            digits = cell_texts.normalize_decimal(text)
            if kind_of(own) == "decimal" and name in self.numbers:  # a decimal that a float holds has the text of that
                as_float = f"TRY_CAST({value} AS {self.numbers[name]})"
                is_held = f"TRY_CAST({as_float} AS {own}) = {value}"
                return f"CASE WHEN {is_held} THEN {_float_digits(as_float)} ELSE {digits} END"
            return digits
        return convert(value, own, kind)


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
        numbers: Columns of texts that stand for numbers, with the type of these.
    """
    own = tuple(types_of(connection, view) for view in raw)
    left, right = own
    widen = _Widening(connection)
    shared = {name: find_common_type(kind, right[name], widen) for name, kind in left.items() if name in right}
    unlike = [name for name, kind in shared.items() if not kind.is_alike or kind.missing]
    own = tuple(_drop_empty(connection, view, types, unlike) for view, types in zip(raw, own, strict=True))
    shared |= {name: find_common_type(own[0][name], own[1][name], widen) for name in unlike}
    changed = _count_changed_values(connection, raw, own, shared)
    kinds = {name: {kind_of(left[name]), kind_of(right[name])} for name in shared}
    fitting = _find_exact_types(connection, raw, [name for name in changed if kinds[name] <= _EXACT])
    shared |= {name: replace(shared[name], name=kind) for name, kind in fitting.items()}
    changed = {name: count for name, count in changed.items() if name not in fitting}
    digits = {name for name in changed if kinds[name] <= _EXACT or (kinds[name] <= _NUMBERS and "float" in kinds[name])}
    common = {name: "VARCHAR" if name in digits else kind.name for name, kind in shared.items()}
    integers = {name: paths for name in common if (paths := list_integer_parts(own[0][name], own[1][name]))}
    floats = {name: "DOUBLE" if name in integers else shared[name].name for name in digits if "float" in kinds[name]}
    lossy = {name: count for name, count in changed.items() if name not in digits}
    apart = [name for name, kind in shared.items() if name in lossy or not kind.is_alike or kind.missing]
    found = Columns(
        common=common,
        own=own,
        as_digits=frozenset(digits),
        integers=integers,
        numbers={**numbers, **floats},
        notes=(*_describe_schemas((left, right), common, shared), *_describe_lossy(lossy, common)),
        is_same=left.keys() == right.keys() and not apart,
    )
    for side, (view, name) in enumerate(zip(raw, into, strict=True)):
        columns = ", ".join(f"{found.convert(side, c, identifier(c))} AS {identifier(c)}" for c in common)
        connection.execute(f"CREATE TEMP VIEW {identifier(name)} AS SELECT {columns or '1'} FROM {identifier(view)}")
    return found


class _Widening:
    """The type that two scalar types of one kind both fit, as DuckDB has it; asked once for each pair."""

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
    """Return the types of a side, in which parts of some columns that are null everywhere have no type of their own."""
    places = [(name, path) for name in names for path in list_parts(types[name])]
    counts = {place: count_where(has_value(identifier(place[0]), types[place[0]], place[1])) for place in places}
    empty: dict[str, set[tuple[str, ...]]] = {}
    for (name, path), count in _count_each(connection, view, counts):
        if not count:
            empty.setdefault(name, set()).add(path)
    return {**types, **{name: drop_types(types[name], paths) for name, paths in empty.items()}}


def _count_each(
    connection: duckdb.DuckDBPyConnection, view: str, counts: Mapping[Place, str]
) -> Iterator[tuple[Place, int]]:
    """Yield a column, or a part of one, with what an aggregate counts of it."""
    names = [*counts]
    for start in range(0, len(names), _COLUMNS_A_QUERY):
        some = names[start : start + _COLUMNS_A_QUERY]
        row = first(connection, f"SELECT {', '.join(counts[name] for name in some)} FROM {identifier(view)}")
        yield from zip(some, (int(count or 0) for count in row), strict=True)


def _count_changed_values(
    connection: duckdb.DuckDBPyConnection,
    raw: Sequence[str],
    own: Sequence[Mapping[str, str]],
    shared: Mapping[str, CommonType],
) -> dict[str, int]:
    """Return the columns of which the common type does not hold every value, and how many values it does not hold."""
    found: dict[str, int] = {}
    for view, types in zip(raw, own, strict=True):
        counts = {}
        for name, kind in shared.items():
            mine = restrict(types[name], kind.name)
            if kind.name in {mine, "VARCHAR"} or not kind.is_alike:
                continue
            value = convert(identifier(name), types[name], mine)
            back = convert(convert(value, mine, kind.name), kind.name, mine)
            counts[name] = count_where(f"{back} IS DISTINCT FROM {value}")
        for name, count in _count_each(connection, view, counts):
            if count:
                found[name] = found.get(name, 0) + count
    return found


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
    most = dict.fromkeys(counts, 0)
    for view in raw if names else ():
        for place, digits in _count_each(connection, view, counts):
            most[place] = max(most[place], digits)
    kinds = {name: cell_texts.find_decimal(most[name, "whole"], most[name, "fraction"]) for name in names}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _describe_schemas(
    own: Sequence[Mapping[str, str]], common: Mapping[str, str], shared: Mapping[str, CommonType]
) -> Iterator[str]:
    left, right = own
    yield from (f"Column `{name}` is on the expected side only." for name in left if name not in right)
    yield from (f"Column `{name}` is on the actual side only." for name in right if name not in left)
    alike = [*find_like_names(left, right)]
    if alike:
        count = count_noun(len(alike), "column")
        yield f"{count} of both sides are written almost alike: `{format_map_options(alike)}` says that they are one."
    for name, kind in shared.items():
        for side, path in kind.missing:
            yield f"Field `{name}{path}` is on the {SIDES[side]} side only."
        paths = [[f"{name}{path}" for on, path in kind.missing if on == side] for side in (0, 1)]
        for ours, theirs in find_like_names(*paths):
            yield f"Fields `{ours}` and `{theirs}` are written almost alike: rename one, or `--exclude {shown(name)}`."
        if left[name] != right[name]:
            ours = f"Column `{name}` is {left[name]} on the expected side, {right[name]} on the actual side"
            yield f"{ours}: compared as {common[name].replace(NO_TYPE, 'NULL')}."


def _describe_lossy(lossy: Mapping[str, int], common: Mapping[str, str]) -> Iterator[str]:
    for name, changed in lossy.items():
        yield f"Column `{name}`: {changed:,} values do not fit into {common[name]}."
